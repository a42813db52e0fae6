"""The edges at which mail, failures and crashes get lost elsewhere."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pseudoclaude import Team, tool
from pseudoclaude.chat import ModelRequest
from pseudoclaude.errors import ProviderError, StorageError, TeamError
from pseudoclaude.events import Event, RunEnded, StateChanged, Warned
from pseudoclaude.mailbox.mailbox import Mailbox
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.mailbox.store import Peek
from pseudoclaude.providers.scripted import Answer
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.testing import call
from tests.tasks.stage import Model, answers, join, mail_of, notices, quick, settled, team_of, times

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


def overloaded() -> ProviderError:
    return ProviderError("overloaded", passing=True, status=529)


class Gate:
    """Holds whoever comes through until it is opened, and tells that somebody is there."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()

    async def __call__(self, request: ModelRequest | None = None) -> Answer:
        self.reached.set()
        await self.opened.wait()
        return "done"


# -- mail between busy and idle ---------------------------------------------------------------------------------


@BOTH
async def test_mail_that_comes_before_the_last_reply_returns_gets_a_turn(tmp_path: Path) -> None:
    gate = Gate()
    model = Model(alice=lambda request: gate(request) if len(model.of("alice")) == 1 else "read")
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        with anyio.fail_after(2):
            await gate.reached.wait()
            await team.send("alice", summary="news", content="the-news")
            gate.opened.set()
            await model.until_asked("alice", 2)
        await settled(team)
    assert times("the-news", model.of("alice")[-1]) == 1
    assert model.most_at_once["alice"] == 1
    assert not model.violations


@BOTH
@pytest.mark.parametrize("moment", ["after the reply", "at the end of the run", "when idle is declared"])
async def test_mail_that_comes_between_the_reply_and_idle_gets_a_turn(tmp_path: Path, moment: str) -> None:
    """The sender is let go in the middle of the step, and the member's own steps go on beside it."""
    due = anyio.Event()

    def watch(event: Event) -> None:
        at = {
            "after the reply": type(event).__name__ == "Replied",
            "when idle is declared": isinstance(event, StateChanged) and event.state == "idle" and bool(model.requests),
            "at the end of the run": isinstance(event, RunEnded),
        }
        if event.agent == "alice" and at[moment]:
            due.set()

    model = Model()
    async with team_of(model, tmp_path, listeners=[watch]) as team:
        await join(team, "alice")
        with anyio.fail_after(2):
            await due.wait()
            await team.send("alice", summary="news", content="the-news")
            await model.until("alice", lambda requests: times("the-news", requests[-1]) == 1)
        await settled(team)
    assert times("the-news", model.of("alice")[-1]) == 1
    assert model.most_at_once["alice"] == 1
    assert not model.violations


