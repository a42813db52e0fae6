"""The task board: what may be done when, who wins a race, what becomes free."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pseudoclaude.errors import (
    BoardError,
    TaskBlockedError,
    TaskCycleError,
    TaskTakenError,
    UnknownTaskError,
)
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.storage.base import Document
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.teams.board import Board, TaskStatus, blockers_of

LEAD, ALICE, BOB = AgentId("lead-1"), AgentId("alice-1"), AgentId("bob-1")


@pytest.fixture
def board(document: Document) -> Board:
    return Board(document)


async def make(board: Board, *waits_for: str, owner: AgentId | None = None) -> str:
    return (await board.create("look", blocked_by=waits_for, owner=owner, created_by=LEAD)).id


async def stored(document: Document) -> Any:
    current = await document.read()
    return current.value if current else None


async def test_a_board_is_empty_at_first_and_looking_writes_nothing(document: Document, board: Board) -> None:
    assert await board.list() == []
    assert await document.read() is None


async def test_ids_count_up_and_are_never_used_again(document: Document, board: Board) -> None:
    assert [await make(board) for _ in range(3)] == ["t1", "t2", "t3"]
    value = await stored(document)
    assert value["next"] == 4
    value["tasks"] = value["tasks"][:1]
    await document.put(value)
    assert await make(board) == "t4"
    await document.put({**await stored(document), "next": 1})
    assert await make(board) == "t5"


async def test_a_task_keeps_what_it_was_made_with(board: Board) -> None:
    first = await make(board)
    made = await board.create(
        " look\n at  src ", description="all of it", owner=ALICE, blocked_by=[first, first], created_by=LEAD
    )
    task = await board.get(made.id)
    assert task == made
    assert (task.subject, task.description, task.owner) == ("look at src", "all of it", ALICE)
    assert (task.blocked_by, task.status, task.created_by) == ((first,), TaskStatus.TODO, LEAD)
    assert task.blocked


async def test_half_a_surrogate_in_a_text_can_be_stored(board: Board) -> None:
    task = await board.create("a\ud800b", created_by=LEAD)
    assert (await board.update(task.id, by=LEAD, description="\udfff")).task.description == "\ufffd"
    assert (await board.get(task.id)).subject == "a\ufffdb"


@pytest.mark.parametrize("subject", ["", " \n"])
async def test_a_task_needs_a_subject(board: Board, subject: str) -> None:
    with pytest.raises(BoardError, match="subject"):
        await board.create(subject, created_by=LEAD)
    task = await make(board)
    with pytest.raises(BoardError, match="subject"):
        await board.update(task, by=LEAD, subject=subject)


async def test_a_repeated_call_makes_one_task(board: Board) -> None:
    call = MessageId("call-1")
    first = await board.create("look", created_by=LEAD, call_id=call)
    await board.claim(first.id, by=ALICE)
    again = await board.create("look", created_by=LEAD, call_id=call)
    assert (again.id, again.owner) == (first.id, ALICE)
    assert len(await board.list()) == 1
    assert (await board.create("look", created_by=LEAD, call_id=MessageId("call-2"))).id == "t2"


@pytest.mark.parametrize(
    "act",
    [
        lambda board: board.get("t9"),
        lambda board: board.create("x", blocked_by=["t1", "t9"], created_by=LEAD),
        lambda board: board.update("t9", by=LEAD, subject="y"),
        lambda board: board.update("t1", by=LEAD, add_blocked_by=["t9"]),
        lambda board: board.update("t1", by=LEAD, remove_blocked_by=["t9"]),
        lambda board: board.claim("t9", by=LEAD),
        lambda board: board.complete("t9", by=LEAD),
    ],
)
async def test_an_unknown_id_is_told_with_the_known_ones(
    document: Document, board: Board, act: Callable[[Board], Any]
) -> None:
    await make(board)
    await make(board)
    before = await stored(document)
    with pytest.raises(UnknownTaskError, match="t9") as caught:
        await act(board)
    assert "t1, t2" in caught.value.remedy
    assert await stored(document) == before


async def test_a_circle_is_refused_and_named_in_the_order_of_waiting(document: Document, board: Board) -> None:
    a = await make(board)
    b = await make(board, a)
    c = await make(board, b)
    before = await stored(document)
    with pytest.raises(TaskCycleError) as caught:
        await board.update(a, by=LEAD, add_blocked_by=[c])
    circle = re.findall(r"t\d", str(caught.value))
    assert circle[0] == circle[-1]
    assert set(circle) == {a, b, c}
    waits_for = {a: c, b: a, c: b}
    assert all(waits_for[one] == other for one, other in pairwise(circle))
    assert await stored(document) == before


async def test_a_task_cannot_wait_for_itself(board: Board) -> None:
    task = await make(board)
    with pytest.raises(TaskCycleError, match=r"t1 -> t1"):
        await board.update(task, by=LEAD, add_blocked_by=[task])


async def test_tasks_that_are_done_close_circles_too(board: Board) -> None:
    a = await make(board)
    b = await make(board, a)
    await board.complete(a, by=LEAD)
    await board.complete(b, by=LEAD)
    with pytest.raises(TaskCycleError):
        await board.update(a, by=LEAD, add_blocked_by=[b])


async def test_a_blocked_task_is_neither_claimed_nor_started_nor_completed(board: Board) -> None:
    a, b = await make(board), await make(board)
    task = await make(board, a, b)
    await board.complete(a, by=LEAD)
    for act in (
        lambda: board.claim(task, by=ALICE),
        lambda: board.complete(task, by=ALICE),
        lambda: board.update(task, by=ALICE, status="in_progress"),
        lambda: board.update(task, by=ALICE, status="done", owner=ALICE),
    ):
        with pytest.raises(TaskBlockedError, match=task) as caught:
            await act()
        assert caught.value.blockers == (b,)
    assert (await board.get(task)).status is TaskStatus.TODO
    assert (await board.get(task)).owner is None


async def test_completing_names_what_can_go_on_now(board: Board) -> None:
    a, b = await make(board), await make(board)
    on_a = await make(board, a, owner=ALICE)
    on_both = await make(board, a, b)
    change = await board.complete(a, by=BOB)
    assert (change.before.status, change.task.status) == (TaskStatus.TODO, TaskStatus.DONE)
    assert [task.id for task in change.unblocked] == [on_a]
    assert change.unblocked[0].owner == ALICE
    assert not change.unblocked[0].blocked
    assert [task.id for task in (await board.complete(b, by=BOB)).unblocked] == [on_both]
    again = await board.complete(b, by=BOB)
    assert (again.before, again.unblocked) == (again.task, ())


async def test_a_blocker_that_is_taken_away_frees_the_task_at_once(board: Board) -> None:
    a = await make(board)
    task = await make(board, a)
    change = await board.update(task, by=ALICE, remove_blocked_by=[a], status="in_progress")
    assert [other.id for other in change.unblocked] == [task]
    assert (change.task.status, change.task.owner, change.task.blocked_by) == (TaskStatus.IN_PROGRESS, ALICE, ())


async def test_work_that_turns_out_to_wait_for_something_cannot_be_completed_before_that(board: Board) -> None:
    task, other = await make(board), await make(board)
    await board.claim(task, by=ALICE)
    change = await board.update(task, by=ALICE, add_blocked_by=[other])
    assert change.task.blocked
    with pytest.raises(TaskBlockedError):
        await board.complete(task, by=ALICE)
    assert [free.id for free in (await board.complete(other, by=BOB)).unblocked] == [task]


async def test_a_task_that_is_done_can_be_opened_again_and_blocks_again(board: Board) -> None:
    a = await make(board)
    b = await make(board, a)
    await board.complete(a, by=ALICE)
    for act in (lambda: board.claim(a, by=BOB), lambda: board.update(a, by=ALICE, status="in_progress")):
        with pytest.raises(BoardError, match="is done") as caught:
            await act()
        assert "todo" in caught.value.remedy
    await board.update(a, by=BOB, status="todo")
    assert (await board.get(b)).blocked
    assert (await board.claim(a, by=BOB)).owner == BOB


async def test_a_task_that_is_done_cannot_wait_for_one_that_is_not(board: Board) -> None:
    a, b = await make(board), await make(board)
    await board.complete(a, by=ALICE)
    with pytest.raises(BoardError, match="is done"):
        await board.update(a, by=ALICE, add_blocked_by=[b])
    change = await board.update(a, by=ALICE, status="todo", add_blocked_by=[b])
    assert change.task.blocked


async def test_claiming_takes_and_starts_and_a_second_time_changes_nothing(document: Document, board: Board) -> None:
    task = await make(board)
    first = await board.claim(task, by=ALICE)
    assert (first.owner, first.status) == (ALICE, TaskStatus.IN_PROGRESS)
    before = await stored(document)
    assert await board.claim(task, by=ALICE) == first
    assert await stored(document) == before


async def test_what_belongs_to_somebody_else_is_not_taken_in_one_step(board: Board) -> None:
    task = await make(board, owner=ALICE)
    for act in (
        lambda: board.claim(task, by=BOB),
        lambda: board.update(task, by=BOB, status="in_progress"),
        lambda: board.update(task, by=BOB, status="in_progress", owner=BOB),
        lambda: board.update(task, by=BOB, status="in_progress", owner=None),
        lambda: board.update(task, by=BOB, owner=BOB),
    ):
        with pytest.raises(TaskTakenError, match=ALICE) as caught:
            await act()
        assert caught.value.owner == ALICE
    assert (await board.claim(task, by=ALICE)).status is TaskStatus.IN_PROGRESS


async def test_a_task_can_be_given_to_another_and_given_back(board: Board) -> None:
    task = await make(board, owner=ALICE)
    assert (await board.update(task, by=LEAD, owner=BOB, status="in_progress")).task.owner == BOB
    change = await board.update(task, by=BOB, owner=None)
    assert (change.task.owner, change.task.status) == (None, TaskStatus.TODO)
    assert (await board.claim(task, by=ALICE)).owner == ALICE


async def test_an_update_changes_what_it_names_only(document: Document, board: Board) -> None:
    task = await make(board, owner=ALICE)
    change = await board.update(task, by=LEAD, subject="listen", description="well")
    assert (change.before.subject, change.task.subject, change.task.description) == ("look", "listen", "well")
    assert change.task.owner == ALICE
    assert change.task.updated_at >= change.before.updated_at
    before = await stored(document)
    change = await board.update(task, by=LEAD, subject="listen")
    assert change.task == change.before
    assert await stored(document) == before


async def test_an_unknown_status_is_told_with_the_known_ones(board: Board) -> None:
    task = await make(board)
    with pytest.raises(BoardError, match="'finished'") as caught:
        await board.update(task, by=LEAD, status="finished")
    assert "todo, in_progress, done" in caught.value.remedy


async def test_a_repeated_update_tells_what_the_first_did_and_undoes_nothing(board: Board) -> None:
    a = await make(board, owner=ALICE)
    b = await make(board, a)
    call = MessageId("call-1")
    first = await board.update(a, by=BOB, owner=None, status="done", call_id=call)
    await board.update(a, by=LEAD, status="todo", owner=ALICE)
    again = await board.update(a, by=BOB, owner=None, status="done", call_id=call)
    assert (again.before.owner, again.before.status) == (first.before.owner, first.before.status)
    assert [task.id for task in again.unblocked] == [task.id for task in first.unblocked] == [b]
    assert again.task.status is TaskStatus.TODO
    assert (await board.get(a)).owner == ALICE


async def test_the_memory_of_calls_is_bounded(document: Document, board: Board) -> None:
    task = await make(board)
    for number in range(210):
        await board.update(task, by=LEAD, subject=f"look {number}", call_id=MessageId(f"call-{number}"))
    assert len((await stored(document))["calls"]) == 200
    assert (
        await board.update(task, by=LEAD, subject="never", call_id=MessageId("call-209"))
    ).task.subject == "look 209"


async def test_of_many_who_claim_at_once_one_wins(
    document: Document, board: Board, meeting: Callable[[Document, int], Document]
) -> None:
    task = await make(board)
    racing = meeting(document, 16)
    winners: list[AgentId] = []
    losers: list[str] = []

    async def claim(agent: AgentId) -> None:
        try:
            await Board(racing).claim(task, by=agent)
        except TaskTakenError as error:
            losers.append(error.owner)
        else:
            winners.append(agent)

    async with anyio.create_task_group() as group:
        for number in range(16):
            group.start_soon(claim, AgentId(f"agent-{number}"))
    assert len(winners) == 1
    assert losers == winners * 15
    assert (await board.get(task)).owner == winners[0]


CLAIMER = """
import sys, anyio
from pseudoclaude.errors import TaskTakenError
from pseudoclaude.ids import AgentId
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.teams.board import Board

