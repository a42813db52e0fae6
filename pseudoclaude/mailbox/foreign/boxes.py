"""Changing one mailbox of another program, under that program's lock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio

from ...errors import MailboxBusyError, MailboxDamagedError, MailboxFullError, MessageLostError
from ...ids import AgentId
from ...mail import RULES, Message, MessageType
from ..box import Limits
from .dialect import Dialect
from .files import LockLostError, MailboxFile
from .locks import ForeignLock, Hold, Waiter
from .reading import BoxReader, Look, Report, Waits
from .snapshot import Snapshot

T = TypeVar("T")

_FIRST_SLEEP, _LONGEST_SLEEP = 0.001, 0.03


class _TornError(Exception):
    """Raised under the lock when the file cannot be read, and may be in the middle of being written."""


class ForeignBox(BoxReader):
    """The mailbox of one agent, for any number of tasks and threads."""

    def __init__(
        self,
        agent: AgentId,
        file: MailboxFile,
        lock: ForeignLock,
        dialect: Dialect,
        waits: Waits,
        limits: Limits,
        report: Report,
    ) -> None:
        """:param limits: what may be unread in it; ``report`` is told of each damage once."""
        super().__init__(agent, file, dialect, waits, report)
        self._lock = lock
        self._limits = limits

    async def create(self) -> None:
        """Make the mailbox, if it is not there."""
        await self._make_folder()
        if self._file.stamp() is None:
            await self._locked(self._create)

    def _create(self, hold: Hold) -> bool:
        if self._file.read() is None:
            self._file.replace(self._dialect.empty, hold)
        return True

    async def write(self, message: Message, since: int | None) -> int:
        """Store a message; its index. With ``since`` one that stands from there on is not stored again.

        :raises MessageLostError: when it was gone twice right after it had been written.
        """
        entry = self._dialect.entry(message)
        await self._make_folder()
        start = since
        for _ in range(2):
            index, start = await self._locked(partial(self._append, message, entry, start))
            if index is not None:
                return index
        raise MessageLostError(self._file.path, message.id)

    def _append(
        self, message: Message, entry: dict[str, Any], since: int | None, hold: Hold
    ) -> tuple[int | None, int | None]:
        """The index of the message, if it is there afterwards; and from where on to look for it at the next try."""
        look = self._read_to_change()
        if since is not None and (found := self._find_copy(look, message, entry, self.first(since))) is not None:
            return found, since
        self._check_room(look, message)
        before = look.end
        snapshot = look.snapshot.with_entry(entry)
        data = snapshot.document.encode()
        self._file.replace(data, hold)
        written = self._confirm(data, snapshot)
        index = written.indices[-1] if written else self._find_copy(self._read(), message, entry, before)
        # Whoever took our lock away may have read the file before we wrote it, and will write it without our message.
        return (index if hold.is_ours() else None), before if since is None else since

    def first(self, since: int) -> int:
        """From which index on to look for an id: where the other program removes messages, indices of other
        processes mean nothing here, and ids suffice."""
        return 0 if self._dialect.prunes else since

    def _check_room(self, look: Look, message: Message) -> None:
        """Refuse more mail where too much is unread, but for what only the runtime makes.

        :raises MailboxFullError: when it is full.
        """
        if isinstance(message.type, MessageType) and not RULES[message.type].by_tool:
            return
        unread = [place for place, index in enumerate(look.indices) if index >= 0 and not look.snapshot.is_read(place)]
        if len(unread) >= self._limits.messages:
            raise MailboxFullError(self._agent, self._file.path, f"{len(unread):,} messages")
        entries = look.snapshot.document.entries
        size = sum(entries[place].end - entries[place].start for place in unread)
        if size >= self._limits.bytes:
            raise MailboxFullError(self._agent, self._file.path, f"{size:,} bytes")

    @staticmethod
    def _find_copy(look: Look, message: Message, entry: dict[str, Any], since: int) -> int | None:
        places = [look.indices[position] for position in look.snapshot.copies(message, entry)]
        return next((index for index in places if index >= since), None)

    async def mark(self, wanted: set[int]) -> None:
        """Mark messages as read."""
        await self._locked(lambda hold: self._mark(wanted, hold))

    def _mark(self, wanted: set[int], hold: Hold) -> bool:
        look = self._read_to_change()
        places = [
            position
            for position, index in enumerate(look.indices)
            if index in wanted and not look.snapshot.is_read(position)
        ]
        if places:
            snapshot = look.snapshot.with_marks(places)
            data = snapshot.document.encode()
            self._file.replace(data, hold)
            self._confirm(data, snapshot)
        return True

    def _confirm(self, data: bytes, snapshot: Snapshot) -> Look | None:
        """What was just written, if that is what stands in the file."""
        after = self._file.read()
        return self._keep(after[1], data, snapshot) if after is not None and after[0] == data else None

    async def _make_folder(self) -> None:
        if not self._file.has_folder():
            await self._thread(self._file.make_folder)

    def _read_to_change(self) -> Look:
        """The mailbox, read under the lock, if it can be changed.

        :raises MailboxDamagedError: when it is damaged, and was so for long enough.
        """
        look = self._read()
        if not look.snapshot.fault:
            return look
        if not look.damaged:
            raise _TornError
        if look.data:
            raise MailboxDamagedError(
                self._file.path, f"{look.snapshot.fault}. Nothing was written: put it in order, or move it away"
            )
        return self._keep(look.stamp, self._dialect.empty, Snapshot.of(self._dialect.empty, self._dialect))

    async def _locked(self, work: Callable[[Hold], T]) -> T:
        """Do it in a worker thread while the lock is ours.

        :raises MailboxBusyError: when somebody else held it for the whole wait; nothing was done.
        """
        waiter = Waiter(self._lock, self._file.sweep)
        began = time.monotonic()
        sleep = _FIRST_SLEEP
        while True:
            try:
                done = await self._thread(lambda: self._attempt(waiter, work))
            except _TornError:
                # Not under the lock: it is held for milliseconds, and a torn write may take a second.
                await self.look()
                continue
            except LockLostError:
                done = None
            if done is not None:
                return done[0]
            waited = time.monotonic() - began
            if waited >= self._waits.lock:
                raise MailboxBusyError(self._lock.path, "", round(waited, 1))
            await anyio.sleep(min(sleep * random.uniform(0.5, 1.0), max(self._waits.lock - waited, 0.0)))
            sleep = min(sleep * 1.5, _LONGEST_SLEEP)

    def _attempt(self, waiter: Waiter, work: Callable[[Hold], T]) -> tuple[T] | None:
        hold = waiter.attempt()
        if hold is None:
            return None
        try:
            result = work(hold)
        finally:
            hold.release()
        self._file.sync_name()
        return (result,)
