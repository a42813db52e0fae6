from __future__ import annotations

import socket
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest
from anyio import to_thread

from pseudoclaude.chat import ChatMessage, JsonObject, ModelRequest, TextBlock
from pseudoclaude.errors import ProviderError, SettingsError
from pseudoclaude.providers.anthropic import AnthropicProvider
from pseudoclaude.providers.base import TextDelta, complete
from pseudoclaude.testing import Fault, MessagesServer, ScriptedProvider, call

Asking = Callable[..., AbstractAsyncContextManager[AnthropicProvider]]
KEY = "sk-ant-secret-0123456789"
REQUEST = ModelRequest(model="m", system="", messages=(ChatMessage(role="user", content=(TextBlock(text="hi"),)),))


async def failure(provider: AnthropicProvider) -> ProviderError:
    with anyio.fail_after(5), pytest.raises(ProviderError) as caught:
        await complete(provider, REQUEST)
    return caught.value


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_status_that_may_pass(asking: Asking, status: int) -> None:
    with MessagesServer(lambda body: Fault.http(status, "not now")) as server:
        async with asking(server) as provider:
            error = await failure(provider)
    assert (error.passing, error.status) == (True, status)
    assert "not now" in str(error)
    assert "req_" in str(error)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "change"),
        (401, "Set ANTHROPIC_API_KEY"),
        (402, "credit"),
        (403, "another model"),
        (404, "ANTHROPIC_MODEL"),
        (405, "ANTHROPIC_BASE_URL"),
        (413, "shorten"),
        (422, "change"),
    ],
)
async def test_status_that_stays(asking: Asking, status: int, advice: str) -> None:
    with MessagesServer(lambda body: Fault.http(status, "never")) as server:
        async with asking(server, max_retries=2) as provider:
            error = await failure(provider)
    assert (error.passing, error.status) == (False, status)
    assert advice in error.remedy
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("error_type", "passing"),
    [
        ("overloaded_error", True),
        ("rate_limit_error", True),
        ("api_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("not_found_error", False),
    ],
)
async def test_error_inside_a_stream_is_judged_by_its_type(asking: Asking, error_type: str, passing: bool) -> None:
    with MessagesServer(lambda body: Fault.error_event(error_type, "oh dear", turn="a b c", after=2)) as server:
        seen: list[TextDelta] = []
        async with asking(server) as provider:
            with pytest.raises(ProviderError, match="oh dear") as caught:
                await complete(provider, REQUEST, seen.append)
    assert caught.value.passing is passing
    assert error_type in str(caught.value)
    assert [delta.text for delta in seen] == ["a ", "b "]


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("kind", ["cut", "drop", "reset", "error_event"])
async def test_answer_broken_in_the_middle_is_no_answer(asking: Asking, kind: str, after: int) -> None:
    turn = call("Write", file_path="a.py", content="def f():\n" * 9)
    with MessagesServer(lambda body: getattr(Fault, kind)(turn=turn, after=after)) as server:
        async with asking(server) as provider:
            assert (await failure(provider)).passing


async def test_connection_lost_before_the_answer_may_pass(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.reset()) as server:
        async with asking(server) as provider:
            assert (await failure(provider)).passing


async def test_server_that_is_not_there_may_come_back(asking: Asking) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:pass@127.0.0.1:{free.getsockname()[1]}"
    async with asking(base_url=url) as provider:
        error = await failure(provider)
    assert error.passing
    assert "127.0.0.1" in str(error)
    assert "pass@" not in error.explain()


@pytest.mark.parametrize(
    "stall", [Fault.stall(after=None), Fault.stall("a b", after=1), Fault.stall("a b", after=1, ping_seconds=0.02)]
)
async def test_silence_is_ended_at_the_limit(asking: Asking, stall: Fault) -> None:
    with MessagesServer(lambda body: stall) as server:
        async with asking(server, timeout=0.2) as provider:
            error = await failure(provider)
    assert error.passing
    assert "silent" in str(error)


