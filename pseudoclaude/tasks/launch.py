"""One run, from its launch to the moment when its agent is idle, or failed."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager

import anyio

from ..errors import PseudoclaudeError
from ..events import RunEnded, RunStarted
from ..ids import MessageId
from ..logs import Log
from ..mail import IdleStatus
from ..paths import TeamPaths
from ..runner.conversation import Conversation
from ..runner.records import Ended
from ..runner.run import Run
from ..runner.runner import close, run_to_end
from ..tools.base import Services
from .entry import Entry, RunInfo
from .parts import Parts
from .reports import Reports
from .wake import Halt, State

CANCELLED = "the run was cancelled from outside"

_log = Log(__name__)


class Launcher:
    """Carries out runs: holds the transcript's lease, runs, closes, and decides what follows from how it ended."""

    def __init__(self, parts: Parts, services: Services, reports: Reports) -> None:
        self._parts = parts
        self._services = services
        self._reports = reports

    async def open(self, entry: Entry) -> Conversation:
        """The conversation of an agent, as it is stored.

        :raises TranscriptError: when a line cannot be understood.
        """
        key = TeamPaths.session(entry.identity.agent_id)
        return await Conversation.open(self._parts.storage.owned_log(key), entry.identity.agent_id)

    async def carry_out(self, entry: Entry, info: RunInfo) -> None:
        """Run, whatever happens: an agent that fails has a reason, and the lead hears of it.

        Where the whole team is being left the transcript stays open instead, and the next process carries it on.
        """
        try:
            with self._lease(entry):
                await self._run(entry, info)
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:  # everything around it is cancelled, too
                raise
            with anyio.CancelScope(shield=True):  # goes no further: it would end the whole team without a word
                await self._close_cancelled(entry, info)
        except Exception as error:  # not even the transcript could be written: the team must hear of it all the same
            await self._fail_without_transcript(entry, info, error)

    def _lease(self, entry: Entry) -> AbstractContextManager[None]:
        return self._parts.storage.lease(TeamPaths.session(entry.identity.agent_id)).hold(self._parts.holder)

    async def _run(self, entry: Entry, info: RunInfo) -> None:
        await self._reports.set_state(entry, State.STARTING)
        run = entry.run = self._make_run(entry, info, await self.open(entry))
        self._reports.publish(entry, RunStarted(run_id=info.run_id, why=info.why))
        await self._reports.set_state(entry, State.WORKING)
        ended: Ended | None = None
        with info.stop.scope:
            ended = await run_to_end(run)
        if ended is None:
            status = IdleStatus.FAILED if info.stop.why is None else IdleStatus.INTERRUPTED
            ended = await close(run, status, info.stop.why or CANCELLED)
        await self._finish(entry, run, info, ended)

    def _make_run(self, entry: Entry, info: RunInfo, conversation: Conversation) -> Run:
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
            stop=info.stop,
        )

    async def _finish(self, entry: Entry, run: Run, info: RunInfo, ended: Ended, *, repeated: bool = False) -> None:
        conversation = run.conversation
        entry.learn(conversation)
        info.status, info.error, info.passing = ended.status, ended.error, ended.passing
        info.text = conversation.last_text
        entry.halt = self._halt(entry, run, info, ended)
        state = State.FAILED if ended.status is IdleStatus.FAILED else State.IDLE
        await self._reports.set_state(entry, state, entry.halt.why if entry.halt else "")
        self._report_end(entry, info, turns=conversation.turns)
        if entry.halt is None or entry.halt.retry_in is None:
            notice = notice_id(entry, conversation)
            await self._reports.notify_lead(entry, notice, ended, repeated=repeated)

    def _halt(self, entry: Entry, run: Run, info: RunInfo, ended: Ended) -> Halt | None:
        """What keeps an agent from going on after this end; a failure that may pass is tried again some times."""
        if ended.status is IdleStatus.FAILED:
            entry.failures = 1 if run.accepted else entry.failures + 1
            delays = self._parts.retry_delays
            if ended.passing and info.stop.why is None and entry.failures <= len(delays):
                delay = delays[entry.failures - 1]
                why = f"it failed and is tried again in {delay:g} s: {ended.error}"
                return Halt(why, ended.mail_end, info.said, retry_in=delay)
            return Halt(f"it failed: {ended.error}", ended.mail_end, info.said)
        entry.failures = 0
        if ended.status is not IdleStatus.FINISHED:
            return Halt(f"its run was ended: {ended.error}", ended.mail_end, info.said)
        if info.stop.why is not None:  # it finished while it was being stopped
            return Halt(f"its run was ended: {info.stop.why}", ended.mail_end, info.said)
        return None

    async def _close_cancelled(self, entry: Entry, info: RunInfo) -> None:
        """Close the transcript of a run whose task was cancelled at an unknown step; what is stored is the truth."""
        try:
            with self._lease(entry):
                conversation = await self.open(entry)
                run = entry.run or self._make_run(entry, info, conversation)
                run.conversation = conversation
                ended = conversation.ended
                if ended is None or ended.run_id != info.run_id:
                    ended = await close(run, IdleStatus.FAILED, CANCELLED)
                await self._finish(entry, run, info, ended, repeated=True)
        except Exception as error:
            await self._fail_without_transcript(entry, info, error)

    async def _fail_without_transcript(self, entry: Entry, info: RunInfo, error: Exception) -> None:
        _log.error("a run could not be carried out", agent=entry.identity.name, run_id=info.run_id, exc_info=error)
        text = error.explain() if isinstance(error, PseudoclaudeError) else f"{type(error).__name__}: {error}"
        info.status, info.error = IdleStatus.FAILED, text
        entry.halt = Halt(f"it failed: {text}", await entry.mailbox.end(), info.said)
        await self._reports.set_state(entry, State.FAILED, text)
        self._report_end(entry, info)
        ended = Ended(run_id=info.run_id, status=IdleStatus.FAILED, error=text)
        await self._reports.notify_lead(entry, MessageId.new(), ended)

    def _report_end(self, entry: Entry, info: RunInfo, *, turns: int = 0) -> None:
        assert info.status is not None, "a run that is over has ended somehow"
        event = RunEnded(run_id=info.run_id, status=info.status, text=info.text, error=info.error or "", turns=turns)
        self._reports.publish(entry, event)


def notice_id(entry: Entry, conversation: Conversation) -> MessageId:
    """The id of the notice about the last end of a run: one for each line that ends one."""
    return MessageId.derived(entry.identity.agent_id, "idle", conversation.ended_place)
