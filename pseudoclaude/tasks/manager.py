"""Owns every run of a process: launches, wakes, stops them. The wake rule is applied here and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from .. import prompts
from ..errors import PseudoclaudeError, StorageError, ToolError, UnknownMemberError
from ..events import Event, EventBus, MemberJoined, RunEnded, RunStarted, StateChanged, Warned
from ..ids import RUNTIME, USER, AgentId, AgentName, MessageId
from ..journal import Journal
from ..mail import IdleNotice, IdleStatus, MessageType
from ..mailbox.mailbox import Mailbox
from ..mailbox.store import MailStore
from ..paths import TeamPaths
from ..post import Post, Wake
from ..providers.base import Provider
from ..runner.conversation import Conversation
from ..runner.records import Ended, Source
from ..runner.run import Identity, Run, TurnLimit
from ..runner.runner import close, run_to_end
from ..storage.base import Storage
from ..teams.board import Board
from ..teams.models import Agent, MemberRecord
from ..teams.registry import Registry
from ..tools.base import Services
from ..tools.toolbox import Toolbox
from .control import Commands
from .entry import Entry, RunInfo
from .wake import Halt, State, owes_turn, wakeable

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the manager works with; put together in :mod:`pseudoclaude.app`."""

    storage: Storage
    registry: Registry
    store: MailStore
    post: Post
    board: Board
    journal: Journal
    bus: EventBus
    provider: Provider
    identify: Callable[[Agent], Identity]
    equip: Callable[[Agent], Toolbox]
    holder: str
    """What other processes are told about this one."""
    max_members: int = 16
    max_turns: int | None = None
    max_tokens: int = 16_000
    reminder_tokens: int = 20_000
    stop_grace: float = 10.0
    retry_delays: tuple[float, ...] = (30.0, 120.0, 600.0)
    watch_retry: float = 1.0
    """Seconds until a watch that failed is taken up again."""


