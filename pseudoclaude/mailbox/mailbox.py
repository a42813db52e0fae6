"""One agent's view of its mail. Knows no format."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..errors import MailError, StorageError
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage
from .store import MailStore, Peek


@dataclass(frozen=True, slots=True)
class Collected:
    """What a look into the mailbox found: new messages, and what kept others from being read (or empty)."""

    messages: tuple[IndexedMessage, ...] = ()
    trouble: str = ""


class Mailbox:
    """Reads one agent's mail and marks what has arrived in its conversation.

    Delivery is exactly once because of an order: :meth:`collect`, then the reminder goes into the persisted
    conversation together with the ids, then :meth:`acknowledge`. Whoever dies between the last two finds the ids in
    the conversation and only acknowledges.
    """

    def __init__(self, store: MailStore, agent: AgentId) -> None:
        self._store = store
        self.agent = agent

    async def collect(self, *, seen: AbstractSet[MessageId] = frozenset()) -> Collected:
        """The unread messages whose ids are not in ``seen``, each id once; the others get marked, they have arrived.

        A mailbox that cannot be read does not raise: its trouble is part of the answer, for the reminder.
        """
        try:
            unread = await self._store.read_unread(self.agent)
        except (MailError, StorageError) as error:
            return Collected(trouble=error.explain())
        new: dict[MessageId, IndexedMessage] = {}
        arrived: list[int] = []
        for item in unread:
            if item.message.id in seen or item.message.id in new:
                arrived.append(item.index)
            else:
                new[item.message.id] = item
        trouble = await self.acknowledge(arrived) if arrived else ""
        return Collected(tuple(new.values()), trouble)

    async def acknowledge(self, indices: Iterable[int]) -> str:
        """Mark messages that are in the conversation; what went wrong, or empty. They can be marked again later."""
        try:
            await self._store.mark_read(self.agent, indices)
        except (MailError, StorageError) as error:
            return error.explain()
        return ""

    async def peek(self) -> Peek:
        """What waits; marks nothing.

        :raises MailError, StorageError: when the mailbox cannot be read; whoever waits for mail looks again later.
        """
        return await self._store.peek(self.agent)

    async def end(self) -> int:
        """The index the next message would get; 0 where the mailbox cannot be read."""
        try:
            return await self._store.end(self.agent)
        except (MailError, StorageError):
            return 0
