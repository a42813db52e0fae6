"""Turns, as a model sees them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from pseudoclaude import tool
from pseudoclaude.chat import ChatMessage, ModelReply, ModelRequest, OtherBlock, TextBlock, ToolCall
from pseudoclaude.ids import USER
from pseudoclaude.mail import Priority, Role
from pseudoclaude.post import Draft, Sender
from pseudoclaude.providers.scripted import Answer
from pseudoclaude.testing import call
from pseudoclaude.tools.base import ToolContext
from tests.tasks.stage import Model, answers, join, mail_of, notices, settled, team_of, times


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def results_of(message: ChatMessage) -> list[str]:
    return [
        str(block.content) for block in message.content if block.type == "tool_result" and hasattr(block, "content")
    ]


async def test_mail_that_comes_while_a_tool_runs_stands_before_the_next_request(tmp_path: Path) -> None:
    @tool(name="Wait")
    async def wait(ctx: ToolContext) -> str:
        """Wait."""
        await team.send("alice", summary="news", content="the-news")
        return "waited"

    model = Model(alice=answers([call("Wait")], "read"))
    async with team_of(model, tmp_path, tools=[wait]) as team:
        await join(team, "alice")
        await settled(team)
    assert len(model.of("alice")) == 2
    answer = model.of("alice")[1].messages[-1]
    assert [block.type for block in answer.content] == ["tool_result", "text"]
    assert "the-news" in answer.text
    assert not model.violations


async def test_a_note_is_read_with_the_next_turn_and_starts_none(tmp_path: Path) -> None:
    model = Model(lead=answers([call("SendMessage", to="alice", type="note", summary="n", content="a-note")], "sent"))
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        await team.run("tell alice")
        asked = len(model.of("alice"))
        assert times("a-note", model.of("alice")[-1]) == 0
        await team.send("alice", summary="news", content="the-news")
        await settled(team)
    assert len(model.of("alice")) == asked + 1
    assert times("a-note", model.of("alice")[-1]) == 1


async def test_mail_that_does_not_fit_comes_with_the_next_turn(tmp_path: Path) -> None:
    gate = anyio.Event()

    async def held(request: ModelRequest) -> Answer:
        await gate.wait()
        return "read"

    model = Model(alice=held)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await model.until_asked("alice", 1)
        for number in range(8):
            await team.send("alice", summary=f"news-{number}.", content="x" * 15_000)
        gate.set()
        await settled(team)
    last = model.of("alice")[-1]
    assert [times(f"news-{number}.", last) for number in range(8)] == [1] * 8
    assert len(model.of("alice")) > 2
    assert not model.violations


@pytest.mark.parametrize(
    "cut",
    [
        [ToolCall(id="c1", name="Save", input={"path": "a.py"})],
        ["writing", ToolCall(id="c1", name="Save", input={}), ToolCall(id="c2", name="Save", input={"path": "b"})],
    ],
)
async def test_a_call_of_an_answer_that_was_cut_off_never_runs(tmp_path: Path, cut: list[str | ToolCall]) -> None:
    saved: list[str] = []

    @tool(name="Save")
    def save(path: str = "") -> str:
        """Save.

        Args:
            path: Where.
        """
        saved.append(path)
        return "saved"

    content = tuple(TextBlock(text=block) if isinstance(block, str) else block for block in cut)
    replies = [ModelReply(content=content, stop_reason="max_tokens") for _ in range(5)]
    model = Model(alice=answers(*replies, [call("Save", path="small")], "done"))
    async with team_of(model, tmp_path, tools=[save]) as team:
        await join(team, "alice")
        await settled(team)
    assert saved == ["small"]
    assert all("cut off" in result for result in results_of(model.of("alice")[1].messages[-1]))
    assert not model.violations


async def test_answers_that_are_always_cut_off_end_the_run(tmp_path: Path) -> None:
    def cut(request: ModelRequest) -> Answer:
        return ModelReply(content=(call("TaskList"),), stop_reason="max_tokens")

    model = Model(alice=cut)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        ((status, error),) = notices(await mail_of(team, team.record.lead.agent_id))
    assert status == "limit"
    assert "cut off 6 times in a row" in error
    assert len(model.of("alice")) == 6


@pytest.mark.parametrize(
    "empty",
    [
        (),
        (TextBlock(text=""),),
        (TextBlock(text="   "),),
        (TextBlock(text=""), ToolCall(id="c1", name="TaskList", input={})),
        (OtherBlock.model_validate({"type": "thinking", "thinking": "hm", "signature": "s"}),),
    ],
)
async def test_an_empty_answer_does_no_harm_now_or_after_a_restart(
    tmp_path: Path, empty: tuple[TextBlock | ToolCall | OtherBlock, ...]
) -> None:
    model = Model(alice=answers(ModelReply(content=empty, stop_reason="end_turn"), "more", "more"))
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        await team.send("alice", summary="news", content="")
        await settled(team)
    async with team_of(model, tmp_path) as team:
        await team.send("alice", summary="again", content="after-the-restart")
        await settled(team)
        assert team.manager.halted() == {}
    assert times("after-the-restart", model.of("alice")[-1]) == 1
    assert not model.violations


async def test_a_model_that_declines_has_failed_and_the_lead_is_told(tmp_path: Path) -> None:
    model = Model(alice=answers(ModelReply(content=(), stop_reason="refusal")))
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        assert notices(await mail_of(team, team.record.lead.agent_id)) == [("failed", "the model declined to answer")]


async def test_calls_that_change_nothing_run_side_by_side(tmp_path: Path) -> None:
    arrived: list[anyio.Event] = [anyio.Event(), anyio.Event()]

    @tool(name="Look", read_only=True)
    async def look(at: int) -> str:
        """Look.

        Args:
            at: At what.
        """
        arrived[at].set()
        with anyio.fail_after(5):
            await arrived[1 - at].wait()
        return f"saw {at}"

    model = Model(alice=answers([call("Look", at=0), call("Look", at=1)], "done"))
    async with team_of(model, tmp_path, tools=[look]) as team:
        await join(team, "alice")
        await settled(team)
    assert results_of(model.of("alice")[1].messages[-1]) == ["saw 0", "saw 1"]


@pytest.mark.parametrize("busy_with", ["request", "tool"])
async def test_mail_that_cannot_wait_ends_the_running_step_and_is_read_next(tmp_path: Path, busy_with: str) -> None:
    busy = anyio.Event()

    async def endlessly() -> str:
        busy.set()
        await anyio.sleep_forever()
        return "never"

    @tool(name="Hang")
    async def hang() -> str:
        """Hang."""
        return await endlessly()

    def first(request: ModelRequest) -> Answer:
        return [call("Hang")]

    model = Model()
    model.parts["alice"] = lambda request: (
        "read" if times("drop-it", request) else endlessly() if busy_with == "request" else first(request)
    )
    async with team_of(model, tmp_path, tools=[hang]) as team:
        await join(team, "alice")
        with anyio.fail_after(5):
            await busy.wait()
        draft = Draft("alice", "stop", "drop-it", priority=Priority.INTERRUPT)
        await team.manager._parts.post.send(Sender(USER, Role.USER), draft)
        await settled(team)
        assert team.manager.runs()[0].status == "finished"
    assert len(model.of("alice")) == 2
    answer = model.of("alice")[1].messages[-1]
    assert "drop-it" in answer.text
    assert all("interrupted: mail that could not wait" in result for result in results_of(answer))
    assert not model.violations


async def test_mail_carries_how_far_it_is_from_a_person(tmp_path: Path) -> None:
    def tell(who: str) -> Answer:
        return [call("SendMessage", to=who, summary="s", content=f"for-{who}")]

    model = Model(
        alice=answers("ready", tell("bob"), "done"),
        bob=answers("ready", tell("carol"), "done"),
        carol=answers("ready", [call("TaskList"), call("SendMessage", to="user", summary="s", content="end")], "done"),
    )
    async with team_of(model, tmp_path) as team:
        members = [await join(team, name) for name in ("alice", "bob", "carol")]
        await settled(team)
        await team.send("alice", summary="go", content="go")
        await settled(team)
        hops = [(await mail_of(team, member.agent_id))[-1].message.hops for member in members]
        last = (await mail_of(team, USER))[-1].message.hops
    assert hops == [0, 1, 2]
    assert last == 0
