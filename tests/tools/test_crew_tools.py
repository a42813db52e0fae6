"""``Agent`` and ``MemberControl``: for the lead alone, once for each call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pseudoclaude.app import builtin_tools
from pseudoclaude.chat import ModelRequest, ToolCall, ToolResult
from pseudoclaude.ids import AgentId, AgentName, MessageId, TeamName
from pseudoclaude.mail import Role
from pseudoclaude.mailbox.native import MemoryStore
from pseudoclaude.post import Post
from pseudoclaude.providers.scripted import Answer
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.team import Team
from pseudoclaude.teams.board import Board
from pseudoclaude.teams.models import MemberRecord, TeamRecord
from pseudoclaude.teams.registry import Registry
from pseudoclaude.testing import FunctionProvider, ScriptedProvider, StrictProvider, call
from pseudoclaude.tools.base import Services, ToolContext
from pseudoclaude.tools.crew import control_member, spawn_agent
from pseudoclaude.tools.toolbox import Toolbox

TEAM = TeamRecord.model_validate(
    {
        "name": "survey",
        "workspace": "/work",
        "lead": {"agent_id": "lead-1"},
        "members": [
            {"name": "Zoë", "agent_id": "zoe-1", "prompt": "listen"},
            {"name": "bob", "agent_id": "bob-1", "prompt": "leave", "ended_at": "2026-01-01T00:00:00Z"},
        ],
    }
)


class Recorder:
    """A crew that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def spawn(
        self,
        *,
        name: str,
        prompt: str,
        description: str,
        model: str,
        tools: Sequence[str] | None,
        spawned_by: MessageId,
    ) -> MemberRecord:
        self.asked.append(("spawn", name, prompt, model, str(tools), spawned_by))
        return MemberRecord(name=AgentName(name), agent_id=AgentId(f"{name}-1"), prompt=prompt)

    async def nudge(self, agent_id: AgentId) -> str:
        self.asked.append(("nudge", agent_id))
        return "nudged"

    async def stop(self, agent_id: AgentId, *, reason: str = "") -> str:
        self.asked.append(("stop", agent_id, reason))
        return "stopped"


class Office:
    """The lead's tools for members, over a crew that only takes notes."""

    def __init__(self) -> None:
        storage = MemoryStorage()
        store = MemoryStore()
        self.crew = Recorder()
        self.registry = Registry(storage.document("team.json"), TeamName("survey"))
        board = Board(storage.document("board.json"))
        self.services = Services(self.registry, store, Post(store, self.registry), board, self.crew)

    async def call(self, tool: str, role: Role = Role.LEAD, **given: Any) -> ToolResult:
        context = ToolContext(
            team=TeamName("survey"),
            agent_id=AgentId("lead-1"),
            agent_name="lead",
            role=role,
            workspace=Path("/work"),
            call_id=MessageId("call-1"),
            services=self.services,
        )
        return await Toolbox([spawn_agent, control_member]).run(context, ToolCall(id="c", name=tool, input=given))


@pytest.fixture
async def office() -> Office:
    made = Office()
    await made.registry.create(TEAM)
    return made


async def test_a_spawn_carries_the_id_of_its_call(office: Office) -> None:
    result = await office.call("Agent", name="alice", prompt="look", model="m", tools=["Read"])
    assert "alice" in str(result.content)
    assert "alice-1" in str(result.content)
    assert office.crew.asked == [("spawn", "alice", "look", "m", "['Read']", "call-1")]


@pytest.mark.parametrize("name", ["Zoë", "zoë", " ZOË ", "@Zoë", "zoe\u0308", "zoe-1", '["Zoë"]'])
async def test_a_member_is_controlled_by_whatever_it_is_evidently_called(office: Office, name: str) -> None:
    assert (await office.call("MemberControl", name=name, action="nudge")).content == "nudged"
    assert (await office.call("MemberControl", name=name, action="stop", reason="late")).content == "stopped"
    assert (await office.call("MemberControl", name=name, action="stop")).content == "stopped"
    assert office.crew.asked == [("nudge", "zoe-1"), ("stop", "zoe-1", "late"), ("stop", "zoe-1", "stopped by lead")]


