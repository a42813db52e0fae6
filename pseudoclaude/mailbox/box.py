"""One mailbox of ours: a marked log of messages, and what a store remembers of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from ..errors import (
    InvalidMessageError,
    MailboxBusyError,
    MailboxFullError,
    StorageError,
    UnknownIndexError,
    UnknownMailboxError,
)
from ..ids import AgentId, MessageId
from ..mail import RULES, IndexedMessage, Message, MessageType, Priority
from ..storage.base import Damage, Finding, Flaw, MarkedLog, Record
from .store import Peek

_PAGE = 256
_LOOK_AGAIN = 256
_LARGE = 64 << 10
"""The unread messages are weighed again when the room would be gone if all new ones had this size, and at the soonest
after so many."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much unread mail a mailbox may hold."""

    messages: int
    bytes: int


class Box:
    """The mailbox of one agent. Only what is new since the last look is read and decoded by :meth:`peek`."""

    def __init__(
        self, agent: AgentId, log: MarkedLog, where: str, report: Callable[[Damage], None], limits: Limits
    ) -> None:
        self.log = log
        self._limits = limits
        self._sure_until = self._sure_bytes = self._end_seen = 0
        self._agent = agent
        self._where = where
        self._report = report
        self._version: tuple[object, object] | None = None
        self._next = 0
        self._unread: dict[int, tuple[bool, bool]] = {}
        """Unread messages, oldest first: whether each wakes, and whether it interrupts."""
        self._peek = Peek()
        self._unreadable: set[int] = set()
        """Records that are no messages; read as soon as anything behind them is."""

    async def write(self, message: Message, since: int | None, *, limited: bool = True) -> int:
        """See :meth:`.MailStore.write`. Not ``limited``: also into a full mailbox."""
        data = message.to_json()
        if since is not None:
            return await self._write_once(message, data, since, limited=limited)
        if limited and (self._end_seen >= self._sure_until or len(data) > self._sure_bytes):
            await self.check_room(message)
        began = monotonic()
        try:
            index = await self.log.append(data)
        except FileNotFoundError:
            raise UnknownMailboxError(self._agent, self._where) from None
        except TimeoutError as error:
            raise self._busy(error, began) from error
        self._end_seen = index + 1
        self._sure_bytes -= len(data)
        return index

    async def check_room(self, message: Message) -> None:
        """Look whether the mailbox takes another message; what only the runtime makes, it always takes.

        Marks only grow, so what was found holds until so many messages more have come in. Those of other processes
        are noticed with the next write, so that each process may go one message beyond the limit.

        :raises MailboxFullError: when it is full.
        """
        if isinstance(message.type, MessageType) and not RULES[message.type].by_tool:
            return
        with self._errors():
            load, self._end_seen = await self.log.load(), await self.log.end()
        most = self._limits
        if load.records >= most.messages:
            raise MailboxFullError(self._agent, self._where, f"{load.records:,} messages")
        if load.bytes >= most.bytes:
            raise MailboxFullError(self._agent, self._where, f"{load.bytes:,} bytes")
        # Others write, too: how much is not known, but how many messages.
        self._sure_bytes = (most.bytes - load.bytes) // 2
        likely = max(_LOOK_AGAIN, self._sure_bytes // _LARGE)
        self._sure_until = self._end_seen + min(most.messages - load.records, likely)

    async def find(self, message_id: MessageId, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        with self._errors():
            return await self.log.find(_carries(message_id), since)

    async def _write_once(self, message: Message, data: bytes, since: int, *, limited: bool) -> int:
        same = _carries(message.id)
        if limited:
            try:
                await self.check_room(message)
            except MailboxFullError:
                if await self.find(message.id, since) is None:
                    raise
        with self._errors():
            return await self.log.append_once(data, same, since)

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
            if self._version is not None and not unread and await log.grown() == self._version[0]:
                return self._peek  # marks cannot make it fewer than none
            version = await log.version()
        except FileNotFoundError:
            raise UnknownMailboxError(self._agent, self._where) from None
        if version == self._version:
            return self._peek
        with self._errors():
            # Where none were unread, only what is unmarked can be new, and what lies before it need not be read.
            new = await (log.read(self._next) if unread else log.unmarked(seen=version))
            found = {i: (m.wakes, m.priority is Priority.INTERRUPT) for i, m in self._messages(new)}
            marked = await log.marked({*unread, *found}) if unread else set()
        unread = {i: what for i, what in (unread | found).items() if i not in marked}
        self._next = max(self._next, new[-1].index + 1 if new else 0)
        self._unread, self._version = unread, version
        waking = [index for index, (wakes, _) in unread.items() if wakes]
        interrupting = sum(interrupts for _, interrupts in unread.values())
        self._peek = Peek(len(unread), len(waking), interrupting, max(waking, default=-1))
        return self._peek

    async def archive(self, older_than: float, keep_from: int | None) -> int:
        """See :meth:`.NativeStore.archive`."""
        with self._errors():
            return await self.log.archive(older_than=older_than, keep_from=keep_from)

    async def examine(self, *, mend: bool) -> list[Finding]:
        """See :meth:`.NativeStore.examine` and :meth:`.NativeStore.mend`."""
        with self._errors():
            findings = await self.log.examine(mend=mend)
        start = 0
        try:
            while records := await self.log.read(start, _PAGE):
                known = {index for index, _ in self._messages(records)}
                findings += [self._no_message(r.index) for r in records if r.index not in known]
                start = records[-1].index + 1
        except (StorageError, FileNotFoundError):
            return findings  # the file that stops every reader is among them
        return findings

    def _no_message(self, index: int) -> Finding:
        remedy = "It is left out, and counts as read when something behind it is."
        return Finding(Flaw.NO_MESSAGE, self._where, "a record is no message", remedy, index, index + 1)

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
