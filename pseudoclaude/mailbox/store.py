"""The contract of a mail store.

``pseudoclaude.testing.mail_store_contract`` holds it as a test suite; every store passes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message


@dataclass(frozen=True, slots=True)
class Peek:
    """What waits in a mailbox: unread messages, those of them that wake, those that interrupt.

    ``newest_waking`` is the index of the newest unread message that wakes, or -1.
    """

    unread: int = 0
    waking: int = 0
    interrupting: int = 0
    newest_waking: int = -1


@dataclass(frozen=True, slots=True)
class BroadcastResult:
    """Who has a broadcast, and under which index; who does not, and why.

    Those of ``waiting`` who are in ``kept`` get it later without another send, the others do not.
    """

    stored: Mapping[AgentId, int] = field(default_factory=dict)
    waiting: Mapping[AgentId, str] = field(default_factory=dict)
    kept: frozenset[AgentId] = frozenset()


@runtime_checkable
class Upkeep(Protocol):
    """What a store may want done beside mail, by the process that leads the team."""

    async def recover(self) -> Sequence[object]:
        """Finish broadcasts whose senders died, or could not write to everybody."""
        ...

    async def archive(self, older_than: timedelta) -> int:
        """Compress files of wholly read mail that are older; how many."""
        ...


@runtime_checkable
class ReportsDamage(Protocol):
    """A store that tells once of what it cannot read any more."""

    def on_damage(self, report: Callable[[Any], None]) -> None:
        """Call ``report`` for each damage; as text it says what and where."""
        ...


class MailStore(Protocol):
    """All mailboxes of one team.

    - A mailbox is made by :meth:`create`; writing to another name is ``UnknownMailboxError``.
    - :meth:`write` returns when the message is durable, with an index that never changes meaning.
    - Readers take no lock and never see half a message.
    - A process killed at any point leaves a mailbox that reads back every acknowledged message, and that the next
      writer mends.
    - Damage is reported once and never overwritten; what is undamaged stays readable.
    """

    async def create(self, agent: AgentId) -> None:
        """Make the mailbox, if it is not there yet."""
        ...

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        """Store a message; its index.

        Without ``since`` the caller vouches that the message is new. A *retry* passes the :meth:`end` noted before
        its first try (0 if it noted none): if the id is stored from there on, that index is returned and nothing is
        written. A write that raised or was cancelled has an unknown outcome: retry it.

        :raises UnknownMailboxError: when the agent has no mailbox.
        :raises MailboxBusyError: when the mailbox stayed locked; nothing was written.
        :raises MailboxFullError: when it holds as much unread mail as it may; nothing was written.
        :raises StorageError: when the disk refused.
        """
        ...

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        """Store one message for several agents, each copy with its own ``to``, all with one id.

        All of them are looked at first. Then the broadcast is noted durably, and from there on everybody noted gets it
        once: who cannot be written now is named in the result, and gets it from whoever comes next. ``since`` as in
        :meth:`write`.

        :raises StorageError: when it could not be noted; then nobody has it.
        """
        ...

    async def find(self, agent: AgentId, message_id: MessageId, *, since: int) -> int | None:
        """The index of a message, looked for from ``since`` on; None if it is not there."""
        ...

    async def end(self, agent: AgentId) -> int:
        """The index the next message would get."""
        ...

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """Messages from an index on, read or not, oldest first."""
        ...

    async def read_unread(self, agent: AgentId, *, limit: int | None = None) -> list[IndexedMessage]:
        """The unread messages, oldest first; marks nothing."""
        ...

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """Mark messages as read; idempotent, merged with marks made elsewhere, rings nobody.

        :raises UnknownIndexError: when an index is out of range; nothing was marked.
        """
        ...

    async def peek(self, agent: AgentId) -> Peek:
        """Counts of what is unread; marks nothing, and costs what is new since this object last looked."""
        ...

    async def has_unread(self, agent: AgentId) -> bool:
        """Whether anything is unread."""
        ...

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[AgentId]]:
        """Names of agents who may have new mail, from any process: each once at the start, then as it comes.

        A hint: it may merge, repeat or lose, so a reader also looks by itself now and then.
        """
        ...
