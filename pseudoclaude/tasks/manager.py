"""Owns every run of a process: takes a team up, watches its mail, and carries out what is asked of its agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from .. import prompts
from ..errors import PseudoclaudeError, TeamError, ToolError
from ..events import Event, MemberJoined, Warned
from ..ids import RUNTIME, USER, AgentId, AgentName, MessageId
from ..mail import IdleStatus
from ..runner.records import Source
from ..teams.models import MemberRecord
from .control import Commands
from .entry import Entry, RunInfo
from .launch import notice_id
from .parts import Parts
from .runs import Runs
from .upkeep import keep_house
from .wake import Halt, State

__all__ = ["Parts", "TaskManager"]


class TaskManager(Runs):
    """The runs of one team in this process, which holds the team's ``lead.lock``.

    Implements :class:`~pseudoclaude.post.Waker` for the post and :class:`~pseudoclaude.tools.base.Crew` for tools.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts, crew=self)
        self._commands = Commands(parts.store, parts.post, parts.journal, self)

    # -- life ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the team for the duration of the block: whoever owes a turn starts at once.

        On leaving, runs are cancelled where they stand. Their transcripts stay open, so that the next process
        carries them on.

        :raises TeamError: when somebody cancelled a task of the team behind its back.
        """
        await self._enter_team()
        self._parts.post.waker = self
        failure: Exception | None = None
        is_cut = False
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch, name="mail watch")
            group.start_soon(keep_house, self._parts, lambda: not self._in_motion(), name="upkeep")
            try:
                await self.wake_all()
                yield
            except Exception as error:  # leaves the block as it is, not inside an exception group
                failure = error
            except anyio.get_cancelled_exc_class():
                is_cut = True
                raise
            finally:
                self._group = None
                self._parts.post.waker = None
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if is_cut:  # not from around the block, else the cancellation would have gone on
            raise TeamError("a background task of the team was cancelled from outside, so the team has stopped")

    async def _enter_team(self) -> None:
        team = await self._parts.registry.load()
        for agent_id in (team.lead.agent_id, USER, RUNTIME, *(member.agent_id for member in team.present)):
            await self._parts.store.create(agent_id)
        for agent in team.agents:
            await self._take_up(self._enter(agent))
        try:
            await self._commands.refuse_waiting()
        except PseudoclaudeError as error:
            self._warn_about_commands(error)

    async def _take_up(self, entry: Entry) -> None:
        """Go on from where an earlier process stopped, which may have died before it told the lead."""
        try:
            conversation = await self._launcher.open(entry)
        except PseudoclaudeError as error:  # the others can work all the same
            why = f"its conversation cannot be read: {error.explain()}"
            entry.halt = Halt(why, await entry.mailbox.end(), entry.inputs.said)
            self._reports.publish(entry, Warned(text=why))
            await self._reports.set_state(entry, State.FAILED, why)
            return
        entry.learn(conversation)
        await self._reports.set_state(entry, State.IDLE)
        ended = conversation.ended
        if ended is None:
            return
        if ended.status in (IdleStatus.INTERRUPTED, IdleStatus.LIMIT):
            entry.halt = Halt(f"its run was ended: {ended.error}", ended.mail_end, entry.inputs.said)
        if ended.status is not IdleStatus.FAILED or not (entry.open_transcript or ended.passing):
            notice = notice_id(entry, conversation)
            await self._reports.notify_lead(entry, notice, ended, repeated=True)

    async def _watch(self) -> None:
        """Mail that other processes wrote wakes here; so do commands."""
        while True:
            try:
                async with self._parts.store.watch() as names:
                    async for agent_id in names:
                        if agent_id == RUNTIME and self._group is not None:
                            self._group.start_soon(self._take_commands)
                        await self.wake(agent_id)
            except PseudoclaudeError as error:
                self._parts.bus.publish(Warned(text=f"mail of other processes cannot be watched: {error.explain()}"))
            await anyio.sleep(self._parts.watch_retry)

    async def _take_commands(self) -> None:
        try:
            await self._commands.take()
        except PseudoclaudeError as error:
            self._warn_about_commands(error)

    def _warn_about_commands(self, error: PseudoclaudeError) -> None:
        self._parts.bus.publish(Warned(text=f"commands of other processes cannot be read: {error.explain()}"))

    def subscribe(self) -> MemoryObjectReceiveStream[Event]:
        """A stream of everything the team reports from now on; close it when done."""
        return self._parts.bus.subscribe()

    # -- what tools, the person and other processes ask for --------------------------------------------------------

    async def say(self, agent_id: AgentId, text: str) -> RunInfo:
        """Put something from the person into an agent's conversation, before its next step; the run it starts or joins.

        A person lifts every halt.
        """
        self._entry(agent_id).inputs.add(Source.USER, text)
        return self.launch(agent_id, why="the person")

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
        """Add a member and start it; the member that this call made before, if it is repeated.

        The mailbox is made first, so that nobody in the roster is ever without one.

        :raises InvalidNameError: for a name that will not do.
        :raises MemberExistsError: when the name is taken.
        :raises TooManyMembersError: when the team is full.
        :raises ToolError: for an empty prompt or an unknown tool.
        """
        if not prompt.strip():
            raise ToolError("a member needs a prompt: it knows nothing else")
        wanted = MemberRecord(
            name=AgentName(name.strip()),
            agent_id=AgentId.new(name),
            prompt=prompt,
            description=description,
            model=model,
            tools=tuple(tools) if tools is not None else None,
            spawned_by=spawned_by,
        )
        self._parts.equip(wanted)  # raises for tools that do not exist
        known = set(self._entries)
        with anyio.CancelScope(shield=True):  # nobody is in the roster whom this process does not run
            wanted = await self._admit(wanted)
        if wanted.agent_id in self._entries.keys() - known:
            self._reports.publish(self._entry(wanted.agent_id), MemberJoined(description=wanted.description))
            await self.wake(wanted.agent_id)
        return wanted

    async def _admit(self, wanted: MemberRecord) -> MemberRecord:
        team = await self._parts.registry.load()
        member = next((m for m in team.members if m.spawned_by == wanted.spawned_by), None)
        if member is None:
            await self._parts.store.create(wanted.agent_id)
            member = await self._parts.registry.add(wanted, limit=self._parts.max_members)
        if member.agent_id not in self._entries and member.ended_at is None:
            self._enter(member).open_transcript = True  # it begins with its prompt
        return member

    async def nudge(self, agent_id: AgentId) -> str:
        """Start a run of an idle member with the wake prompt; what happened, in words."""
        entry = self._entry(agent_id)
        name = entry.identity.name
        if entry.busy is not None:
            return f"{name} is at work already: run {entry.busy.run_id}"
        entry.inputs.add(Source.NUDGE, prompts.render("wake"))
        return f"{name} was nudged: run {self.launch(agent_id, why='a nudge').run_id}"

    async def stop(self, agent_id: AgentId, *, reason: str = "") -> str:
        """End a run: by itself between two steps, or by cancellation when that takes longer than the grace.

        Mail that waits at the stop starts no new run, and no timer does; what comes later does.
        """
        entry = self._entry(agent_id)
        name, info, reason = entry.identity.name, entry.busy, reason or "stopped"
        if info is None:
            return await self._call_off(entry, reason)
        info.stop.why, info.said = reason, entry.inputs.said
        await self._note_stop(entry, reason)
        if await self._over(info):
            return f"{name} was stopped"
        info.stop.scope.cancel()
        if await self._over(info):
            return f"{name} was stopped in the middle of a step"
        return f"{name} hangs in a step that cannot be cancelled; it ends after it"

    async def stop_all(self, *, reason: str = "") -> str:
        """Stop every run of the team, all at the same time; what happened, in words."""
        moving = [agent_id for agent_id, entry in self._entries.items() if entry.in_motion]
        answers: list[str] = []

        async def stop_one(agent_id: AgentId) -> None:
            answers.append(await self.stop(agent_id, reason=reason))

        async with anyio.create_task_group() as group:
            for agent_id in moving:
                group.start_soon(stop_one, agent_id)
        return "; ".join(answers) or "nobody is running"

    async def _over(self, info: RunInfo) -> bool:
        with anyio.move_on_after(self._parts.stop_grace):
            await info.done.wait()
        return info.done.is_set()

    async def _call_off(self, entry: Entry, reason: str) -> str:
        """Stop an agent that does not run: only a timer can be about to start it."""
        name, halt = entry.identity.name, entry.halt
        if halt is None or halt.retry_in is None:
            return f"{name} is not running"
        entry.halt = Halt(f"it failed, and was stopped: {reason}", await entry.mailbox.end(), entry.inputs.said)
        self._note_change()
        await self._note_stop(entry, reason)
        return f"{name} is not running, and is not tried again"

    async def _note_stop(self, entry: Entry, reason: str) -> None:
        try:
            await self._parts.journal.note(RUNTIME, "stop", target=entry.identity.agent_id, why=reason)
        except PseudoclaudeError as error:  # a full disk keeps nobody running
            self._reports.publish(entry, Warned(text=error.explain()))
