"""One mailbox of ours: a marked log of messages, and what a store remembers of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol, runtime_checkable

from ..errors import InvalidMessageError, MailboxBusyError, UnknownIndexError, UnknownMailboxError
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message, Priority
from ..storage.base import Damage, MarkedLog, Record
from .store import Peek

_PAGE = 256


@runtime_checkable
class AppendsOnce(Protocol):
    """A log that can look for a record and append it as one step; one that cannot is searched before."""

    async def append_once(self, data: bytes, same: Callable[[bytes], bool], since: int) -> int:
        """Append a record unless one from ``since`` on is the same; the index of whichever is stored, durably."""
        ...


class Box:
    """The mailbox of one agent. Only what is new since the last look is read and decoded by :meth:`peek`."""

    def __init__(self, agent: AgentId, log: MarkedLog, where: str, report: Callable[[Damage], None]) -> None:
        self.log = log
        self._agent = agent
        self._where = where
        self._report = report
        self._version: object = None
        self._next = 0
        self._unread: dict[int, tuple[bool, bool]] = {}
        """Unread messages, oldest first: whether each wakes, and whether it interrupts."""
        self._peek = Peek()
        self._unreadable: set[int] = set()
        """Records that are no messages; read as soon as anything behind them is."""

    async def write(self, message: Message, since: int | None) -> int:
        """See :meth:`.MailStore.write`."""
        data = message.to_json()
        log = self.log
        if since is not None:
            same = _carries(message.id)
            with self._errors():
                if isinstance(log, AppendsOnce):
                    return await log.append_once(data, same, since)
            if (found := await self._search(same, since)) is not None:
                return found
        began = monotonic()
        try:
            return await log.append(data)
        except FileNotFoundError:
            raise UnknownMailboxError(self._agent, self._where) from None
        except TimeoutError as error:
            raise self._busy(error, began) from error

    async def find(self, message_id: MessageId, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        return await self._search(_carries(message_id), since)

    async def end(self) -> int:
        """See :meth:`.MailStore.end`."""
        with self._errors():
            return await self.log.end()

    async def read(self, start: int, limit: int | None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read`."""
        found: list[tuple[int, Message]] = []
        start = max(0, start)
        with self._errors():
            while limit is None or len(found) < limit:
                wanted = None if limit is None else limit - len(found)
                records = await self.log.read(start, wanted)
                found += self._messages(records)
                if wanted is None or len(records) < wanted:
                    break
                start = records[-1].index + 1
            marked = await self.log.marked([index for index, _ in found])
        return [IndexedMessage(index, message, index in marked) for index, message in found]

    async def read_unread(self, limit: int | None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read_unread`."""
        wanted = limit
        while True:
            with self._errors():
                records = await self.log.unmarked(wanted)
            found = self._messages(records)
            if wanted is None or len(records) < wanted or len(found) >= (limit or 0):
                return [IndexedMessage(index, message, False) for index, message in found[:limit]]
            wanted *= 2  # records that are no messages take no place of those that are

    async def mark_read(self, indices: Iterable[int]) -> None:
        """See :meth:`.MailStore.mark_read`."""
        wanted = set(indices)
        if self._unreadable and wanted:
            newest = max(wanted)
            wanted |= {index for index in self._unreadable if index < newest}
        with self._errors():
            await self.log.mark(wanted)

    async def peek(self) -> Peek:
        """See :meth:`.MailStore.peek`."""
        log, unread = self.log, self._unread
        try:
            version = await log.version()
        except FileNotFoundError:
            raise UnknownMailboxError(self._agent, self._where) from None
        if version == self._version:
            return self._peek
        with self._errors():
            fresh = self._version is None
            new = await (log.unmarked() if fresh else log.read(self._next))
            unread = unread | {i: (m.wakes, m.priority is Priority.INTERRUPT) for i, m in self._messages(new)}
            if not fresh and unread:
                for index in await log.marked(unread):
                    del unread[index]
        self._next = max(self._next, new[-1].index + 1 if new else 0)
        self._unread, self._version = unread, version
        waking = [index for index, (wakes, _) in unread.items() if wakes]
        interrupting = sum(interrupts for _, interrupts in unread.values())
        self._peek = Peek(len(unread), len(waking), interrupting, max(waking, default=-1))
        return self._peek

    async def _search(self, same: Callable[[bytes], bool], since: int) -> int | None:
        start = max(0, since)
        with self._errors():
            while records := await self.log.read(start, _PAGE):
                for record in records:
                    if same(record.data):
                        return record.index
                start = records[-1].index + 1
        return None

    def _messages(self, records: Iterable[Record]) -> list[tuple[int, Message]]:
        found: list[tuple[int, Message]] = []
        for record in records:
            try:
                found.append((record.index, Message.from_json(record.data)))
            except InvalidMessageError:
                if record.index not in self._unreadable:
                    self._unreadable.add(record.index)
                    self._report(Damage(self._where, self._where, record.index, record.index + 1))
        return found

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What the log says, in the words of mail."""
        began = monotonic()
        try:
            yield
        except FileNotFoundError:
            raise UnknownMailboxError(self._agent, self._where) from None
        except TimeoutError as error:
            raise self._busy(error, began) from error
        except IndexError as error:
            index, end = error.args
            raise UnknownIndexError(self._agent, index, end) from None

    def _busy(self, error: TimeoutError, began: float) -> MailboxBusyError:
        holder = str(error.args[0]) if error.args else ""
        return MailboxBusyError(self._where, holder, round(monotonic() - began, 1))


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