async def main(root, me):
    board = Board(FileStorage(root).document("board.json"))
    ids = [task.id for task in await board.list()]
    print("ready", flush=True)
    sys.stdin.readline()
    for id in ids:
        try:
            await board.claim(id, by=AgentId(me))
        except TaskTakenError:
            continue
        print(id, flush=True)

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_of_many_processes_that_claim_the_same_tasks_each_task_goes_to_one(tmp_path: Path) -> None:
    board = Board(FileStorage(tmp_path).document("board.json"))
    ids = [await make(board) for _ in range(6)]
    won: dict[str, list[str]] = {}
    ready = [anyio.Event() for _ in range(3)]

    async def claimer(number: int) -> None:
        me = f"agent-{number}"
        async with await anyio.open_process([sys.executable, "-c", CLAIMER, str(tmp_path), me], stderr=None) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            lines = BufferedByteReceiveStream(process.stdout)
            assert await lines.receive_until(b"\n", 100) == b"ready"
            ready[number].set()
            for other in ready:
                await other.wait()
            await process.stdin.send(b"go\n")
            rest = b"".join([chunk async for chunk in lines])
            won[me] = rest.decode().split()
            assert await process.wait() == 0

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(claimer, number)
    assert sorted(id for taken in won.values() for id in taken) == ids
    assert {task.id: task.owner for task in await board.list()} == {id: me for me, taken in won.items() for id in taken}


