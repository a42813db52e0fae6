from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import anyio
import pytest

from pseudoclaude.chat import ChatMessage, JsonObject, ModelReply, ModelRequest, OtherBlock, TextBlock, ToolSpec, Usage
from pseudoclaude.providers.anthropic import AnthropicProvider
from pseudoclaude.providers.base import TextDelta, complete
from pseudoclaude.providers.environment import anthropic_configured
from pseudoclaude.testing import MessagesServer, ScriptedProvider, call, serve_provider

Asking = Callable[..., AbstractAsyncContextManager[AnthropicProvider]]


def request(text: str = "hi", **fields: object) -> ModelRequest:
    message = ChatMessage(role="user", content=(TextBlock(text=text),))
    return ModelRequest.model_validate({"model": "m", "system": "", "messages": (message,), **fields})


async def test_text_arrives_in_pieces_and_then_as_a_whole(asking: Asking) -> None:
    with MessagesServer(lambda body: "one two  three\n") as server:
        async with asking(server) as provider, provider.stream(request()) as events:
            seen = [event async for event in events]
    *deltas, reply = seen
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["one ", "two  ", "three\n"]
    assert isinstance(reply, ModelReply)
    assert (reply.text, reply.stop_reason, reply.model) == ("one two  three\n", "end_turn", "m")
    assert reply.request_id.startswith("req_")


async def test_parallel_tool_calls_come_back_with_their_inputs(asking: Asking) -> None:
    calls = [call("Read", file_path="ä.py", limit=3), call("List"), call("Write", content="x" * 100, deep={"a": [1]})]
    with MessagesServer(lambda body: ["Looking.", *calls]) as server:
        async with asking(server) as provider:
            reply = await complete(provider, request())
    assert reply.stop_reason == "tool_use"
    assert list(reply.tool_calls) == calls


async def test_thinking_and_unknown_blocks_are_kept_and_sent_back_unchanged(asking: Asking) -> None:
    raw: list[JsonObject] = [
        {"type": "thinking", "thinking": "hm, so be it", "signature": "c2ln", "zeta": {"b": 1, "a": 2.0}},
        {"type": "redacted_thinking", "data": "AAECAw=="},
        {"type": "future", "text": 5, "data": {"b": [1, 2.0, None], "a": "x"}, "input": None},
        {"type": "text", "text": "done", "citations": None},
    ]
    answer = ModelReply.model_validate({"content": raw, "stop_reason": "end_turn"})
    with MessagesServer(lambda body: answer) as server:
        async with asking(server) as provider:
            reply = await complete(provider, request())
            again = ChatMessage(role="assistant", content=reply.content)
            user = request().messages[0]
            await complete(provider, request(messages=(user, again, user)))
    assert reply.content == answer.content
    assert [list(block) for block in server.requests[1]["messages"][1]["content"]] == [list(block) for block in raw]
    assert server.requests[1]["messages"][1]["content"] == raw
    assert isinstance(reply.content[0], OtherBlock)


async def test_usage_and_other_stop_reasons_are_reported(asking: Asking) -> None:
    usage = Usage(input_tokens=7, output_tokens=5, cache_read_input_tokens=100, cache_creation_input_tokens=20)
    answer = ModelReply(content=(TextBlock(text="cut"),), stop_reason="max_tokens", usage=usage)
    with MessagesServer(lambda body: answer) as server:
        async with asking(server) as provider:
            reply = await complete(provider, request())
    assert (reply.usage, reply.stop_reason) == (usage, "max_tokens")


async def test_system_tools_and_limit_are_sent_and_nothing_else(asking: Asking) -> None:
    tool = ToolSpec(name="Read", description="Reads.", input_schema={"type": "object", "properties": {}})
    with MessagesServer(lambda body: "ok") as server:
        async with asking(server) as provider:
            await complete(provider, request(system="Be brief.", tools=(tool,), max_tokens=9, agent="alice"))
    body = server.requests[0]
    assert set(body) == {"model", "system", "tools", "messages", "max_tokens", "stream"}
    assert (body["system"][0]["text"], body["tools"][0]["name"], body["max_tokens"]) == ("Be brief.", "Read", 9)


async def test_many_requests_at_once_get_their_own_answers(asking: Asking) -> None:
    answers: dict[str, str] = {}
    with serve_provider(lambda asked: f"answer to {asked.messages[0].text}") as server:
        async with asking(server) as provider:

            async def ask(text: str) -> None:
                answers[text] = (await complete(provider, request(text))).text

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(ask, str(number))
    assert answers == {str(number): f"answer to {number}" for number in range(8)}


async def test_key_and_server_come_from_the_environment(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessagesServer(lambda body: "ok") as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
        async with asking() as provider:
            assert (await complete(provider, request())).text == "ok"
    assert "from-the-environment" in server.headers[0].get("authorization", "") + server.headers[0].get("x-api-key", "")


async def test_token_is_sent_as_a_bearer(asking: Asking) -> None:
    with MessagesServer(lambda body: "ok") as server:
        async with asking(base_url=server.base_url, auth_token="a-token") as provider:
            await complete(provider, request())
    assert server.headers[0]["authorization"] == "Bearer a-token"


async def test_local_server_needs_no_key(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessagesServer(lambda body: "ok") as server:
        async with asking(base_url=server.base_url) as provider:
            assert (await complete(provider, request())).text == "ok"
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        async with asking() as provider:
            assert (await complete(provider, request())).text == "ok"


async def test_one_stand_in_can_be_served_over_http(asking: Asking) -> None:
    script = ScriptedProvider([[call("Read", file_path="a")], "read it"])
    with MessagesServer(script) as server:
        async with asking(server) as provider:
            first = await complete(provider, request())
            second = await complete(provider, request("more"))
    assert first.tool_calls[0].input == {"file_path": "a"}
    assert second.text == "read it"
    assert [asked.messages[-1].text for asked in script.requests] == ["hi", "more"]


def test_a_provider_serves_one_event_loop_after_another() -> None:
    with MessagesServer(lambda body: "ok") as server:
        provider = AnthropicProvider(base_url=server.base_url)

        async def ask() -> str:
            reply = await complete(provider, request())
            await provider.aclose()
            return reply.text

        assert [anyio.run(ask), anyio.run(ask, backend="trio")] == ["ok", "ok"]


def test_model_is_the_argument_then_the_environment_then_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AnthropicProvider().default_model == "claude-sonnet-5-5"
    monkeypatch.setenv("ANTHROPIC_MODEL", "from-env")
    assert AnthropicProvider().default_model == "from-env"
    assert AnthropicProvider(model="mine").default_model == "mine"


def test_environment_tells_whether_a_request_has_a_chance() -> None:
    assert not anthropic_configured({})
    assert not anthropic_configured({"ANTHROPIC_API_KEY": " ", "ANTHROPIC_MODEL": "m"})
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        assert anthropic_configured({name: "x"})
