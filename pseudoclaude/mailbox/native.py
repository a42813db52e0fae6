"""Our mail store: mailboxes that are marked logs, over any storage; and its forms on files and in memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Protocol, runtime_checkable

from ..errors import (
    InvalidMessageError,
    InvalidNameError,
    MailboxBusyError,
    MailError,
    StorageError,
    UnknownIndexError,
    UnknownMailboxError,
)
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message, Priority
from ..storage.base import Damage, Durability, MarkedLog, Record, Storage
from .store import BroadcastResult, Peek

_PAGE = 256


@runtime_checkable
class _AppendsOnce(Protocol):
    """A log that can look for a record and append it as one step."""

    async def append_once(self, data: bytes, same: Callable[[bytes], bool], since: int) -> int: ...


@dataclass(slots=True)
class _Box:
    """What a store remembers of one mailbox."""

    log: MarkedLog
    where: str
    version: object = None
    next: int = 0
    unread: dict[int, tuple[bool, bool]] = field(default_factory=dict)
    """Unread messages, oldest first: whether each wakes, and whether it interrupts."""
    peek: Peek = field(default_factory=Peek)
    unreadable: set[int] = field(default_factory=set)
    """Records that are no messages; read as soon as anything behind them is."""


class NativeStore:
    """Implements :class:`~pseudoclaude.mailbox.store.MailStore` on any :class:`~pseudoclaude.storage.base.Storage`."""

    def __init__(self, storage: Storage, *, prefix: str = "inboxes", max_message_bytes: int = 1 << 20) -> None:
        """
        :param prefix: the key under which the mailboxes lie.
        :param max_message_bytes: how long the content of a message may be, and its payload, in bytes of UTF-8.
        """
        self.storage = storage
        self._prefix = prefix
        self._limit = max_message_bytes
        self._boxes: dict[str, _Box] = {}
        self._reporters: list[Callable[[Damage], None]] = []
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
        return await self._write(agent, message, since, ring=True)

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        """See :meth:`.MailStore.broadcast`: one after another; a failure of one leaves the others theirs."""
        self._check_size(message)
        stored: dict[AgentId, int] = {}
        waiting: dict[AgentId, str] = {}
        try:
            for agent in dict.fromkeys(agents):
                copy = message.model_copy(update={"recipient": agent})
                try:
                    stored[agent] = await self._write(agent, copy, since, ring=False)
                except (MailError, StorageError) as error:
                    waiting[agent] = error.explain()
        finally:
            if stored:
                self.storage.ring()
        return BroadcastResult(stored, waiting)

    async def find(self, agent: AgentId, message_id: MessageId, *, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        box, same, start = self._box(agent), _carries(message_id), max(0, since)
        while records := await self._read(agent, box, start, _PAGE):
            for record in records:
                if same(record.data):
                    return record.index
            start = records[-1].index + 1
        return None

    async def end(self, agent: AgentId) -> int:
        """See :meth:`.MailStore.end`."""
        box = self._box(agent)
        try:
            return await box.log.end()
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read`."""
        box = self._box(agent)
        found: list[tuple[int, Message]] = []
        start = max(0, start)
        while limit is None or len(found) < limit:
            wanted = None if limit is None else limit - len(found)
            records = await self._read(agent, box, start, wanted)
            found += self._messages(box, records)
            if wanted is None or len(records) < wanted:
                break
            start = records[-1].index + 1
        marked = await box.log.marked([index for index, _ in found])
        return [IndexedMessage(index, message, index in marked) for index, message in found]

    async def read_unread(self, agent: AgentId, *, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read_unread`."""
        box = self._box(agent)
        wanted = limit
        while True:
            records = await self._unmarked(agent, box, wanted)
            found = self._messages(box, records)
            if wanted is None or len(records) < wanted or len(found) >= (limit or 0):
                return [IndexedMessage(index, message, False) for index, message in found[:limit]]
            wanted *= 2  # records that are no messages take no place of those that are

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """See :meth:`.MailStore.mark_read`."""
        box = self._box(agent)
        wanted = set(indices)
        if box.unreadable and wanted:
            newest = max(wanted)
            wanted |= {index for index in box.unreadable if index < newest}
        began = monotonic()
        try:
            await box.log.mark(wanted)
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None
        except TimeoutError as error:
            raise self._busy(box, error, began) from error
        except IndexError as error:
            index, end = error.args
            raise UnknownIndexError(agent, index, end) from None

    async def peek(self, agent: AgentId) -> Peek:
        """See :meth:`.MailStore.peek`."""
        box = self._box(agent)
        try:
            version = await box.log.version()
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None
        if version == box.version:
            return box.peek
        if box.version is None:
            new = await self._unmarked(agent, box, None)
            unread: dict[int, tuple[bool, bool]] = {}
        else:
            new = await self._read(agent, box, box.next, None)
            unread = box.unread
        unread = unread | {i: (m.wakes, m.priority is Priority.INTERRUPT) for i, m in self._messages(box, new)}
        if box.version is not None and unread:
            for index in await box.log.marked(unread):
                del unread[index]
        box.next = max(box.next, new[-1].index + 1 if new else 0)
        box.unread, box.version = unread, version
        waking = [index for index, (wakes, _) in unread.items() if wakes]
        interrupting = sum(interrupts for _, interrupts in unread.values())
        box.peek = Peek(len(unread), len(waking), interrupting, max(waking, default=-1))
        return box.peek

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

    def _box(self, agent: AgentId) -> _Box:
        box = self._boxes.get(agent)
        if box is None:
            key = f"{self._prefix}/{AgentId(agent)}" if self._prefix else AgentId(agent)
            root = getattr(self.storage, "root", None)
            where = str(root / key) if isinstance(root, Path) else key
            box = self._boxes[agent] = _Box(self.storage.marked_log(key), where)
        return box

    async def _write(self, agent: AgentId, message: Message, since: int | None, *, ring: bool) -> int:
        box = self._boxes.get(agent) or self._box(agent)
        data = message.to_json()
        began = monotonic()
        try:
            if since is None:
                index = await box.log.append(data)
            elif isinstance(box.log, _AppendsOnce):
                index = await box.log.append_once(data, _carries(message.id), since)
            else:
                found = await self.find(agent, message.id, since=since)
                index = await box.log.append(data) if found is None else found
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None
        except TimeoutError as error:
            raise self._busy(box, error, began) from error
        if ring:
            self.storage.ring()
        return index

    async def _read(self, agent: AgentId, box: _Box, start: int, limit: int | None) -> list[Record]:
        try:
            return await box.log.read(start, limit)
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None

    async def _unmarked(self, agent: AgentId, box: _Box, limit: int | None) -> list[Record]:
        try:
            return await box.log.unmarked(limit)
        except FileNotFoundError:
            raise UnknownMailboxError(agent, box.where) from None

    def _messages(self, box: _Box, records: Iterable[Record]) -> list[tuple[int, Message]]:
        found: list[tuple[int, Message]] = []
        for record in records:
            try:
                found.append((record.index, Message.from_json(record.data)))
            except InvalidMessageError:
                if record.index not in box.unreadable:
                    box.unreadable.add(record.index)
                    self._report(Damage(box.where, box.where, record.index, record.index + 1))
        return found

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
        if not self._reporters:
            self._unreported.append(damage)
        for report in self._reporters:
            report(damage)

    @staticmethod
    def _busy(box: _Box, error: TimeoutError, began: float) -> MailboxBusyError:
        holder = str(error.args[0]) if error.args else ""
        return MailboxBusyError(box.where, holder, round(monotonic() - began, 1))


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
    ) -> None:
        from ..storage.files import FileStorage  # not on the systems that it refuses

        files = FileStorage(
            root,
            durability=durability,
            lock_wait=lock_wait,
            notify=notify,
            poll=poll,
            doorbell=doorbell,
            segment_bytes=segment_bytes,
        )
        super().__init__(files, prefix="", max_message_bytes=max_message_bytes)


class MemoryStore(NativeStore):
    """Our mail store in memory, for tests and examples."""

    def __init__(self, *, max_message_bytes: int = 1 << 20) -> None:
        from ..storage.memory import MemoryStorage

        super().__init__(MemoryStorage(), max_message_bytes=max_message_bytes)


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


def _carries(message_id: MessageId) -> Callable[[bytes], bool]:
    """Whether a record is the message of this id."""
    plain = message_id.isascii() and json.dumps(message_id) == f'"{message_id}"'
    needle = message_id.encode() if plain else b""

    def same(data: bytes) -> bool:
        if needle not in data:
            return False
        value = json.loads(data)
        return isinstance(value, dict) and value.get("id") == message_id

    return same
