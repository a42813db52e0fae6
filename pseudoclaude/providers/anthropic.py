"""The Messages API, through its official SDK. No other module imports that SDK."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx2
from anthropic import AnthropicError, APIConnectionError, APIStatusError, AsyncAnthropic, AsyncStream, Timeout
from anyio import CancelScope, fail_after, move_on_after, to_thread
from anyio.lowlevel import RunVar

from ..chat import ModelRequest
from ..errors import ProviderError, SettingsError
from .base import Provider, ReplyEvent, TextDelta
from .remedies import CHECK_SERVER, NO_KEY, WRONG_KEY, is_passing, remedy_of, status_of
from .wire import ReplyBuilder, request_body

DEFAULT_MODEL = "claude-sonnet-5-5"

_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_KEY = re.compile(r"sk-ant-[\w-]+|(?<=Bearer )\S+")
_SHOWN_CHARACTERS = 1000


class AnthropicProvider:
    """Answers with the Anthropic API, or with any server that speaks its Messages API.

    Key, token and base URL that are not given come from the environment by the SDK's own rules
    (``ANTHROPIC_API_KEY``, ``ANTHROPIC_AUTH_TOKEN``, ``ANTHROPIC_BASE_URL``, profiles); a server named by its base URL
    may do without a key. ``model`` falls back to ``ANTHROPIC_MODEL``, then to a current model. ``max_retries`` counts
    the SDK's own retries before an answer begins; ``timeout`` is the longest silence in seconds.

    :raises SettingsError: when both a key and a token are given.
    """

    name = "anthropic"

    def __init__(
        self,
        *,
        api_key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        model: str | None = None,
        max_retries: int = 2,
        timeout: float = 600.0,
    ) -> None:
        if api_key is not None and auth_token is not None:
            raise SettingsError("a key and a token were both given", remedy="Give one of them.")
        self.default_model = model or os.environ.get("ANTHROPIC_MODEL", "").strip() or DEFAULT_MODEL
        self._api_key = api_key
        self._auth_token = auth_token
        self._base_url = base_url
        self._max_retries = max_retries
        self._timeout = timeout
        # A client's connections belong to the event loop they were opened on.
        self._clients: RunVar[AsyncAnthropic | None] = RunVar("anthropic client")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
        """Ask, and yield the answer as it comes; see :meth:`pseudoclaude.providers.base.Provider.stream`.

        :raises ProviderError: for every failure; the text holds the API's own words, never a key.
        """
        client = await self._client()
        try:
            # Posted without the SDK's models, which reorder and convert blocks of types they do not know.
            events = await client.post(
                "/v1/messages",
                body={**request_body(request), "stream": True},
                cast_to=object,
                stream=True,
                stream_cls=AsyncStream[object],
            )
        except Exception as error:
            failure, cause = self._translate(error, client)
            raise failure from cause
        try:
            async with aclosing(self._read(events, client)) as items:
                yield items
        finally:
            await _end(events)

    async def aclose(self) -> None:
        """Close the connections opened on this event loop. The provider stays usable."""
        client = self._clients.get(None)
        if client is not None:
            self._clients.set(None)
            await client.close()

    async def _client(self) -> AsyncAnthropic:
        client = self._clients.get(None)
        if client is None:
            try:
                # It reads certificates and profiles from disk.
                built = await to_thread.run_sync(self._build)
            except ProviderError:
                raise
            except Exception as error:
                text = _redacted(f"the client cannot be set up: {error}", {self._api_key, self._auth_token})
                raise ProviderError(text, passing=False, remedy=f"{NO_KEY} {CHECK_SERVER}") from None
            client = self._clients.get(None)
            if client is None:
                client = built
                self._clients.set(client)
        return client

    def _build(self) -> AsyncAnthropic:
        client = AsyncAnthropic(
            api_key=self._api_key,
            auth_token=self._auth_token,
            base_url=self._base_url,
            max_retries=self._max_retries,
            timeout=Timeout(self._timeout, connect=min(_CONNECT_SECONDS, self._timeout)),
        )
        for secret in (client.api_key, client.auth_token):
            if secret and not (secret.isascii() and secret.isprintable()):
                raise ProviderError(
                    "the key holds a line break or another character that no key has", passing=False, remedy=WRONG_KEY
                )
        headers = {name.casefold() for name in client.default_headers}
        if client.api_key or client.auth_token or client.credentials or headers & {"authorization", "x-api-key"}:
            return client
        if self._base_url is None and not os.environ.get("ANTHROPIC_BASE_URL"):
            raise ProviderError("there is no key for the Anthropic API", passing=False, remedy=NO_KEY)
        return client.copy(api_key="none")

    async def _read(self, events: AsyncStream[object], client: AsyncAnthropic) -> AsyncGenerator[ReplyEvent]:
        headers = events.response.headers
        reply = ReplyBuilder(headers.get("request-id", ""))
        going_on = True
        while going_on:
            try:
                # Pings are bytes, so the SDK's own limit never sees a server that sends nothing else.
                with fail_after(self._timeout):
                    event = await anext(events, None)
                going_on = event is not None
                text = reply.add(event) if going_on else ""
            except Exception as error:
                failure, cause = self._translate(error, client)
                raise failure from cause
            if text:
                yield TextDelta(text)
        kind = headers.get("content-type", "nothing")
        if not reply.started and not kind.startswith("text/event-stream"):
            raise ProviderError(
                f"{_address(client)} answered with {kind} in place of a stream", passing=False, remedy=CHECK_SERVER
            )
        try:
            whole = reply.build()
        except (ValueError, TypeError, LookupError) as error:
            failure, cause = self._translate(error, client)
            raise failure from cause
        yield whole

    def _translate(self, error: Exception, client: AsyncAnthropic) -> tuple[ProviderError, Exception | None]:
        """Our error, and its cause unless a traceback of that would show a key."""
        passing, status, text, remedy = _explain(error, _address(client))
        secrets = {client.api_key, client.auth_token}
        failure = ProviderError(_redacted(text, secrets), passing=passing, status=status, remedy=remedy)
        link: BaseException | None = error
        while link is not None:
            if _redacted(str(link), secrets) != str(link):
                return failure, None
            link = link.__cause__ or link.__context__
        return failure, error


def _explain(error: Exception, server: str) -> tuple[bool, int | None, str, str]:
    """Whether it may pass, the HTTP status, what happened, and what to do about it."""
    if isinstance(error, APIStatusError):
        return _explain_status(error)
    cause = error.__cause__ if isinstance(error, APIConnectionError) else error
    if isinstance(cause, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return False, None, f"no request can be sent to {server}: {cause}", CHECK_SERVER
    if isinstance(cause, httpx2.TimeoutException | TimeoutError):
        return True, None, f"{server} was silent for too long", CHECK_SERVER
    if isinstance(error, APIConnectionError):
        return True, None, f"{server} cannot be reached: {cause or error}", CHECK_SERVER
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return True, None, f"the answer was cut off: {error or type(error).__name__}", ""
    if isinstance(error, AnthropicError):
        return False, None, f"no request can be sent: {error}", NO_KEY
    return True, None, f"the answer could not be read: {type(error).__name__}: {error}", ""


def _explain_status(error: APIStatusError) -> tuple[bool, int | None, str, str]:
    status, kind = error.status_code, error.type or ""
    body = error.body if isinstance(error.body, dict) else {}
    said = error.api_message if isinstance(error.api_message, str) else str(error.body or "")
    details = f"{kind}: {said}" if kind and said else kind or said or "no explanation"
    request_id = error.request_id or body.get("request_id") or ""
    text = details.strip().rstrip(".")[:_SHOWN_CHARACTERS] + (f" (request {request_id})" if request_id else "")
    judged = status_of(status, kind)
    what = "the answer was broken off" if status < 400 else f"the request was refused with status {status}"
    return is_passing(judged), status, f"{what}: {text}", remedy_of(judged)


def _redacted(text: str, secrets: set[str | None]) -> str:
    for secret in secrets:
        if secret and len(secret) >= 8:
            text = text.replace(secret, "[key]")
    return _KEY.sub("[key]", text)


def _address(client: AsyncAnthropic) -> str:
    return f"{client.base_url.scheme}://{client.base_url.netloc.decode()}"


async def _end(events: AsyncStream[object]) -> None:
    # Reading on while cancelled unwinds the SDK's nested generators; merely dropping them is a ResourceWarning on trio.
    with CancelScope() as scope:
        scope.cancel()
        with suppress(Exception):
            while True:
                await anext(events)
    with move_on_after(_CLOSE_SECONDS, shield=True), suppress(Exception):
        await events.close()


if TYPE_CHECKING:

    def _is_provider(provider: AnthropicProvider) -> Provider:
        return provider