@pytest.mark.parametrize(
    "name", ["zo", "", " ", "bob", "bob-1", "lead", "user", "all", "Zoë, Zoë", "../x", "x" * 9_000]
)
async def test_an_unknown_member_is_an_error_with_those_there_are(office: Office, name: str) -> None:
    result = await office.call("MemberControl", name=name, action="stop")
    assert result.is_error
    assert "Members: Zoë." in str(result.content)
    assert office.crew.asked == []


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("MemberControl", {"name": "Zoë", "action": "kill"}),
        ("MemberControl", {"name": None, "action": "stop"}),
        ("MemberControl", {"name": "Zoë"}),
        ("Agent", {"name": "alice"}),
        ("Agent", {"name": "alice", "prompt": "p", "tools": "Read"}),
    ],
)
async def test_arguments_that_do_not_fit_are_told_and_do_nothing(
    office: Office, tool: str, given: dict[str, Any]
) -> None:
    result = await office.call(tool, **given)
    assert result.is_error
    assert "do not fit" in str(result.content)
    assert office.crew.asked == []


async def test_a_member_that_calls_a_tool_of_the_lead_is_refused(office: Office) -> None:
    for tool, given in (("Agent", {"name": "x", "prompt": "p"}), ("MemberControl", {"name": "Zoë", "action": "stop"})):
        result = await office.call(tool, Role.MEMBER, **given)
        assert result.is_error
        assert "only the lead" in str(result.content)
    assert office.crew.asked == []


# -- in a running team


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


async def test_only_the_lead_sees_the_tools_of_the_lead(root: Path) -> None:
    seen: dict[str, set[str]] = {}

    def answer(request: ModelRequest) -> Answer:
        first = request.agent not in seen
        seen[request.agent] = {spec.name for spec in request.tools}
        return call("Agent", name="alice", prompt="look") if request.agent == "lead" and first else "done"

    strict = StrictProvider(FunctionProvider(answer))
    async with Team("survey", root / "work", provider=strict, root=root) as team:
        assert (await team.run("goal")).ok
    lead_only = {tool.name for tool in builtin_tools() if tool.lead_only}
    assert lead_only == {"Agent", "MemberControl"}
    assert lead_only <= seen["lead"]
    assert seen["alice"] == seen["lead"] - lead_only
    assert strict.violations == []


async def test_spawning_again_by_the_same_call_finds_the_member_it_made(root: Path) -> None:
    script = ScriptedProvider({"lead": ["done"] * 5, "alice": ["looked"] * 5})
    async with Team("survey", root / "work", provider=StrictProvider(script), root=root) as team:
        crew, first = team.manager, MessageId.derived("lead-1", 2, 0)
        given: dict[str, Any] = {"prompt": "look", "description": "", "model": "", "tools": None}
        made = await crew.spawn(name="alice", spawned_by=first, **given)
        await team.settle()
        assert await crew.spawn(name="alice", spawned_by=first, **given) == made
        await team.settle()
        assert [member.agent_id for member in team.record.members] == [made.agent_id]
        assert len([run for run in crew.runs() if run.agent == "alice"]) == 1


async def test_two_calls_cannot_make_two_members_of_one_name(root: Path) -> None:
    spawns = [call("Agent", name="alice", prompt="look"), call("Agent", name="Alice", prompt="look")]
    script = ScriptedProvider({"lead": [spawns, "done", "done"], "alice": ["looked"]})
    async with Team("survey", root / "work", provider=StrictProvider(script), root=root) as team:
        await team.run("goal")
        assert [member.name for member in team.record.members] == ["alice"]
    answers = next(request for request in script.requests if request.agent == "lead" and len(request.messages) == 3)
    results = [block for block in answers.messages[2].content if isinstance(block, ToolResult)]
    assert [result.is_error for result in results] == [False, True]
    assert "has a member" in results[1].text


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "lead", "User", "a\0b", "x" * 300, ".x", "a.json"])
async def test_a_name_that_will_not_do_makes_no_member_and_no_file(root: Path, name: str) -> None:
    script = ScriptedProvider([call("Agent", name=name, prompt="look"), "done"])
    async with Team("survey", root / "work", provider=StrictProvider(script), root=root) as team:
        before = everything_below(root)
        assert (await team.run("goal")).ok
        assert team.record.members == ()
        assert {path for path in everything_below(root) - before if "lead-" not in path.name} == set()
    results = [block for block in script.requests[1].messages[2].content if isinstance(block, ToolResult)]
    assert results[0].is_error
    assert "crashed" not in results[0].text


def everything_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))