class TaskManager:
    """The runs of one team in this process, which holds the team's ``lead.lock``.

    Implements :class:`~pseudoclaude.post.Waker` for the post and :class:`~pseudoclaude.tools.base.Crew` for tools.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._services = Services(parts.registry, parts.store, parts.post, parts.board, self)
        self._entries: dict[AgentId, Entry] = {}
        self._runs: list[RunInfo] = []
        self._commands = Commands(parts.store, parts.post, parts.journal, self)
        self._changed = anyio.Event()
        self._group: TaskGroup | None = None

    # -- life ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the team for the duration of the block: whoever owes a turn starts at once.

        On leaving, runs are cancelled where they stand. Their transcripts stay open, so that the next process
        carries them on.
        """
        await self._enter_team()
        self._parts.post.waker = self
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._watch)
            try:
                await self.wake_all()
                yield
            except Exception as error:  # leaves the block as it is, not inside an exception group
                failure = error
            finally:
                self._group = None
                self._parts.post.waker = None
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _enter_team(self) -> None:
        team = await self._parts.registry.load()
        for agent_id in (team.lead.agent_id, USER, RUNTIME, *(member.agent_id for member in team.present)):
            await self._parts.store.create(agent_id)
        for agent in team.agents:
            entry = self._enter(agent)
            conversation = await self._open(entry)
            entry.learn(conversation)
            if (ended := conversation.ended) is not None:
                await self._take_up(entry, conversation, ended)

    def _enter(self, agent: Agent) -> Entry:
        entry = self._entries.get(agent.agent_id)
        if entry is None:
            mailbox = Mailbox(self._parts.store, agent.agent_id)
            entry = Entry(self._parts.identify(agent), mailbox, TurnLimit(self._parts.max_turns))
            self._entries[agent.agent_id] = entry
        return entry

    async def _take_up(self, entry: Entry, conversation: Conversation, ended: Ended) -> None:
        """Go on from the end of a run of another process, which may have died before it told the lead."""
        if ended.status in (IdleStatus.INTERRUPTED, IdleStatus.LIMIT):
            entry.halt = Halt(f"its run was ended: {ended.error}", ended.mail_end)
        elif ended.status is IdleStatus.FINISHED:
            await self._notify_lead(entry, conversation.ended_place, ended, repeated=True)

    async def _open(self, entry: Entry) -> Conversation:
        key = TeamPaths.session(entry.identity.agent_id)
        return await Conversation.open(self._parts.storage.owned_log(key), entry.identity.agent_id)

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
            self._parts.bus.publish(Warned(text=f"commands of other processes cannot be read: {error.explain()}"))

    # -- the wake rule ------------------------------------------------------------------------------------------

    async def wake(self, agent_id: AgentId) -> Wake:
        """Start a run if the agent owes a turn, is not running and can be woken; what happened, or why nothing did."""
        entry = self._entries.get(agent_id)
        if entry is None or self._group is None:
            return Wake()
        if entry.is_busy():
            return Wake(why="it is at work and reads this before its next step")
        situation = entry.situation(await entry.mailbox.peek())
        if entry.is_busy():  # somebody else was faster while the mailbox was looked at
            return Wake(why="it is at work and reads this before its next step")
        if not owes_turn(situation):
            return Wake()
        if why := wakeable(situation):
            return Wake(why=f"it does not start: {why}")
        return Wake(run_id=self._start(entry, "mail" if situation.peek.waking else "open work").run_id)

    async def wake_all(self) -> None:
        """Apply the wake rule to everybody."""
        for agent_id in tuple(self._entries):
            await self.wake(agent_id)

    def _start(self, entry: Entry, why: str) -> RunInfo:
        assert self._group is not None, "a run needs a running manager"
        info = RunInfo(entry.next_run_id, entry.identity.name, why, datetime.now(UTC))
        entry.busy = info
        entry.halt = None
        self._runs.append(info)
        self._group.start_soon(self._run, entry, info, name=f"run {info.run_id}")
        return info

    # -- one run ------------------------------------------------------------------------------------------------

    async def _run(self, entry: Entry, info: RunInfo) -> None:
        key = TeamPaths.session(entry.identity.agent_id)
        try:
            await self._set_state(entry, State.STARTING)
            with self._parts.storage.lease(key).hold(self._parts.holder):
                conversation = await self._open(entry)
                run = entry.run = self._make_run(entry, conversation)
                self._publish(entry, RunStarted(run_id=info.run_id, why=info.why))
                await self._set_state(entry, State.WORKING)
                ended = await self._carry_out(run)
                await self._finish(entry, run, info, ended)
        except Exception as error:  # not even the transcript could be written: the team must hear of it all the same
            await self._fail_without_transcript(entry, info, error)
        finally:
            entry.run = entry.busy = None
            info.done.set()
            self._note_change()
        await self.wake(entry.identity.agent_id)

    def _make_run(self, entry: Entry, conversation: Conversation) -> Run:
        agent = self._parts.registry.team.find(entry.identity.agent_id)
        assert agent is not None, "only agents of the roster have entries"
        return Run(
            identity=entry.identity,
            conversation=conversation,
            mailbox=entry.mailbox,
            provider=self._parts.provider,
            toolbox=self._parts.equip(agent),
            services=self._services,
            bus=self._parts.bus,
            limit=entry.limit,
            max_tokens=self._parts.max_tokens,
            reminder_tokens=self._parts.reminder_tokens,
            inputs=entry.inputs,
        )

    async def _carry_out(self, run: Run) -> Ended:
        with run.scope:
            return await run_to_end(run)
        # only a cancelled scope arrives here
        if run.stopping is not None:
            return await close(run, IdleStatus.INTERRUPTED, run.stopping)
        return await close(run, IdleStatus.FAILED, "the run was cancelled from outside")

    async def _finish(self, entry: Entry, run: Run, info: RunInfo, ended: Ended) -> None:
        conversation = run.conversation
        entry.learn(conversation)
        info.status, info.error, info.passing = ended.status, ended.error, ended.passing
        info.text = conversation.last_text
        final = True
        if ended.status is IdleStatus.FAILED:
            final = self._halt_failed(entry, run, ended)
        else:
            entry.failures = 0
            if ended.status is not IdleStatus.FINISHED:
                entry.halt = Halt(f"its run was ended: {ended.error}", ended.mail_end)
        state = State.FAILED if ended.status is IdleStatus.FAILED else State.IDLE
        await self._set_state(entry, state, ended.error or "")
        self._publish(
            entry,
            RunEnded(
                run_id=info.run_id,
                status=ended.status,
                text=info.text,
                error=ended.error or "",
                turns=conversation.turns,
            ),
        )
        if final:
            await self._notify_lead(entry, conversation.ended_place, ended)

    def _halt_failed(self, entry: Entry, run: Run, ended: Ended) -> bool:
        """Decide what follows a failure: a timer for one that may pass, else a halt; whether it is final."""
        entry.failures = 1 if run.accepted else entry.failures + 1
        delays = self._parts.retry_delays
        error = ended.error or "failed"
        if not ended.passing or entry.failures > len(delays) or self._group is None:
            entry.halt = Halt(f"it failed: {error}", ended.mail_end, failed=True)
            return True
        delay = delays[entry.failures - 1]
        entry.halt = Halt(f"it failed and is tried again in {delay:g} s: {error}", ended.mail_end, True, retries=True)
        self._group.start_soon(self._retry, entry, entry.halt, delay)
        return False

    async def _retry(self, entry: Entry, halt: Halt, delay: float) -> None:
        await anyio.sleep(delay)
        if entry.halt is halt:
            entry.halt = None
            await self.wake(entry.identity.agent_id)
        self._note_change()

    async def _fail_without_transcript(self, entry: Entry, info: RunInfo, error: Exception) -> None:
        _log.exception("a run could not be carried out", agent=entry.identity.name, run_id=info.run_id)
        text = error.explain() if isinstance(error, PseudoclaudeError) else f"{type(error).__name__}: {error}"
        info.status, info.error = IdleStatus.FAILED, text
        entry.halt = Halt(f"it failed: {text}", await entry.mailbox.end(), failed=True)
        self._publish(entry, StateChanged(state=State.FAILED, why=text))
        self._publish(entry, RunEnded(run_id=info.run_id, status=IdleStatus.FAILED, error=text))
        ended = Ended(run_id=info.run_id, status=IdleStatus.FAILED, error=text)
        await self._notify_lead(entry, len(self._runs), ended)

    async def _notify_lead(self, entry: Entry, place: int, ended: Ended, *, repeated: bool = False) -> None:
        """Tell the lead that a member's run is over. What cannot be stored is shown to the person instead."""
        lead = self._parts.registry.team.lead.agent_id
        who = entry.identity
        if who.agent_id == lead:
            return
        what = "finished" if ended.status is IdleStatus.FINISHED else f"{ended.status}: {ended.error}"
        delivery = None
        try:
            delivery = await self._parts.post.notify(
                recipient=lead,
                about=who.agent_id,
                type=MessageType.IDLE_NOTIFICATION,
                id=MessageId.derived(who.agent_id, "idle", place),
                summary=f"{who.name} is idle: {what}",
                content=ended.result or "",
                payload=IdleNotice(
                    status=ended.status, run_id=ended.run_id, result=ended.result, error=ended.error
                ),
                repeated=repeated,
            )
        except PseudoclaudeError as error:
            self._publish(entry, Warned(text=f"the lead could not be told that {who.name} is {what}: {error}"))
        if delivery is not None and delivery.error:
            self._publish(entry, Warned(text=f"the lead could not be told that {who.name} is {what}: {delivery.error}"))

    # -- what tools, the person and other processes ask for --------------------------------------------------------

    async def say(self, agent_id: AgentId, text: str) -> RunInfo:
        """Put something from the person into an agent's conversation, before its next step; the run it starts or joins.

        A person lifts every halt.
        """
        entry = self._entry(agent_id)
        entry.inputs.append(text)
        return entry.busy or self._start(entry, "the person")

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
        team = await self._parts.registry.load()
        member = next((m for m in team.present if m.spawned_by == spawned_by), None)
        if member is None:
            await self._parts.store.create(wanted.agent_id)
            member = await self._parts.registry.add(wanted, limit=self._parts.max_members)
        entry = self._enter(member)
        if entry.busy is None and entry.runs_ended == 0:
            entry.learn(await self._open(entry))
            self._publish(entry, MemberJoined(description=member.description))
            await self.wake(member.agent_id)
        return member

    async def nudge(self, agent_id: AgentId) -> str:
        """Start a run of an idle member with the wake prompt; what happened, in words."""
        entry = self._entry(agent_id)
        name = entry.identity.name
        if entry.busy is not None:
            return f"{name} is at work already: run {entry.busy.run_id}"
        info = await self.say(agent_id, prompts.render("wake"))
        return f"{name} was nudged: run {info.run_id}"

    async def stop(self, agent_id: AgentId, *, reason: str = "") -> str:
        """End a run: by itself between two steps, or by cancellation when that takes longer than the grace."""
        entry = self._entry(agent_id)
        name, info, run = entry.identity.name, entry.busy, entry.run
        if info is None:
            return f"{name} is not running"
        reason = reason or "stopped"
        await self._parts.journal.note(RUNTIME, "stop", target=agent_id, why=reason)
        if run is not None:
            run.stopping = reason
            with anyio.move_on_after(self._parts.stop_grace):
                await info.done.wait()
                return f"{name} was stopped"
            run.scope.cancel()
        await info.done.wait()
        return f"{name} was stopped in the middle of a step"

    async def stop_all(self, *, reason: str = "") -> str:
        """Stop every run of the team, all at the same time; what happened, in words."""
        running = [agent_id for agent_id, entry in self._entries.items() if entry.busy is not None]
        answers: list[str] = []

        async def stop_one(agent_id: AgentId) -> None:
            answers.append(await self.stop(agent_id, reason=reason))

        async with anyio.create_task_group() as group:
            for agent_id in running:
                group.start_soon(stop_one, agent_id)
        return "; ".join(answers) or "nobody is running"

    # -- looking ----------------------------------------------------------------------------------------------------

    def runs(self) -> tuple[RunInfo, ...]:
        """Every run of this process, oldest first."""
        return tuple(self._runs)

    def get(self, run_id: str) -> RunInfo | None:
        """The newest run of this id."""
        return next((info for info in reversed(self._runs) if info.run_id == run_id), None)

    def subscribe(self) -> MemoryObjectReceiveStream[Event]:
        """A stream of everything the team reports from now on; close it when done."""
        return self._parts.bus.subscribe()

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
            if not any(e.busy or (e.halt and e.halt.retries) for e in self._entries.values()):
                await self.wake_all()
                if not any(entry.busy for entry in self._entries.values()):
                    return
            await changed.wait()

    def _entry(self, agent_id: AgentId) -> Entry:
        entry = self._entries.get(agent_id)
        if entry is None:
            raise UnknownMemberError(agent_id, [entry.identity.name for entry in self._entries.values()])
        return entry

    def _publish(self, entry: Entry, event: Event) -> None:
        self._parts.bus.publish_for(entry.identity.name, entry.identity.agent_id, event)

    async def _set_state(self, entry: Entry, state: State, why: str = "") -> None:
        entry.state = state
        self._publish(entry, StateChanged(state=state, why=why))
        document = self._parts.storage.document(TeamPaths.state(entry.identity.agent_id))
        value = {"state": state, "why": why, "run_id": entry.next_run_id, "since": datetime.now(UTC).isoformat()}
        try:
            await document.put(value)
        except StorageError as error:  # others see an old state; the run itself is sound
            self._publish(entry, Warned(text=error.explain()))

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