async def test_of_two_edges_that_would_close_a_circle_one_is_made(
    document: Document, board: Board, meeting: Callable[[Document, int], Document]
) -> None:
    a, b = await make(board), await make(board)
    racing = Board(meeting(document, 2))
    refused: list[str] = []

    async def add(task: str, other: str) -> None:
        try:
            await racing.update(task, by=LEAD, add_blocked_by=[other])
        except TaskCycleError:
            refused.append(task)

    async with anyio.create_task_group() as group:
        group.start_soon(add, a, b)
        group.start_soon(add, b, a)
    assert len(refused) == 1


async def test_of_two_that_complete_the_last_blockers_one_frees_the_task(
    document: Document, board: Board, meeting: Callable[[Document, int], Document]
) -> None:
    a, b = await make(board), await make(board)
    task = await make(board, a, b)
    racing = Board(meeting(document, 2))
    freed: list[str] = []

    async def complete(id: str) -> None:
        freed.extend(other.id for other in (await racing.complete(id, by=LEAD)).unblocked)

    async with anyio.create_task_group() as group:
        group.start_soon(complete, a)
        group.start_soon(complete, b)
    assert freed == [task]


async def test_tasks_made_at_once_get_ids_of_their_own(
    document: Document, board: Board, meeting: Callable[[Document, int], Document]
) -> None:
    racing = Board(meeting(document, 12))
    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(make, racing)
    assert [task.id for task in await board.list()] == [f"t{number}" for number in range(1, 13)]


