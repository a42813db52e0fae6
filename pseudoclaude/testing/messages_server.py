"""A Messages API on loopback, that answers what a test tells it to."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TypeVar

import anyio

from ..chat import JsonObject, ModelReply, ModelRequest
from ..errors import ProviderError
from ..providers.base import Provider, complete
from ..providers.scripted import Answer, reply_of
from ..providers.wire import request_from_body
from .faults import Fault
from .loopback import LoopbackServer

Outcome = Answer | Fault
AnswerBody = Callable[[JsonObject], Outcome | Awaitable[Outcome]]
AnswerRequest = Callable[[ModelRequest], Outcome | Awaitable[Outcome]]

_T = TypeVar("_T")


class MessagesServer:
    """Serves ``/v1/messages`` (whole and streamed) and ``/v1/messages/count_tokens`` on a free port of 127.0.0.1.

    ::

        with MessagesServer(lambda body: "hello") as server:
            provider = AnthropicProvider(base_url=server.base_url)

    :param answer: a function of the posted body, sync or async, that gives a turn of a script or a
        :class:`~pseudoclaude.testing.faults.Fault`; or a provider, which is asked for each request. It is called in a
        thread of its own for each request, and may block there.
    """

    def __init__(self, answer: AnswerBody | Provider) -> None:
        self.requests: list[JsonObject] = []
        """The posted bodies, in order of arrival."""
        self.headers: list[dict[str, str]] = []
        """The headers of each of them, by lower-case name."""
        self.errors: list[Exception] = []
        """What ``answer`` raised without meaning to; raised again at the end of the ``with`` block."""
        self._answer = answer if callable(answer) else _asking(answer)
        self._arrival = threading.Condition()
        self.base_url = ""
        """What a client takes for the API's address, inside the ``with`` block."""

    def __enter__(self) -> MessagesServer:
        self._loopback = LoopbackServer(self._take, self._decide, self.errors)
        self._loopback.start()
        self.base_url = self._loopback.base_url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loopback.close()
        if error is None and self.errors:
            raise self.errors[0]

    def wait_for_requests(self, count: int, timeout: float = 5.0) -> bool:
        """Block until ``count`` requests have arrived; False when ``timeout`` seconds pass first."""
        with self._arrival:
            return self._arrival.wait_for(lambda: len(self.requests) >= count, timeout)

    def wait_for_leaving(self, timeout: float = 5.0) -> bool:
        """Block until a client has left a stalled answer; False when ``timeout`` seconds pass first."""
        return self._loopback.left.acquire(timeout=timeout)

    def _take(self, body: JsonObject, headers: dict[str, str]) -> None:
        with self._arrival:
            self.requests.append(body)
            self.headers.append(headers)
            self._arrival.notify_all()

    def _decide(self, body: JsonObject) -> ModelReply | Fault:
        """The reply to stream or the fault to commit."""
        try:
            outcome = self._answer(body)
            if inspect.isawaitable(outcome):
                outcome = anyio.run(_settle, outcome)
            return outcome if isinstance(outcome, Fault) else reply_of(outcome, body.get("model", ""))
        except ProviderError as error:
            return Fault.http(error.status or (529 if error.passing else 400), str(error))
        except Exception as error:
            self.errors.append(error)
            return Fault.http(500, f"the test's answer failed: {error!r}", headers={"x-should-retry": "false"})


def serve_provider(answer: AnswerRequest | Provider) -> MessagesServer:
    """A server that answers with what a function of the :class:`~pseudoclaude.chat.ModelRequest` returns.

    The request's ``agent`` is empty: the API has no place for it. The function may be async, and may return a
    :class:`~pseudoclaude.testing.faults.Fault`; a provider is asked as it is.
    """
    if callable(answer):
        return MessagesServer(lambda body: answer(request_from_body(body)))
    return MessagesServer(answer)


def _asking(provider: Provider) -> AnswerBody:
    def answer(body: JsonObject) -> Outcome:
        return anyio.run(partial(complete, provider, request_from_body(body)))

    return answer


async def _settle(value: Awaitable[_T]) -> _T:
    return await value
