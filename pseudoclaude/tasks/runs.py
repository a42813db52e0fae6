"""The runs of a process: who may run, who does, and how they ended. The wake rule is applied here and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
from anyio.abc import TaskGroup

from ..errors import MailError, StorageError, TeamError, UnknownMemberError
from ..events import Warned
from ..ids import AgentId
from ..mailbox.mailbox import Mailbox
from ..mailbox.store import Peek
from ..post import Wake
from ..runner.run import TurnLimit
from ..teams.models import Agent
from ..tools.base import Crew, Services
from .entry import Entry, RunInfo
from .launch import Launcher
from .parts import Parts
from .reports import Reports
from .wake import Halt, owes_turn, wakeable

AT_WORK = "it is at work and reads this before its next step"


class Runs:
    """Launches and resumes runs, and knows all of this process.

    :param crew: what tools are given for spawning and control.
    """

    def __init__(self, parts: Parts, crew: Crew) -> None:
        self._parts = parts
        self._reports = Reports(parts)
        services = Services(parts.registry, parts.store, parts.post, parts.board, crew)
        self._launcher = Launcher(parts, services, self._reports)
        self._entries: dict[AgentId, Entry] = {}
        self._runs: list[RunInfo] = []
        self._changed = anyio.Event()
        self._group: TaskGroup | None = None

    # -- the wake rule ------------------------------------------------------------------------------------------

    async def wake(self, agent_id: AgentId) -> Wake:
        """Start a run if the agent owes a turn, is not running and can be woken; what happened, or why nothing did.

        An agent at work is interrupted, if mail that cannot wait has come.
        """
        entry = self._entries.get(agent_id)
        if entry is None or self._group is None:
            return Wake()
        run, looks = entry.run, entry.run.looks if entry.run else 0
        peek = await self._peek(entry)
        if entry.busy is not None:
            # Mail that was there before a run last looked is in its conversation already.
            if run is not None and entry.run is run and run.looks == looks and peek.interrupting:
                run.interrupt()
            return Wake(why=AT_WORK)
        situation = entry.situation(peek)
        if not owes_turn(situation):
            return Wake()
        if why := wakeable(situation):
            return Wake(why=f"it does not start: {why}")
        return Wake(run_id=self._start(entry, "mail" if peek.waking else "open work").run_id)

    async def wake_all(self) -> None:
        """Apply the wake rule to everybody."""
        for agent_id in tuple(self._entries):
            await self.wake(agent_id)

    def launch(self, agent_id: AgentId, *, why: str = "asked for") -> RunInfo:
        """Start a run of an agent, whatever kept it from going on; the run under way, if there is one.

        :raises UnknownMemberError: when there is no such agent.
        """
        entry = self._entry(agent_id)
        return entry.busy or self._start(entry, why)

    async def resume(self, agent_id: AgentId) -> Wake:
        """Lift what keeps an agent from going on, and apply the wake rule to it.

        :raises UnknownMemberError: when there is no such agent.
        """
        self._entry(agent_id).halt = None
        woken = await self.wake(agent_id)
        self._note_change()
        return woken

    async def _peek(self, entry: Entry) -> Peek:
        try:
            peek = await entry.mailbox.peek()
        except (MailError, StorageError) as error:
            trouble = error.explain()
            if trouble != entry.trouble:
                self._reports.publish(entry, Warned(text=trouble))
            entry.trouble = trouble
            if self._group is not None and not entry.looks_again:
                entry.looks_again = True
                self._group.start_soon(self._look_again, entry)
            return Peek()
        entry.trouble = ""
        return peek

    async def _look_again(self, entry: Entry) -> None:
        await anyio.sleep(self._parts.watch_retry)
        entry.looks_again = False
        await self.wake(entry.identity.agent_id)

    def _start(self, entry: Entry, why: str) -> RunInfo:
        assert self._group is not None, "a run needs a running manager"
        info = RunInfo(entry.next_run_id, entry.identity.name, why, datetime.now(UTC), said=entry.inputs.said)
        entry.busy, entry.halt = info, None
        self._runs.append(info)
        self._group.start_soon(self._run, entry, info, name=f"run {info.run_id}")
        return info

    async def _run(self, entry: Entry, info: RunInfo) -> None:
        try:
            await self._launcher.carry_out(entry, info)
        finally:
            entry.run = entry.busy = None
            info.done.set()
            self._note_change()
            if self._group is not None:  # in tasks of their own, since this one may have been cancelled
                if entry.halt is not None and entry.halt.retry_in is not None:
                    self._group.start_soon(self._retry, entry, entry.halt, entry.halt.retry_in)
                self._group.start_soon(self.wake, entry.identity.agent_id)

    async def _retry(self, entry: Entry, halt: Halt, delay: float) -> None:
        await anyio.sleep(delay)
        if entry.halt is halt:
            await self.resume(entry.identity.agent_id)

    # -- looking ----------------------------------------------------------------------------------------------------

    def runs(self) -> tuple[RunInfo, ...]:
        """Every run of this process, oldest first."""
        return tuple(self._runs)

    def get(self, run_id: str) -> RunInfo | None:
        """The newest run of this id."""
        return next((info for info in reversed(self._runs) if info.run_id == run_id), None)

    async def wait(self, run_id: str) -> RunInfo:
        """Wait until a run is over; how it ended.

        :raises TeamError: when this process has no such run.
        """
        info = self.get(run_id)
        if info is None:
            known = ", ".join(info.run_id for info in self._runs[-5:]) or "none"
            raise TeamError(f"there is no run {run_id!r} in this process", remedy=f"The newest are: {known}.")
        await info.done.wait()
        return info

    def last_text(self, agent_id: AgentId) -> str:
        """The last text of an agent's last run."""
        return self._entry(agent_id).last_text

    def last_run(self, agent_id: AgentId) -> RunInfo | None:
        """The newest run of an agent in this process."""
        name = self._entry(agent_id).identity.name
        return next((info for info in reversed(self._runs) if info.agent == name), None)

    def is_fresh(self, agent_id: AgentId) -> bool:
        """Whether nothing was ever said to this agent."""
        entry = self._entry(agent_id)
        return entry.runs_ended == 0 and entry.busy is None and not entry.open_transcript

    def halted(self) -> dict[str, str]:
        """The agents that owe something or were cut off and do not go on by themselves, and why."""
        return {entry.identity.name: entry.halt.why for entry in self._entries.values() if entry.halt is not None}

    async def settle(self) -> None:
        """Wait until nobody runs, nobody that can be woken owes a turn, and no retry is due."""
        while True:
            changed = self._changed
            if not self._in_motion():
                await self.wake_all()
                if not self._in_motion() and not changed.is_set():
                    return
            await changed.wait()

    def _in_motion(self) -> bool:
        return any(entry.in_motion for entry in self._entries.values())

    def _enter(self, agent: Agent) -> Entry:
        entry = self._entries.get(agent.agent_id)
        if entry is None:
            mailbox = Mailbox(self._parts.store, agent.agent_id)
            entry = Entry(self._parts.identify(agent), mailbox, TurnLimit(self._parts.max_turns))
            self._entries[agent.agent_id] = entry
        return entry

    def _entry(self, agent_id: AgentId) -> Entry:
        entry = self._entries.get(agent_id)
        if entry is None:
            raise UnknownMemberError(agent_id, [entry.identity.name for entry in self._entries.values()])
        return entry

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
