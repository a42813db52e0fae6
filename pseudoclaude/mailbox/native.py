"""Our mail store: mailboxes that are marked logs, over any storage; and its forms on files and in memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from ..errors import InvalidMessageError, InvalidNameError, MailError, StorageError, UnknownMailboxError
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message
from ..storage.base import Damage, Durability, Finding, Flaw, Storage
from .box import Box, Limits
from .broadcasts import Broadcasts, Order, Recovery
from .store import BroadcastResult, Peek

MAX_UNREAD = 10_000
"""How many unread messages a mailbox holds, unless the store is told otherwise."""
MAX_UNREAD_BYTES = 256 << 20
"""How many bytes of unread messages a mailbox holds, unless the store is told otherwise."""


_TOLD_SINGLY = 1_000
"""Records of one lost range that are remembered as told."""


class NativeStore:
    """Implements :class:`~pseudoclaude.mailbox.store.MailStore` on any :class:`~pseudoclaude.storage.base.Storage`."""

    def __init__(
        self,
        storage: Storage,
        *,
        prefix: str = "inboxes",
        max_message_bytes: int = 1 << 20,
        max_unread: int = MAX_UNREAD,
        max_unread_bytes: int = MAX_UNREAD_BYTES,
        shortest_retention: timedelta = timedelta(days=1),
        recovery_patience: float = 1.0,
    ) -> None:
        """
        :param prefix: the key under which the mailboxes lie.
        :param max_message_bytes: how long the content of a message may be, and its payload, in bytes of UTF-8.
        :param max_unread: how many unread messages a mailbox may hold, and ``max_unread_bytes`` how much of them;
            what only the runtime makes is taken beyond that.
        :param shortest_retention: nothing younger is archived.
        :param recovery_patience: seconds that :meth:`recover` waits for each mailbox that somebody else has locked.
        """
        self.storage = storage
        self._prefix = prefix
        self._limit = max_message_bytes
        self._limits = Limits(max_unread, max_unread_bytes)
        self._shortest_retention = shortest_retention
        self._broadcasts = Broadcasts(storage.intents(), self._box, recovery_patience)
        self._recovery_reporters: list[Callable[[Recovery], None]] = []
        root = getattr(storage, "root", None)
        self._where = f"{root}/" if isinstance(root, Path) else ""
        self._boxes: dict[str, Box] = {}
        self._reporters: list[Callable[[Damage], None]] = []
        self._told: set[tuple[str, int]] = set()
        self._unreported: list[Damage] = []
        self._listening = False

    async def create(self, agent: AgentId) -> None:
        """See :meth:`.MailStore.create`."""
        await self._box(agent).log.create()
        self.storage.ring()

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        """See :meth:`.MailStore.write`.

        :raises InvalidMessageError: when the message is longer than the store takes.
        """
        self._check_size(message)
        box = self._boxes.get(agent) or self._box(agent)
        try:
            return await box.write(message, since)
        finally:
            self.storage.ring()  # also what raised or was cancelled may be stored

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        """See :meth:`.MailStore.broadcast`. First finishes what others left behind.

        Who has no mailbox, or a full one, is named in the result and left out; everybody else gets it, now or later.
        """
        self._check_size(message)
        await self.recover()
        ends: dict[AgentId, int] = {}
        refused: dict[AgentId, str] = {}
        for agent in dict.fromkeys(agents):
            try:
                await self._box(agent).check_room(message)
                ends[agent] = await self._box(agent).end() if since is None else since
            except StorageError:
                ends[agent] = since or 0  # it may be written all the same, and is looked for from the start otherwise
            except MailError as error:
                refused[agent] = error.explain()
        if not ends:
            return BroadcastResult({}, refused)
        try:
            stored, waiting = await self._broadcasts.send(Order(message, ends), since)
        finally:
            self.storage.ring()
        return BroadcastResult(stored, {**refused, **waiting}, frozenset(waiting))

    async def recover(self) -> list[Recovery]:
        """Finish broadcasts whose senders died, or could not write to everybody; what became of each.

        A broadcast that somebody is working on is left to them. Costs one look into a folder when there is none.
        """
        recovered = await self._broadcasts.recover()
        for recovery in recovered:
            self.storage.ring()
            for report in self._recovery_reporters:
                report(recovery)
        return recovered

    def on_recovery(self, report: Callable[[Recovery], None]) -> None:
        """Call ``report`` for each broadcast that :meth:`recover` or a later broadcast takes up."""
        self._recovery_reporters.append(report)

    async def archive(self, older_than: timedelta) -> int:
        """Compress what every mailbox has not needed for so long: full segments, wholly read; how many.

        They stay readable, and where an open broadcast may be looked for nothing is touched. For the lead, when idle.

        :raises StorageError: when the disk refuses; nothing is lost.
        """
        seconds = max(older_than, self._shortest_retention).total_seconds()
        orders = [order for order in (await self._broadcasts.open_orders()).values() if order is not None]
        archived = 0
        for agent in await self.agents():
            needed = [order.ends[agent] for order in orders if agent in order.ends]
            try:
                archived += await self._box(agent).archive(seconds, min(needed, default=None))
            except UnknownMailboxError:
                continue
        return archived

    async def examine(self, agent: AgentId) -> list[Finding]:
        """Everything that is wrong with a mailbox; changes nothing.

        :raises UnknownMailboxError: when there is nothing of that mailbox.
        """
        return [*await self._box(agent).examine(mend=False), *await self._open_broadcasts(agent)]

    async def mend(self, agent: AgentId) -> list[Finding]:
        """As :meth:`examine`, and repair what can be repaired without losing anything; no record is ever removed.

        Marks what is lost as read, removes drafts of writers that were killed, restores modes and the lock file where
        nobody can hold it, and finishes open broadcasts.
        """
        findings = await self._box(agent).examine(mend=True)
        before = await self._open_broadcasts(agent)
        await self.recover()
        left = {finding.where for finding in await self._open_broadcasts(agent)}
        return [*findings, *(replace(finding, mended=finding.where not in left) for finding in before)]

    async def find(self, agent: AgentId, message_id: MessageId, *, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        return await self._box(agent).find(message_id, since)

    async def end(self, agent: AgentId) -> int:
        """See :meth:`.MailStore.end`."""
        return await self._box(agent).end()

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read`."""
        return await self._box(agent).read(start, limit)

    async def read_unread(self, agent: AgentId, *, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read_unread`."""
        return await self._box(agent).read_unread(limit)

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """See :meth:`.MailStore.mark_read`."""
        await self._box(agent).mark_read(indices)

    async def peek(self, agent: AgentId) -> Peek:
        """See :meth:`.MailStore.peek`."""
        return await (self._boxes.get(agent) or self._box(agent)).peek()

    async def has_unread(self, agent: AgentId) -> bool:
        """See :meth:`.MailStore.has_unread`."""
        return (await self.peek(agent)).unread > 0

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[AgentId]]:
        """See :meth:`.MailStore.watch`."""
        return self._watch()

    def on_damage(self, report: Callable[[Damage], None]) -> None:
        """Call ``report`` once for each range of records that cannot be read; the first also hears of earlier ones."""
        if not self._listening:
            self._listening = True
            self.storage.on_damage(self._report)
        self._reporters.append(report)
        met, self._unreported = self._unreported, []
        for damage in met:
            report(damage)

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[AgentId]]:
        async with self.storage.rung() as rings:
            yield _Watch(self, rings)

    async def agents(self) -> list[AgentId]:
        """Everybody who has a mailbox, in order."""
        agents: list[AgentId] = []
        for name in await self.storage.keys(self._prefix):
            try:
                agents.append(AgentId(name))
            except InvalidNameError:
                continue  # not one of ours
        return agents

    def _box(self, agent: AgentId) -> Box:
        box = self._boxes.get(agent)
        if box is None:
            key = f"{self._prefix}/{AgentId(agent)}" if self._prefix else AgentId(agent)
            log, where = self.storage.marked_log(key), f"{self._where}{key}"
            box = self._boxes[agent] = Box(agent, log, where, self._report, self._limits)
        return box

    async def _open_broadcasts(self, agent: AgentId) -> list[Finding]:
        findings: list[Finding] = []
        for name, order in (await self._broadcasts.open_orders()).items():
            if order is None:
                findings.append(Finding(Flaw.UNREADABLE, name, "a broadcast that cannot be read", "Move it away."))
            elif agent in order.ends and await self._is_missing(agent, order):
                what = f"a broadcast from {order.message.sender} that has not arrived here"
                findings.append(Finding(Flaw.UNFINISHED, name, what, "The next broadcast, or mending, delivers it."))
        return findings

    async def _is_missing(self, agent: AgentId, order: Order) -> bool:
        try:
            return await self._box(agent).find(order.message.id, order.ends[agent]) is None
        except (MailError, StorageError):
            return True

    def _check_size(self, message: Message) -> None:
        size = len(message.content)
        if size * 4 > self._limit:
            size = len(message.content.encode())
        if message.payload is not None and size <= self._limit:
            size = max(size, len(json.dumps(message.payload, ensure_ascii=False).encode()))
        size = max(size, len(message.summary))
        if size > self._limit:
            raise InvalidMessageError(
                f"the message has {size:,} bytes, and a mailbox takes at most {self._limit:,}",
                remedy="Write it to a file and send the path.",
            )

    def _report(self, damage: Damage) -> None:
        """Pass damage on once: a lost record is met by whoever counts unread mail, and again by whoever reads it."""
        mailbox = damage.key.rpartition("/")[2]
        lost = {(mailbox, index) for index in range(damage.start, min(damage.end, damage.start + _TOLD_SINGLY))}
        if lost and lost <= self._told:
            return
        self._told |= lost
        if not self._reporters:
            self._unreported.append(damage)
        for report in self._reporters:
            report(damage)


class LogStore(NativeStore):
    """Our mail store on local files.

    :param root: the folder of the mailboxes; made with the first of them.
    :param durability: ``disk``: what was sent survives a power cut; ``os``: it survives a killed process.
    :param lock_wait: seconds to wait for a mailbox that somebody else has locked.
    :param notify: whether the kernel tells watchers at once (Linux); else they look every ``poll`` seconds.
    :param doorbell: the name of the file in ``root`` that watchers of other processes look at.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        durability: Durability = "disk",
        lock_wait: float = 10.0,
        notify: bool = True,
        poll: float = 0.5,
        doorbell: str = ".doorbell",
        segment_bytes: int = 1 << 20,
        max_message_bytes: int = 1 << 20,
        max_unread: int = MAX_UNREAD,
        max_unread_bytes: int = MAX_UNREAD_BYTES,
        shortest_retention: timedelta = timedelta(days=1),
    ) -> None:
        from ..storage.files import FileStorage  # not on the systems that it refuses

        files = FileStorage(
            root,
            durability=durability,
            lock_wait=lock_wait,
            notify=notify,
            poll=poll,
            doorbell=doorbell,
            intents=".broadcasts",
            segment_bytes=segment_bytes,
        )
        super().__init__(
            files,
            prefix="",
            max_message_bytes=max_message_bytes,
            max_unread=max_unread,
            max_unread_bytes=max_unread_bytes,
            shortest_retention=shortest_retention,
        )


class MemoryStore(NativeStore):
    """Our mail store in memory, for tests and examples."""

    def __init__(self, *, max_message_bytes: int = 1 << 20, max_unread: int = MAX_UNREAD) -> None:
        from ..storage.memory import MemoryStorage

        super().__init__(MemoryStorage(), max_message_bytes=max_message_bytes, max_unread=max_unread)


class _Watch:
    def __init__(self, store: NativeStore, rings: AsyncIterator[None]) -> None:
        self._store = store
        self._rings = rings
        self._named: dict[AgentId, int] = {}
        self._waiting: deque[AgentId] = deque()

    def __aiter__(self) -> AsyncIterator[AgentId]:
        return self

    async def __anext__(self) -> AgentId:
        while not self._waiting:
            await anext(self._rings)
            for agent in await self._store.agents():
                try:
                    end = await self._store.end(agent)
                except (MailError, StorageError):
                    continue  # gone, or not to be read: whoever reads it is told
                if self._named.get(agent) != end:
                    self._named[agent] = end
                    self._waiting.append(agent)
        return self._waiting.popleft()
