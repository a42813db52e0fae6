"""What others learn about an agent: events, its state, and the notice that tells the lead that a run is over."""

from __future__ import annotations

from datetime import UTC, datetime

from ..errors import PseudoclaudeError, StorageError
from ..events import Event, StateChanged, Warned
from ..ids import MessageId
from ..logs import Log
from ..mail import IdleNotice, IdleStatus, MessageType
from ..paths import TeamPaths
from ..runner.records import Ended
from .entry import Entry
from .parts import Parts
from .wake import State

_log = Log(__name__)


class Reports:
    """Tells the team's listeners, other processes and the lead."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def publish(self, entry: Entry, event: Event) -> None:
        """Report something about an agent."""
        self._parts.bus.publish_for(entry.identity.name, entry.identity.agent_id, event)

    async def set_state(self, entry: Entry, state: State, why: str = "") -> None:
        """Report an agent's state, and store it for other processes."""
        entry.state = state
        self.publish(entry, StateChanged(state=state, why=why))
        document = self._parts.storage.document(TeamPaths.state(entry.identity.agent_id))
        value = {"state": state, "why": why, "run_id": entry.next_run_id, "since": datetime.now(UTC).isoformat()}
        try:
            await document.put(value)
        except StorageError as error:  # others see an old state; the run itself is sound
            self.publish(entry, Warned(text=error.explain()))

    async def notify_lead(self, entry: Entry, notice: MessageId, ended: Ended, *, repeated: bool = False) -> None:
        """Tell the lead that a member's run is over. What cannot be stored is shown to the person instead.

        :param notice: the id of the message; the same for the same end of a run.
        :param repeated: whether it may have been told before.
        """
        lead, who = self._parts.registry.team.lead.agent_id, entry.identity
        if who.agent_id == lead:
            return
        what = "finished" if ended.status is IdleStatus.FINISHED else f"{ended.status}: {ended.error}"
        try:
            if repeated and await self._parts.store.find(lead, notice, since=0) is not None:
                return
            delivery = await self._parts.post.notify(
                recipient=lead,
                about=who.agent_id,
                type=MessageType.IDLE_NOTIFICATION,
                id=notice,
                summary=f"{who.name} is idle: {what}",
                content=ended.result or "",
                payload=IdleNotice(status=ended.status, run_id=ended.run_id, result=ended.result, error=ended.error),
                repeated=repeated,
            )
            trouble = delivery.error
        except PseudoclaudeError as error:
            trouble = error.explain()
        except Exception as error:
            _log.exception("the lead could not be told", agent=who.name, run_id=ended.run_id)
            trouble = f"{type(error).__name__}: {error}"
        if trouble:
            self.publish(entry, Warned(text=f"the lead could not be told that {who.name} is {what}: {trouble}"))
