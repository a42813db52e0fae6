from __future__ import annotations

import anyio
import pytest

from pseudoclaude.chat import ChatMessage, ModelReply, ModelRequest, OtherBlock, TextBlock, Usage
from pseudoclaude.errors import ProviderError, ScriptExhaustedError
from pseudoclaude.providers.base import TextDelta, complete
from pseudoclaude.providers.scripted import FunctionProvider, ScriptedProvider, call


def request(agent: str = "", text: str = "hi") -> ModelRequest:
    message = ChatMessage(role="user", content=(TextBlock(text=text),))
    return ModelRequest(model="m", system="", messages=(message,), agent=agent)


async def test_turns_are_played_in_order_and_requests_kept() -> None:
    provider = ScriptedProvider(["one", "two"])
    assert (await complete(provider, request(text="a"))).text == "one"
    assert (await complete(provider, request(text="b"))).text == "two"
    assert [asked.messages[0].text for asked in provider.requests] == ["a", "b"]


async def test_text_is_streamed_word_by_word() -> None:
    async with ScriptedProvider(["one two\n three"]).stream(request()) as events:
        seen = [event.text async for event in events if isinstance(event, TextDelta)]
    assert seen == ["one ", "two\n ", "three"]


async def test_every_form_of_a_turn() -> None:
    read, write = call("Read", file_path="a"), call("Write", name="b")
    thinking = OtherBlock.model_validate({"type": "thinking", "thinking": "hm", "signature": "s"})
    whole = ModelReply(content=(), stop_reason="refusal", usage=Usage(input_tokens=3))
    provider = ScriptedProvider([read, [thinking, "both", read, write], whole, "", TextBlock(text="block")])
    first = await complete(provider, request())
    assert (first.content, first.stop_reason, first.model) == ((read,), "tool_use", "m")
    second = await complete(provider, request())
    assert second.content == (thinking, TextBlock(text="both"), read, write)
    assert await complete(provider, request()) == whole
    empty = await complete(provider, request())
    assert (empty.content, empty.stop_reason) == ((), "end_turn")
    assert (await complete(provider, request())).text == "block"


async def test_error_in_the_script_is_raised_and_the_next_turn_follows() -> None:
    provider = ScriptedProvider([ProviderError("overloaded", passing=True), RuntimeError("crash"), "fine"])
    with pytest.raises(ProviderError, match="overloaded"):
        await complete(provider, request())
    with pytest.raises(RuntimeError, match="crash"):
        await complete(provider, request())
    assert (await complete(provider, request())).text == "fine"


async def test_each_agent_has_its_own_script() -> None:
    provider = ScriptedProvider({"alice": ["a1", "a2"], "bob": ["b1"]})
    answers = [(await complete(provider, request(agent))).text for agent in ("alice", "bob", "alice")]
    assert answers == ["a1", "b1", "a2"]
    with pytest.raises(ScriptExhaustedError, match="bob has 1 turns"):
        await complete(provider, request("bob"))
    with pytest.raises(ScriptExhaustedError, match="carol has 0 turns"):
        await complete(provider, request("carol"))


async def test_running_out_is_an_error_that_stays() -> None:
    with pytest.raises(ScriptExhaustedError) as caught:
        await complete(ScriptedProvider([]), request("alice"))
    assert not caught.value.passing


async def test_turn_may_be_held_back_by_a_test() -> None:
    asked, go = anyio.Event(), anyio.Event()

    async def gate(request: ModelRequest) -> str:
        asked.set()
        await go.wait()
        return f"answer to {request.agent}"

    provider = ScriptedProvider([gate, lambda request: call("Read")])
    answers: list[str] = []

    async def ask() -> None:
        answers.append((await complete(provider, request("alice"))).text)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await asked.wait()
            assert answers == []
            go.set()
    assert answers == ["answer to alice"]
    assert (await complete(provider, request())).stop_reason == "tool_use"


async def test_function_answers_at_once_or_later() -> None:
    async def later(request: ModelRequest) -> str:
        await anyio.lowlevel.checkpoint()
        return "later"

    assert (await complete(FunctionProvider(lambda request: "now"), request())).text == "now"
    assert (await complete(FunctionProvider(later), request())).text == "later"


async def test_what_a_function_raises_is_not_changed() -> None:
    def crash(request: ModelRequest) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await complete(FunctionProvider(crash), request())


def test_names_and_models_can_be_chosen() -> None:
    plain, named = ScriptedProvider([]), FunctionProvider(lambda request: "", name="n", default_model="d")
    assert (plain.name, plain.default_model) == ("scripted", "scripted")
    assert (named.name, named.default_model) == ("n", "d")


def test_calls_have_ids_of_their_own() -> None:
    assert len({call("Read").id for _ in range(100)}) == 100