async def test_retries_wait_as_long_as_the_server_asks(asking: Asking) -> None:
    def busy_once(body: JsonObject) -> Fault | str:
        return Fault.http(529, headers={"retry-after-ms": "900"}) if len(server.requests) == 1 else "there"

    with MessagesServer(busy_once) as server:
        async with asking(server, max_retries=1) as provider:
            start = anyio.current_time()
            assert (await complete(provider, REQUEST)).text == "there"
    assert anyio.current_time() - start > 0.85
    assert len(server.requests) == 2


async def test_retries_end(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.http(503, headers={"retry-after-ms": "1"})) as server:
        async with asking(server, max_retries=2) as provider:
            assert (await failure(provider)).status == 503
    assert len(server.requests) == 3


async def test_cancelling_ends_the_request(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.stall("a b", after=1)) as server:
        async with asking(server) as provider:
            with anyio.fail_after(5), anyio.CancelScope() as scope:
                async with provider.stream(REQUEST) as events:
                    async for _ in events:
                        scope.cancel()
            assert scope.cancelled_caught
            assert await to_thread.run_sync(server.wait_for_leaving, 2.0)


async def test_cancelling_ends_a_request_that_has_no_answer_yet(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.stall(after=None)) as server:
        async with asking(server) as provider, anyio.create_task_group() as group:
            group.start_soon(complete, provider, REQUEST)
            assert await to_thread.run_sync(server.wait_for_requests, 1)
            group.cancel_scope.cancel()
        assert await to_thread.run_sync(server.wait_for_leaving, 2.0)


async def test_leaving_the_block_early_ends_the_request(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.stall("a b c", after=2)) as server:
        async with asking(server) as provider:
            async with provider.stream(REQUEST) as events:
                assert await anext(events) == TextDelta("a ")
            assert await to_thread.run_sync(server.wait_for_leaving, 2.0)


async def test_what_the_reader_raises_passes_through(asking: Asking) -> None:
    with MessagesServer(lambda body: "a b c") as server:
        async with asking(server) as provider:

            async def read() -> None:
                async with provider.stream(REQUEST) as events:
                    async for _ in events:
                        raise ValueError("mine")

            with pytest.raises(ValueError, match="mine"):
                await read()


async def test_no_key_says_which_variable_to_set(asking: Asking) -> None:
    async with asking() as provider:
        error = await failure(provider)
    assert not error.passing
    assert "ANTHROPIC_API_KEY" in error.remedy


@pytest.mark.parametrize("url", ["localhost:80", "ftp://127.0.0.1", "   "])
async def test_address_that_is_none_stays_wrong(asking: Asking, url: str) -> None:
    async with asking(base_url=url, api_key=KEY) as provider:
        error = await failure(provider)
    assert not error.passing
    assert "ANTHROPIC_BASE_URL" in error.remedy


async def test_key_shows_nowhere_in_an_error(asking: Asking) -> None:
    with MessagesServer(lambda body: Fault.http(401, f"bad key {KEY}")) as server:
        async with asking(server, api_key=KEY) as provider:
            error = await failure(provider)
    assert "bad key [key]" in str(error)
    assert KEY not in "".join(traceback.format_exception(error)) + error.explain()


@pytest.mark.parametrize("key", [KEY + "\n", KEY + "\u2019"])
async def test_key_that_cannot_be_sent_is_refused_without_showing_it(asking: Asking, key: str) -> None:
    async with asking(base_url="http://127.0.0.1:9", api_key=key) as provider:
        error = await failure(provider)
    assert not error.passing
    assert KEY not in "".join(traceback.format_exception(error)) + error.explain()


def test_key_and_token_together_are_refused() -> None:
    with pytest.raises(SettingsError):
        AnthropicProvider(api_key="a", auth_token="b")


async def test_script_that_runs_out_is_a_failure_that_stays(asking: Asking) -> None:
    with MessagesServer(ScriptedProvider([])) as server:
        async with asking(server) as provider:
            error = await failure(provider)
    assert not error.passing
    assert "script" in str(error)
