"""What a killed process leaves, and how the next one goes on from it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import anyio
import pytest

from pseudoclaude import Team, tool
from pseudoclaude.chat import ModelReply, ModelRequest, ToolCall
from pseudoclaude.events import Event, TextProgress
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import MessageType
from pseudoclaude.providers.scripted import Answer
from pseudoclaude.testing import call
from pseudoclaude.tools.base import Tool, ToolContext
from tests.tasks.stage import Model, join, mail_of, settled, team_of, text_of


def has_called(request: ModelRequest, name: str) -> bool:
    return any(isinstance(block, ToolCall) and block.name == name for m in request.messages for block in m.content)


def lead(request: ModelRequest) -> Answer:
    """Spawns alice, and thanks her for what she found; decided by the history alone."""
    if not has_called(request, "Agent"):
        return [call("Agent", name="alice", prompt="look around"), call("TaskCreate", subject="look", description="d")]
    if "found it" in text_of(request) and not has_called(request, "SendMessage"):
        return [call("SendMessage", to="alice", summary="thanks", content="thank you")]
    return "ok"


def alice(request: ModelRequest) -> Answer:
    """Looks, reports, and has a last word."""
    if not has_called(request, "SendMessage"):
        return ["looking", call("TaskList"), call("SendMessage", to="lead", summary="report", content="found it")]
    return "ok"


async def tell_all(root: Path) -> tuple[Model, Team]:
    model = Model(lead=lead, alice=alice)
    team = team_of(model, root)
    async with team:
        if team.is_fresh:
            await team.manager.say(team.record.lead.agent_id, "go")
        await settled(team)
        await settled(team)
    return model, team


def lines_of(team: Team, agent: AgentId) -> list[dict[str, object]]:
    transcript = team.folder / "sessions" / f"{agent}.jsonl"
    return [json.loads(line) for line in transcript.read_text("utf-8").splitlines()]


async def check_story(model: Model, team: Team) -> None:
    """Everybody has every message once, in the mailbox and in the conversation."""
    assert model.violations == []
    assert team.manager.halted() == {}
    (member,) = team.record.members
    assert member.name == "alice"
    board = json.loads((team.folder / "board.json").read_text("utf-8"))
    assert json.dumps(board).count('"subject"') == 1
    chief = team.record.lead.agent_id
    for agent, texts in ((chief, ["found it"]), (member.agent_id, ["thank you"])):
        mail = await mail_of(team, agent)
        assert [item.message.content for item in mail if item.message.type is MessageType.TEXT] == texts
        assert max(Counter(item.message.id for item in mail).values()) == 1
        delivered = Counter(id for line in lines_of(team, agent) for id in line.get("mail", ()))  # type: ignore[attr-defined]
        assert set(delivered.values()) == {1}
        assert {item.message.id for item in mail if item.message.wakes} <= delivered.keys()
        assert all(item.read for item in mail if item.message.wakes)
        runs = [item.message.notice.run_id for item in mail if item.message.notice]
        assert len(runs) == len(set(runs))


async def test_a_process_killed_at_any_moment_is_carried_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """At every event, which is between any two lines of a transcript, the whole root is kept as a kill leaves it."""
    moments = tmp_path / "moments"
    whole = tmp_path / "whole"
    whole.mkdir()
    taken: list[str] = []

    def keep(event: Event) -> None:
        if not isinstance(event, TextProgress) and (whole / "home" / "teams").is_dir():
            taken.append(f"{type(event).__name__} of {event.agent}")
            shutil.copytree(whole, moments / str(len(taken)))

    model = Model(lead=lead, alice=alice)
    async with team_of(model, whole, listeners=[keep]) as team:
        await team.run("go")
        await settled(team)
    await check_story(model, team)
    assert len(taken) > 30
    for number, moment in enumerate(taken, 1):
        try:
            root = moments / str(number)
            roster = json.loads((root / "home" / "teams" / "survey" / "team.json").read_text("utf-8"))
            (root / "home" / "teams" / "survey" / "team.json").write_text(
                json.dumps({**roster, "workspace": str(root / "work")})
            )
            await check_story(*await tell_all(root))
        except Exception as error:
            raise AssertionError(f"killed at event {number}, {moment}") from error
        finally:
            shutil.rmtree(root)


async def cut_after(
    tmp_path: Path, calls: list[ToolCall], tools: list[Tool], *, stop_reason: str = "tool_use"
) -> Model:
    """Go on from a transcript that ends in these calls, without a result."""
    begun = Model()
    async with team_of(begun, tmp_path, tools=tools) as team:
        member = await join(team, "alice")
        await settled(team)
    transcript = team.folder / "sessions" / f"{member.agent_id}.jsonl"
    prompt = transcript.read_text("utf-8").splitlines()[0]
    answer = ModelReply(content=tuple(calls), stop_reason=stop_reason).model_dump()
    line = json.dumps({"i": 1, "kind": "answer", **answer}, separators=(",", ":"))
    transcript.write_text(f"{prompt}\n{line}\n", "utf-8")
    model = Model()
    async with team_of(model, tmp_path, tools=tools) as team:
        await settled(team)
    assert not model.violations
    return model


def results(model: Model) -> list[str]:
    return [str(getattr(block, "content", "")) for block in model.of("alice")[0].messages[-1].content]


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def tools(ran: list[str]) -> list[Tool]:
    @tool(name="Change")
    def change() -> str:
        """Change."""
        ran.append("change")
        return "changed"

    @tool(name="Look", read_only=True)
    def look() -> str:
        """Look."""
        ran.append("look")
        return "looked"

    @tool(name="Make", repeatable=True)
    def make(ctx: ToolContext) -> str:
        """Make."""
        ran.append(f"make {ctx.repeated}")
        return "made"

    return [change, look, make]


async def test_calls_that_were_running_are_run_again_only_where_that_is_safe(
    tmp_path: Path, tools: list[Tool], ran: list[str]
) -> None:
    calls = [call("Change"), call("Look"), call("Make"), call("Change"), call("Gone")]
    first, *rest = results(await cut_after(tmp_path, calls, tools))
    assert ran == ["look", "make True"]
    assert first.startswith("interrupted")
    assert "may have run" in first
    assert rest[:2] == ["looked", "made"]
    assert all(text.startswith("not run") for text in rest[2:])


async def test_calls_of_an_answer_that_was_cut_off_do_not_run_at_a_resume_either(
    tmp_path: Path, tools: list[Tool], ran: list[str]
) -> None:
    model = await cut_after(tmp_path, [call("Make"), call("Look")], tools, stop_reason="max_tokens")
    assert ran == []
    assert all("cut off" in text for text in results(model))


async def test_leaving_a_team_leaves_its_transcripts_open_and_the_next_block_carries_them_on(tmp_path: Path) -> None:

    async def never(request: ModelRequest) -> Answer:
        await anyio.sleep_forever()
        return "never"

    model = Model(alice=never)
    async with team_of(model, tmp_path) as team:
        member = await join(team, "alice")
        await model.until_asked("alice", 1)
        await team.send("alice", summary="news", content="the-news")
    assert [line["kind"] for line in lines_of(team, member.agent_id)] == ["input"]
    again = Model()
    async with team_of(again, tmp_path) as team:
        await settled(team)
    assert [line["kind"] for line in lines_of(team, member.agent_id)] == ["input", "input", "answer", "ended"]
    assert text_of(again.of("alice")[0]).count("the-news") == 1


async def test_mail_whose_marks_were_lost_is_not_shown_again_and_costs_no_turn(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        member = await join(team, "alice")
        await settled(team)
        await team.send("alice", summary="news", content="the-news")
        await settled(team)
    asked = len(model.requests)
    (team.folder / "inboxes" / member.agent_id / "read.jsonl").write_bytes(b"")
    async with team_of(model, tmp_path) as team:
        await settled(team)
        assert all(item.read for item in await mail_of(team, member.agent_id))
    assert len(model.of("alice")) == 2
    assert len(model.requests) == asked
