"""The board as an agent uses it: what it reads, and who else hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from pseudoclaude.chat import ToolCall, ToolResult
from pseudoclaude.errors import UnknownMailboxError
from pseudoclaude.ids import USER, AgentId, MessageId, TeamName
from pseudoclaude.mail import Message, MessageType, Role
from pseudoclaude.mailbox.store import MailStore
from pseudoclaude.post import Post
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.teams.board import Board
from pseudoclaude.teams.models import TeamRecord
from pseudoclaude.teams.registry import Registry
from pseudoclaude.tools.base import Crew, Services, ToolContext
from pseudoclaude.tools.board import create_task, get_task, list_tasks, update_task
from pseudoclaude.tools.toolbox import Toolbox

TOOLBOX = Toolbox([create_task, get_task, list_tasks, update_task])
AGENTS = {"lead": AgentId("lead-1"), "alice": AgentId("alice-1"), "Zoë": AgentId("zoe-1"), "user": USER}


class Letters:
    """As much of a mail store as notices need."""

    def __init__(self) -> None:
        self.boxes: dict[AgentId, list[Message]] = {agent: [] for agent in AGENTS.values()}

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        if agent not in self.boxes:
            raise UnknownMailboxError(agent, "letters")
        box = self.boxes[agent]
        for index, other in enumerate(box):
            if since is not None and index >= since and other.id == message.id:
                return index
        box.append(message)
        return len(box) - 1


class Office:
    """A team's board with everybody's tools and mail."""

    def __init__(self, registry: Registry, board: Board) -> None:
        self.letters = Letters()
        store = cast(MailStore, self.letters)
        self.services = Services(registry, store, Post(store, registry), board, cast(Crew, None))
        self.calls = 0

    async def call(self, who: str, tool: str, *, call: str = "", **given: Any) -> ToolResult:
        """Run a tool; with a ``call`` made before, as the second run of that call."""
        self.calls += 1
        ctx = ToolContext(
            team=TeamName("survey"),
            agent_id=AGENTS[who],
            agent_name=who,
            role=Role.LEAD if who == "lead" else Role.MEMBER,
            workspace=Path("/work"),
            call_id=MessageId(call or f"call-{self.calls}"),
            services=self.services,
            hops=3,
            repeated=bool(call),
        )
        return await TOOLBOX.run(ctx, ToolCall(id="c", name=tool, input=given))

    async def does(self, who: str, tool: str, *, call: str = "", **given: Any) -> str:
        """The text of a call that works."""
        result = await self.call(who, tool, call=call, **given)
        assert not result.is_error, result.content
        return str(result.content)

    async def refuses(self, who: str, tool: str, **given: Any) -> str:
        """The text of a call that fails."""
        result = await self.call(who, tool, **given)
        assert result.is_error
        return str(result.content)

    def mail(self, who: str) -> list[tuple[str, str]]:
        """Type and task of everything that somebody was told."""
        return [(message.type, (message.payload or {})["task_id"]) for message in self.letters.boxes[AGENTS[who]]]


@pytest.fixture
async def office(team: TeamRecord) -> Office:
    storage = MemoryStorage()
    registry = Registry(storage.document("team.json"), TeamName("survey"))
    await registry.create(team)
    return Office(registry, Board(storage.document("board.json")))


async def test_a_task_is_shown_on_one_line_with_its_owner_and_what_it_waits_for(office: Office) -> None:
    assert await office.does("lead", "TaskCreate", subject="Look at src") == "t1 [todo] Look at src"
    text = await office.does("lead", "TaskCreate", subject="Sum\nup", owner="Alice", blocked_by=["t1"])
    assert text.splitlines() == ["t2 [todo] Sum up (owner alice, waits for t1)", "told alice"]
    assert await office.does("alice", "TaskList") == (
        "t1 [todo] Look at src\nt2 [todo] Sum up (owner alice, waits for t1)"
    )


async def test_a_new_owner_is_told_by_the_runtime_with_all_there_is_to_know(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look", description="at src", owner="alice")
    (message,) = office.letters.boxes[AGENTS["alice"]]
    assert message.type is MessageType.TASK_ASSIGNMENT
    assert message.sender == "runtime"
    assert (message.summary, message.hops) == ("lead gave you task t1: Look", 3)
    assert message.content == "t1 [todo] Look (owner alice)\n\nat src"
    assert message.payload == {"task_id": "t1", "subject": "Look"}
    assert message.wakes


async def test_nobody_is_told_what_they_did_themselves(office: Office) -> None:
    await office.does("alice", "TaskCreate", subject="Look", owner="me")
    await office.does("alice", "TaskCreate", subject="Sum up", owner="me", blocked_by=["t1"])
    text = await office.does("alice", "TaskUpdate", task_id="t1", status="done")
    assert text.splitlines() == ["t1 [done] Look (owner alice)", "can go on now: t2 [todo] Sum up (owner alice)"]
    assert not any(office.letters.boxes.values())


async def test_completing_tells_the_creator_and_the_owners_of_what_waited(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    await office.does("lead", "TaskCreate", subject="Sum up", owner="Zoë", blocked_by=["t1"])
    await office.does("lead", "TaskCreate", subject="Print", blocked_by=["t1"])
    text = await office.does("alice", "TaskUpdate", task_id="t1", status="done")
    assert text.splitlines() == [
        "t1 [done] Look",
        "can go on now: t2 [todo] Sum up (owner Zoë)",
        "can go on now: t3 [todo] Print",
        "told Zoë",
        "told lead",
    ]
    assert office.mail("Zoë") == [("task_assignment", "t2"), ("task_unblocked", "t2")]
    assert office.mail("lead") == [("task_completed", "t1")]


async def test_starting_a_task_of_nobody_claims_it_and_the_next_is_told_whose_it_is(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    text = await office.does("alice", "TaskUpdate", task_id="t1", status="in_progress")
    assert text == "t1 [in_progress] Look (owner alice)"
    assert "belongs to alice. Take another" in await office.refuses(
        "Zoë", "TaskUpdate", task_id="t1", status="in_progress", owner="me"
    )


@pytest.mark.parametrize("spelling", ["t1", " T1 ", "#1", "1", 1])
async def test_ids_are_understood_as_models_write_them(office: Office, spelling: object) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    await office.does("lead", "TaskCreate", subject="Sum up", blocked_by=[spelling])
    assert "t1 [todo] Look" in await office.does("lead", "TaskGet", task_id=spelling)
    assert (await office.does("lead", "TaskGet", task_id="t2")).startswith("t2 [todo] Sum up (waits for t1)")


async def test_a_list_of_ids_may_be_quoted_into_a_string(office: Office) -> None:
    for subject in ("Look", "Listen"):
        await office.does("lead", "TaskCreate", subject=subject)
    text = await office.does("lead", "TaskCreate", subject="Sum up", blocked_by="['t1', '#2']")
    assert text == "t3 [todo] Sum up (waits for t1, t2)"


async def test_a_task_is_shown_in_full_with_those_around_it(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    await office.does("alice", "TaskCreate", subject="Sum up", description="<b>all</b>", blocked_by=["t1"])
    await office.does("lead", "TaskCreate", subject="Print", blocked_by=["t2"])
    assert (await office.does("lead", "TaskGet", task_id="t2")).splitlines() == [
        "t2 [todo] Sum up (waits for t1)",
        "created by alice",
        "waits for t1 [todo] Look",
        "holds up t3 [todo] Print (waits for t2)",
        "",
        "&lt;b>all&lt;/b>",
    ]


async def test_the_list_is_filtered_by_status_and_owner(office: Office) -> None:
    assert await office.does("lead", "TaskList") == "the board is empty"
    await office.does("lead", "TaskCreate", subject="Look", owner="alice")
    await office.does("lead", "TaskCreate", subject="Listen", owner="lead")
    await office.does("lead", "TaskCreate", subject="Print")
    await office.does("lead", "TaskUpdate", task_id="t2", status="done")
    for given, expected in [
        ({"owner": "@ALICE"}, ["t1"]),
        ({"owner": "me"}, ["t2"]),
        ({"owner": "none"}, ["t3"]),
        ({"status": "todo"}, ["t1", "t3"]),
        ({"status": "done", "owner": "me"}, ["t2"]),
    ]:
        text = await office.does("lead", "TaskList", **given)
        assert [line.split()[0] for line in text.splitlines()] == expected
    assert await office.does("lead", "TaskList", status="in_progress") == "none of the 3 tasks fits"


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        ("enginer", "'enginer' is nobody in this team"),
        ("bob", "'bob' has ended"),
        ("alice, Zoë", "a task has one owner"),
        ("all", "'all' is nobody"),
        ("runtime", "'runtime' is nobody"),
    ],
)
async def test_an_owner_that_is_nobody_is_refused_and_nothing_is_made(office: Office, owner: str, why: str) -> None:
    text = await office.refuses("lead", "TaskCreate", subject="Look", owner=owner)
    assert why in text
    assert await office.does("lead", "TaskList") == "the board is empty"


async def test_a_task_of_a_member_that_ended_can_be_freed_and_taken(office: Office) -> None:
    await office.services.board.create("Look", owner=AgentId("bob-1"), created_by=AGENTS["lead"])
    assert await office.does("lead", "TaskList", owner="bob") == "t1 [todo] Look (owner bob who has ended)"
    text = await office.refuses("alice", "TaskUpdate", task_id="t1", status="in_progress")
    assert "bob who has ended" in text
    assert 'Set its owner to "" first' in text
    await office.does("alice", "TaskUpdate", task_id="t1", owner="")
    assert "owner alice" in await office.does("alice", "TaskUpdate", task_id="t1", status="in_progress")


async def test_a_call_that_is_run_again_does_and_tells_everything_once(office: Office) -> None:
    await office.does("lead", "TaskCreate", call="make", subject="Look", owner="alice")
    await office.does("lead", "TaskCreate", call="make", subject="Look", owner="alice")
    await office.does("lead", "TaskCreate", subject="Sum up", owner="Zoë", blocked_by=["t1"])
    first = await office.does("alice", "TaskUpdate", call="finish", task_id="t1", status="done")
    assert await office.does("alice", "TaskUpdate", call="finish", task_id="t1", status="done") == first
    assert office.mail("alice") == [("task_assignment", "t1")]
    assert office.mail("Zoë") == [("task_assignment", "t2"), ("task_unblocked", "t2")]
    assert office.mail("lead") == [("task_completed", "t1")]


async def test_a_call_that_died_before_it_told_anybody_tells_them_when_it_is_run_again(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    await office.does("lead", "TaskCreate", subject="Sum up", owner="Zoë", blocked_by=["t1"])
    await office.services.board.complete("t1", by=AGENTS["alice"], call_id=MessageId("finish"))
    await office.does("alice", "TaskUpdate", call="finish", task_id="t1", status="done")
    assert office.mail("Zoë")[1:] == [("task_unblocked", "t2")]
    assert office.mail("lead") == [("task_completed", "t1")]


async def test_a_change_stays_made_when_somebody_cannot_be_told_and_says_so(office: Office) -> None:
    del office.letters.boxes[AGENTS["alice"]]
    text = await office.does("lead", "TaskCreate", subject="Look", owner="alice")
    assert text.startswith("t1 [todo] Look (owner alice)\nalice could NOT be told: ")


async def test_what_the_board_refuses_reaches_the_model_with_what_to_do(office: Office) -> None:
    await office.does("lead", "TaskCreate", subject="Look")
    await office.does("lead", "TaskCreate", subject="Sum up", blocked_by=["t1"])
    text = await office.refuses("lead", "TaskUpdate", task_id="t2", status="done")
    assert text == "task t2 waits for t1. Complete those first."
    assert "Tasks: t1, t2." in await office.refuses("lead", "TaskGet", task_id="t7")
    assert "t1 -> t2 -> t1" in await office.refuses("lead", "TaskUpdate", task_id="t1", add_blocked_by="t2")