async def test_what_a_newer_program_wrote_survives(document: Document, board: Board) -> None:
    await make(board)
    await make(board)
    value = await stored(document)
    value["colour"] = None
    value["tasks"][0]["badge"] = {"of": None}
    value["tasks"][1]["extra"] = None
    await document.put(value)
    await board.claim("t1", by=ALICE)
    await make(board)
    after = await stored(document)
    assert after["colour"] is None
    assert after["tasks"][0]["badge"] == {"of": None}
    assert after["tasks"][0]["owner"] == ALICE
    assert "extra" in after["tasks"][1]
    assert "blocked" not in after["tasks"][0]


async def test_a_blocker_that_was_removed_by_hand_blocks_nobody(document: Document, board: Board) -> None:
    a = await make(board)
    task = await make(board, a)
    value = await stored(document)
    value["tasks"] = [entry for entry in value["tasks"] if entry["id"] != a]
    await document.put(value)
    assert (await board.claim(task, by=ALICE)).owner == ALICE


@pytest.mark.parametrize(
    "value",
    [
        [],
        "board",
        {"tasks": 3},
        {"tasks": [{"id": "t1"}]},
        {"tasks": [{"id": "../t1", "subject": "x", "created_by": "lead-1"}]},
        {"tasks": [{"id": "t1", "subject": "x", "created_by": "../lead"}]},
        {"tasks": [{"id": "t1", "subject": "x", "created_by": "lead-1", "status": "later"}]},
        {"tasks": [{"id": "t1", "subject": "x", "created_by": "lead-1"}] * 2},
        {"next": 0},
    ],
)
async def test_a_damaged_board_is_told_with_the_place_and_left_alone(
    document: Document, board: Board, value: Any
) -> None:
    await document.put(value)
    for act in (board.list, lambda: board.create("x", created_by=LEAD), lambda: board.claim("t1", by=LEAD)):
        with pytest.raises(BoardError, match=r"board\.json"):
            await act()
    assert await stored(document) == value


