"""A transcript and the history that follows from it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pseudoclaude.chat import ModelReply, ModelRequest, OtherBlock, TextBlock, ToolCall, ToolResult
from pseudoclaude.errors import TranscriptError
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import IdleStatus
from pseudoclaude.runner.conversation import Conversation
from pseudoclaude.runner.records import Source
from pseudoclaude.storage.memory import MemoryLog, MemoryStorage
from pseudoclaude.testing.strict import violations_of

ALICE = AgentId("alice-1")


def new_log() -> MemoryLog:
    return MemoryStorage().owned_log("sessions/alice-1.jsonl")


def reply(*blocks: Any, stop_reason: str = "") -> ModelReply:
    content = tuple(TextBlock(text=block) if isinstance(block, str) else block for block in blocks)
    calls = any(isinstance(block, ToolCall) for block in content)
    return ModelReply(content=content, stop_reason=stop_reason or ("tool_use" if calls else "end_turn"))


def tool_call(name: str = "Look", id: str = "", **input: Any) -> ToolCall:
    return ToolCall(id=id or f"toolu_{MessageId.new()}", name=name, input=input)


def broken_rules(conversation: Conversation) -> list[str]:
    request = ModelRequest(model="m", system="s", messages=conversation.messages)
    return violations_of(request)


async def answer_pending(conversation: Conversation) -> None:
    for pending in conversation.pending_calls:
        await conversation.add_result(ToolResult(tool_use_id=pending.call.id, content="seen"), tool=pending.call.name)


# -- whatever happens, in whatever order ------------------------------------------------------------------------

texts = st.sampled_from(["", " ", "\n", "hello", "half a pair \ud83d", "\ud83d\ude00", "ünï"])
thinking = st.builds(OtherBlock.model_validate, st.just({"type": "thinking", "thinking": "hm", "signature": "s"}))
inputs = st.dictionaries(st.sampled_from(["a", "b"]), texts | st.none() | st.integers(), max_size=2)
calls = st.builds(
    lambda id, name, input: ToolCall(id=id, name=name, input=input),
    st.sampled_from(["call_0", "call_1", "not acceptable", ""]),
    st.sampled_from(["Look", "SendMessage"]),
    inputs,
)
blocks = st.lists(texts.map(lambda text: TextBlock(text=text)) | thinking | calls, max_size=4)
replies = st.tuples(blocks, st.sampled_from(["end_turn", "max_tokens", "tool_use"]))
steps = st.lists(
    st.tuples(st.just("input"), texts)
    | st.tuples(st.just("reply"), replies)
    | st.tuples(st.just("results"), st.integers(0, 3))
    | st.tuples(st.just("end"), st.sampled_from(list(IdleStatus)))
    | st.tuples(st.just("reopen"), st.none()),
    max_size=25,
)


async def perform(log: MemoryLog, plan: list[tuple[str, Any]]) -> None:
    conversation = await Conversation.open(log, ALICE)
    for kind, value in plan:
        if kind == "input":
            await conversation.add_input(Source.USER, value)
        elif kind == "reply":
            await answer_pending(conversation)
            if conversation.awaits_model:
                assert broken_rules(conversation) == []
                await conversation.add_reply(ModelReply(content=tuple(value[0]), stop_reason=value[1]))
        elif kind == "results":
            for pending in tuple(reversed(conversation.pending_calls))[:value]:
                result = ToolResult(tool_use_id=pending.call.id, content="seen")
                await conversation.add_result(result, tool=pending.call.name)
        elif kind == "end":
            await conversation.end_run(value)
        else:
            reloaded = await Conversation.open(log, ALICE)
            assert state_of(reloaded) == state_of(conversation)
            conversation = reloaded
    await answer_pending(conversation)
    await conversation.add_input(Source.USER, "the last word")
    assert broken_rules(conversation) == []
    assert state_of(await Conversation.open(log, ALICE)) == state_of(conversation)


def state_of(conversation: Conversation) -> dict[str, Any]:
    """Everything that can be seen of a conversation."""
    names = (
        "messages pending_calls awaits_model hops unreported run_id is_open is_empty delivered ended ended_place "
        "runs_ended turns usage last_text sent_mail"
    )
    return {name: getattr(conversation, name) for name in names.split()}


@settings(max_examples=300, deadline=None)
@given(steps)
def test_any_sequence_of_steps_gives_a_legal_history_and_the_same_one_when_reloaded(
    plan: list[tuple[str, Any]],
) -> None:
    anyio.run(perform, new_log(), plan)


@settings(max_examples=150, deadline=None)
@given(steps, st.data())
def test_a_transcript_that_lost_lines_still_gives_a_legal_history(
    plan: list[tuple[str, Any]], data: st.DataObject
) -> None:
    async def lose_and_reload() -> None:
        log, damaged = new_log(), new_log()
        await perform(log, plan)
        await damaged.create()
        for record in await log.read():
            if data.draw(st.integers(0, 3)):
                await damaged.append(record.data)
        conversation = await Conversation.open(damaged, ALICE)
        await answer_pending(conversation)
        await conversation.add_input(Source.USER, "the last word")
        assert broken_rules(conversation) == []

    anyio.run(lose_and_reload)


# -- single rules -----------------------------------------------------------------------------------------------


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_results_come_first_and_in_the_order_of_their_calls() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.USER, "look")
    first, second = await conversation.add_reply(reply(tool_call(), tool_call()))
    await conversation.add_input(Source.MAIL, "mail")
    for pending in (second, first):
        await conversation.add_result(ToolResult(tool_use_id=pending.call.id, content="seen"), tool="Look")
    answer = conversation.messages[-1].content
    assert [getattr(block, "tool_use_id", "text") for block in answer] == [first.call.id, second.call.id, "text"]


async def test_results_of_calls_that_run_side_by_side_may_be_written_at_once() -> None:
    log = new_log()
    conversation = await Conversation.open(log, ALICE)
    await conversation.add_input(Source.USER, "look")
    pending = await conversation.add_reply(reply(*(tool_call() for _ in range(5))))
    async with anyio.create_task_group() as group:
        for one in reversed(pending):
            result = ToolResult(tool_use_id=one.call.id, content="seen")
            group.start_soon(partial(conversation.add_result, result, tool="Look"))
    assert broken_rules(conversation) == []
    assert state_of(await Conversation.open(log, ALICE)) == state_of(conversation)


async def test_a_line_is_written_to_its_end_when_the_run_is_cancelled() -> None:
    class Slow(MemoryLog):
        async def append(self, data: bytes) -> int:
            place = await super().append(data)
            scope.cancel()
            await anyio.lowlevel.checkpoint()
            return place

    scope = anyio.CancelScope()
    log = Slow(MemoryStorage()._content, "sessions/alice-1.jsonl")
    conversation = await Conversation.open(log, ALICE)
    with scope:
        await conversation.add_input(Source.USER, "hello")
    assert [message.text for message in conversation.messages] == ["hello"]
    assert state_of(await Conversation.open(log, ALICE)) == state_of(conversation)


async def test_a_second_result_of_a_call_is_ignored() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.USER, "look")
    (pending,) = await conversation.add_reply(reply(tool_call()))
    for content in ("first", "second"):
        await conversation.add_result(ToolResult(tool_use_id=pending.call.id, content=content), tool="Look")
    assert [getattr(block, "content", "") for block in conversation.messages[-1].content] == ["first"]


@pytest.mark.parametrize("blocks", [(), ("",), ("  \n",)])
async def test_an_empty_answer_leaves_no_trace_in_the_history_and_owes_nothing(blocks: tuple[str, ...]) -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.USER, "hello")
    await conversation.add_reply(reply(*blocks))
    assert not conversation.awaits_model
    await conversation.add_input(Source.USER, "still there?")
    assert [message.role for message in conversation.messages] == ["user"]
    assert broken_rules(conversation) == []


async def test_thinking_comes_back_as_it_came_unless_nothing_came_behind_it() -> None:
    log = new_log()
    conversation = await Conversation.open(log, ALICE)
    thought = OtherBlock.model_validate({"type": "thinking", "thinking": "hm ü", "signature": "abc", "extra": None})
    await conversation.add_input(Source.USER, "hello")
    await conversation.add_reply(reply(thought, "hi"))
    await conversation.add_input(Source.USER, "more")
    cut = OtherBlock.model_validate({"type": "thinking", "thinking": "hm"})
    await conversation.add_reply(reply(cut, stop_reason="max_tokens"))
    reloaded = await Conversation.open(log, ALICE)
    assert reloaded.messages[1].content[0].model_dump() == thought.model_dump()
    assert [message.role for message in reloaded.messages] == ["user", "assistant", "user"]


async def test_a_call_with_the_id_of_another_gets_its_own() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    for _ in range(2):
        await conversation.add_input(Source.USER, "look")
        await conversation.add_reply(reply(tool_call(id="call_0"), tool_call(id="call_0")))
        assert len(conversation.pending_calls) == 2
        await answer_pending(conversation)
    assert broken_rules(conversation) == []


async def test_calls_keep_the_place_that_their_mail_is_named_after() -> None:
    log = new_log()
    conversation = await Conversation.open(log, ALICE)
    await conversation.add_input(Source.USER, "look")
    before = [one.derived_id(ALICE) for one in await conversation.add_reply(reply("", tool_call(), tool_call()))]
    reloaded = await Conversation.open(log, ALICE)
    assert [one.derived_id(ALICE) for one in reloaded.pending_calls] == before
    assert len(set(before)) == 2


async def test_mail_of_a_run_counts_on_from_the_mail_that_it_was_delivered() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.USER, "hello")
    assert conversation.hops == 0
    await conversation.add_input(Source.MAIL, "mail", mail=[MessageId.new()], hops=3)
    assert conversation.hops == 4
    await conversation.add_reply(reply(tool_call("SendMessage")))
    await answer_pending(conversation)
    assert conversation.hops == 4
    await conversation.add_reply(reply(tool_call("Look")))
    await answer_pending(conversation)
    assert conversation.hops == 0


async def test_mail_of_a_run_that_repeats_a_failed_one_counts_on_too() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.MAIL, "mail", mail=[MessageId.new()], hops=3)
    await conversation.end_run(IdleStatus.FAILED, error="overloaded", passing=True)
    assert conversation.hops == 4
    await conversation.add_reply(reply("ok"))
    await conversation.end_run(IdleStatus.FINISHED)
    assert conversation.hops == 0


async def test_only_what_the_present_run_said_without_mail_is_its_result() -> None:
    conversation = await Conversation.open(new_log(), ALICE)
    await conversation.add_input(Source.USER, "hello")
    await conversation.add_reply(reply("the result"))
    during = conversation.unreported
    await conversation.end_run(IdleStatus.FINISHED)
    assert (during, conversation.unreported) == ("the result", None)
    assert conversation.last_text == "the result"


async def test_an_unknown_line_is_refused_with_its_place() -> None:
    log = new_log()
    await log.create()
    await log.append(json.dumps({"kind": "poem"}).encode())
    with pytest.raises(TranscriptError, match="transcript of alice-1, line 0"):
        await Conversation.open(log, ALICE)