@BOTH
async def test_mail_that_comes_right_after_idle_gets_a_turn(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        run = team.manager.runs()[-1]
        with anyio.fail_after(2):
            await run.done.wait()
            await team.send("alice", summary="news", content="the-news")
            await model.until_asked("alice", 2)
        await settled(team)
    assert times("the-news", model.of("alice")[-1]) == 1
    assert model.most_at_once["alice"] == 1


def _last_holds(text: str, requests: list[ModelRequest]) -> bool:
    return times(text, requests[-1]) > 0


async def test_two_hundred_messages_at_any_moment_each_get_a_turn(tmp_path: Path) -> None:
    dice = random.Random(7)

    async def slowly(request: ModelRequest) -> Answer:
        await anyio.sleep(dice.uniform(0, 0.02))
        return "read"

    model = Model(alice=slowly)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await model.until_asked("alice", 1)
        for number in range(200):
            await anyio.sleep(dice.uniform(0, 0.02))
            await team.send("alice", summary="news", content=f"news-{number}.")
            with anyio.fail_after(2):
                await model.until("alice", partial(_last_holds, f"news-{number}."))
        await settled(team)
    last = model.of("alice")[-1]
    assert [times(f"news-{number}.", last) for number in range(200)] == [1] * 200
    assert model.most_at_once["alice"] == 1
    assert not model.violations


@BOTH
async def test_two_senders_at_once_start_one_run_and_a_third_joins_it(tmp_path: Path, anyio_backend_name: str) -> None:
    gates: list[Gate] = []

    async def held(request: ModelRequest) -> Answer:
        if gates:
            await gates.pop()()
        return "read"

    rounds = 50 if anyio_backend_name == "asyncio" else 10
    model = Model(alice=held)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        for number in range(rounds):
            before, gate = len(model.of("alice")), Gate()
            gates.append(gate)
            async with anyio.create_task_group() as senders:
                for who in ("one", "two"):
                    senders.start_soon(_send, team, f"{who}-{number}.")
            with anyio.fail_after(2):
                await gate.reached.wait()
            await team.send("alice", summary="third", content=f"three-{number}.")
            gate.opened.set()
            await settled(team)
            last = model.of("alice")[-1]
            assert [times(f"{who}-{number}.", last) for who in ("one", "two", "three")] == [1, 1, 1]
            assert 2 <= len(model.of("alice")) - before <= 3
    assert model.most_at_once["alice"] == 1
    assert not model.violations


async def _send(team: Team, content: str) -> None:
    await team.send("alice", summary="news", content=content)


# -- mail and failures ------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("failures", [1, 2, 3])
async def test_mail_in_a_failed_request_is_in_the_next_one_without_new_mail(tmp_path: Path, failures: int) -> None:
    model = Model(alice=answers("ready", *[overloaded() for _ in range(failures)], "read both"))
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        await team.send("alice", summary="a", content="letter-a")
        await team.send("alice", summary="b", content="letter-b")
        await settled(team)
        lead = await mail_of(team, team.record.lead.agent_id)
    accepted = model.of("alice")[-1]
    assert (times("letter-a", accepted), times("letter-b", accepted)) == (1, 1)
    assert all(status == "finished" for status, _ in notices(lead))
    assert not model.violations


async def test_a_failure_that_does_not_pass_is_told_to_the_lead_at_once(tmp_path: Path) -> None:
    model = Model(alice=answers(ProviderError("no such model", passing=False, status=404)))
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await settled(team)
        assert len(model.of("alice")) == 1
        assert "no such model" in team.manager.halted()["alice"]
        assert times("no such model", model.of("lead")[-1]) >= 1
        assert notices(await mail_of(team, team.record.lead.agent_id)) == [("failed", "no such model")]
        assert team.manager.last_run(alice.agent_id)
        await team.send("alice", summary="again", content="try-again")
        await settled(team)
        assert times("try-again", model.of("alice")[-1]) == 1
        assert "alice" not in team.manager.halted()


async def test_a_failure_that_stays_is_final_after_the_last_retry_and_told_once(tmp_path: Path) -> None:
    model = Model(alice=lambda _: overloaded())
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await settled(team)
        assert len(model.of("alice")) == 4
        assert notices(await mail_of(team, team.record.lead.agent_id)) == [("failed", "overloaded")]
        await team.send("alice", summary="again", content="try-again")
        await settled(team)
        assert len(model.of("alice")) == 5
        assert times("try-again", model.of("alice")[-1]) == 1
    assert not model.violations


async def test_a_stop_calls_off_the_retry(tmp_path: Path) -> None:
    model = Model(alice=lambda _: overloaded())
    async with team_of(model, tmp_path, chosen=quick(retry_delays=(3600.0,))) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            await team.manager.runs()[-1].done.wait()
        assert "tried again" in team.manager.halted()["alice"]
        assert "not tried again" in await team.manager.stop_all()
        await settled(team)
        assert len(model.of("alice")) == 1
        assert await team.manager.stop(alice.agent_id) == "alice is not running"


class Unmarkable(Mailbox):
    """A mailbox that can be read, and in which nothing can be marked."""

    async def acknowledge(self, indices: Iterable[int]) -> str:
        return "the disk is full"


async def test_mail_that_cannot_be_marked_costs_one_turn_and_fails_in_the_end(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await settled(team)
        store = NativeStore(FileStorage(team.folder, durability="os"))
        team.manager._entries[alice.agent_id].mailbox = Unmarkable(store, alice.agent_id)
        await team.send("alice", summary="news", content="the-news")
        await settled(team)
        assert len(model.of("alice")) == 2
        assert times("the-news", model.of("alice")[-1]) == 1
        assert "the disk is full" in team.manager.halted()["alice"]
        assert any("the disk is full" in error for _, error in notices(await mail_of(team, team.record.lead.agent_id)))
        await team.send("alice", summary="more", content="more-news")
        await settled(team)
    assert [times(text, model.of("alice")[-1]) for text in ("the-news", "more-news")] == [1, 1]
    assert not model.violations


class Unreadable(Mailbox):
    """A mailbox that cannot be read, until it is mended."""

    mended = False

    async def peek(self) -> Peek:
        if not self.mended:
            raise StorageError("inboxes", "the disk is sick")
        return await super().peek()


async def test_a_mailbox_that_cannot_be_read_for_a_while_is_looked_at_again(tmp_path: Path) -> None:
    warnings: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            warnings.append(event.text)

    model = Model()
    async with team_of(model, tmp_path, listeners=[listen]) as team:
        alice = await join(team, "alice")
        await settled(team)
        store = NativeStore(FileStorage(team.folder, durability="os"))
        mailbox = Unreadable(store, alice.agent_id)
        team.manager._entries[alice.agent_id].mailbox = mailbox
        await team.send("alice", summary="news", content="the-news")
        await settled(team)
        assert len(model.of("alice")) == 1
        mailbox.mended = True
        await model.until_asked("alice", 2)
        await settled(team)
    assert times("the-news", model.of("alice")[-1]) == 1
    assert len([text for text in warnings if "the disk is sick" in text]) == 1


# -- crashes ----------------------------------------------------------------------------------------------------


@BOTH
async def test_a_member_whose_provider_crashes_has_failed_and_answers_the_next_mail(tmp_path: Path) -> None:
    model = Model(alice=answers(ValueError("broken model")))
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await settled(team)
        run = team.manager.last_run(alice.agent_id)
        assert run is not None
        assert (run.status, run.error) == ("failed", "ValueError: broken model")
        assert times("broken model", model.of("lead")[-1]) >= 1
        await team.send("alice", summary="again", content="are-you-there")
        await settled(team)
        assert times("are-you-there", model.of("alice")[-1]) == 1
    assert not model.violations


async def test_a_tool_that_crashes_is_a_result_that_the_model_reads(tmp_path: Path) -> None:
    @tool(name="Break")
    def broken() -> str:
        """Break."""
        raise ValueError("broken tool")

    model = Model(alice=answers([call("Break")], "I see"))
    async with team_of(model, tmp_path, tools=[broken]) as team:
        alice = await join(team, "alice")
        await settled(team)
        run = team.manager.last_run(alice.agent_id)
    assert run is not None
    assert (run.status, run.text) == ("finished", "I see")
    assert "broken tool" in str(model.of("alice")[-1].messages[-1].content)
    assert not model.violations


@pytest.mark.parametrize("where", ["request", "tool"])
async def test_a_run_whose_task_is_cancelled_from_outside_has_failed_and_can_go_on(tmp_path: Path, where: str) -> None:
    gate = Gate()

    @tool(name="Hang")
    async def hang() -> str:
        """Hang."""
        await gate()
        return "never"

    model = Model(alice=answers(*([[call("Hang")]] if where == "tool" else [])))
    if where == "request":
        model.parts["alice"] = lambda request: gate(request) if len(model.of("alice")) == 1 else "here I am"
    async with team_of(model, tmp_path, tools=[hang]) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            await gate.reached.wait()
        task_named(f"run {alice.agent_id}.1").cancel()
        gate.opened.set()
        await settled(team)
        run = team.manager.runs()[0]
        assert (run.agent, run.status, run.error) == ("alice", "failed", "the run was cancelled from outside")
        assert times("cancelled from outside", model.of("lead")[-1]) >= 1
        await team.send("alice", summary="again", content="are-you-there")
        await settled(team)
    assert times("are-you-there", model.of("alice")[-1]) == 1
    assert not model.violations


def task_named(name: str) -> asyncio.Task[object]:
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == name]
    return task


async def test_a_team_whose_background_is_cancelled_from_outside_does_not_end_without_a_word(tmp_path: Path) -> None:
    async def cancel_the_watch() -> None:
        async with team_of(Model(), tmp_path):
            with anyio.fail_after(5):
                await anyio.wait_all_tasks_blocked()
                task_named("mail watch").cancel()
                await anyio.sleep_forever()

    with pytest.raises(TeamError, match="cancelled from outside"):
        await cancel_the_watch()


async def test_a_run_cancelled_by_its_scope_has_failed_with_the_reason(tmp_path: Path) -> None:
    gate = Gate()
    model = Model(alice=gate)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        with anyio.fail_after(5):
            await gate.reached.wait()
        team.manager.runs()[0].stop.scope.cancel()
        await settled(team)
        assert team.manager.halted()["alice"] == "it failed: the run was cancelled from outside"


# -- background tasks -------------------------------------------------------------------------------------------


@asynccontextmanager
async def collecting_garbage() -> AsyncIterator[None]:
    async def collect() -> None:
        while True:
            gc.collect()
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        group.start_soon(collect)
        yield
        group.cancel_scope.cancel()


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"debug": True})])
async def test_no_background_task_vanishes_and_a_failed_one_is_seen(tmp_path: Path, anyio_backend: Any) -> None:
    ends: list[RunEnded] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            ends.append(event)

    model = Model(bob=answers("ready", ValueError("broken")))
    async with collecting_garbage(), team_of(model, tmp_path, listeners=[listen]) as team:
        for name in ("alice", "bob"):
            await join(team, name)
        for number in range(10):
            await settled(team)
            await team.send(["alice", "bob"], summary="news", content=f"news-{number}.")
        await settled(team)
    assert [times(f"news-{number}.", model.of("alice")[-1]) for number in range(10)] == [1] * 10
    assert [(end.agent, end.error) for end in ends if end.status == "failed"] == [("bob", "ValueError: broken")]
    assert not model.violations