async def test_blockers_are_those_that_are_not_done(board: Board) -> None:
    a, b = await make(board), await make(board)
    task = await board.get(await make(board, a, b))
    await board.complete(a, by=LEAD)
    tasks = await board.list()
    assert [other.id for other in blockers_of(task, tasks)] == [b]
    assert blockers_of(task, []) == ()


agents = st.sampled_from([LEAD, ALICE, BOB])
owners = st.one_of(st.just(...), st.none(), agents)
statuses = st.sampled_from([None, *TaskStatus])


class Model:
    """One task as a plain record: what the board must agree with."""

    def __init__(self, owner: AgentId | None, waits_for: set[str]) -> None:
        self.status, self.owner, self.waits_for = TaskStatus.TODO, owner, waits_for


class BoardMachine(RuleBasedStateMachine):
    """Random acts on a board, against a model in which every rule is spelled out once more."""

    ids = Bundle("ids")

    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.board = Board(MemoryStorage().document("board.json"))
        self.model: dict[str, Model] = {}

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def blockers(self, waits_for: set[str]) -> set[str]:
        return {id for id in waits_for if self.model[id].status is not TaskStatus.DONE}

    def reaches(self, start: str, goal: str) -> bool:
        seen, waiting = set(), [start]
        while waiting:
            id = waiting.pop()
            if id == goal:
                return True
            if id not in seen:
                seen.add(id)
                waiting.extend(self.model[id].waits_for)
        return False

    def blocked(self) -> set[str]:
        return {
            id
            for id, task in self.model.items()
            if task.status is not TaskStatus.DONE and self.blockers(task.waits_for)
        }

    def expected(
        self, id: str, by: AgentId, status: TaskStatus | None, owner: Any, add: set[str], remove: set[str]
    ) -> type[BoardError] | Model:
        """The error that an update must raise, or the task after it."""
        now = self.model[id]
        after = Model(now.owner if owner is ... else owner, (now.waits_for | add) - remove)
        after.status = status or now.status
        done, starts = now.status is TaskStatus.DONE, status is TaskStatus.IN_PROGRESS
        if starts and done:
            return BoardError
        if starts and after.owner is None:
            after.owner = by
        if status is None and now.status is TaskStatus.IN_PROGRESS and after.owner is None:
            after.status = TaskStatus.TODO
        if not done and now.owner not in (None, by) and (after.owner == by or (starts and owner is ...)):
            return TaskTakenError
        new = after.waits_for - now.waits_for
        if any(self.reaches(other, id) for other in new):
            return TaskCycleError
        open_ones = self.blockers(after.waits_for)
        if done and after.status is TaskStatus.DONE:
            return BoardError if open_ones & new else after
        if open_ones and status in (TaskStatus.IN_PROGRESS, TaskStatus.DONE):
            return TaskBlockedError
        return after

    @rule(target=ids, owner=st.one_of(st.none(), agents), waits_for=st.lists(ids, max_size=3), by=agents)
    def create(self, owner: AgentId | None, waits_for: list[str], by: AgentId) -> str:
        task = self.loop.run_until_complete(self.board.create("look", owner=owner, blocked_by=waits_for, created_by=by))
        assert task.id == f"t{len(self.model) + 1}"
        self.model[task.id] = Model(owner, set(waits_for))
        return task.id

    @rule(
        id=ids,
        by=agents,
        status=statuses,
        owner=owners,
        add=st.one_of(st.just([]), st.lists(ids, max_size=2)),
        remove=st.one_of(st.just([]), st.lists(ids, max_size=2)),
    )
    def update(
        self, id: str, by: AgentId, status: TaskStatus | None, owner: Any, add: list[str], remove: list[str]
    ) -> None:
        outcome = self.expected(id, by, status, owner, set(add), set(remove))
        act = self.board.update(id, by=by, status=status, owner=owner, add_blocked_by=add, remove_blocked_by=remove)
        if isinstance(outcome, type):
            with pytest.raises(BoardError) as caught:
                self.loop.run_until_complete(act)
            assert type(caught.value) is outcome
            return
        before = self.blocked()
        change = self.loop.run_until_complete(act)
        self.model[id] = outcome
        open_tasks = {other for other, task in self.model.items() if task.status is not TaskStatus.DONE}
        assert {task.id for task in change.unblocked} == (before - self.blocked()) & open_tasks

    @rule(id=ids, by=agents)
    def claim(self, id: str, by: AgentId) -> None:
        self.update(id, by, TaskStatus.IN_PROGRESS, ..., [], [])

    @rule(id=ids, by=agents)
    def complete(self, id: str, by: AgentId) -> None:
        self.update(id, by, TaskStatus.DONE, ..., [], [])

    @invariant()
    def the_board_agrees_with_the_model(self) -> None:
        if not hasattr(self, "board"):
            return
        tasks = self.loop.run_until_complete(self.board.list())
        assert [task.id for task in tasks] == list(self.model)
        blocked = self.blocked()
        for task in tasks:
            model = self.model[task.id]
            assert (task.status, task.owner, set(task.blocked_by)) == (model.status, model.owner, model.waits_for)
            assert task.blocked == (task.id in blocked)
            assert task.status is not TaskStatus.IN_PROGRESS or task.owner is not None


TestAnyHistory = BoardMachine.TestCase
TestAnyHistory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
