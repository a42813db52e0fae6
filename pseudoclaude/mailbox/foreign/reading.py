"""Reading one mailbox of another program, without a lock, and what is remembered of it.

Everything that touches the disk runs in a worker thread, but for a look at the file's stamp.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread

from ...errors import MailboxDamagedError
from ...ids import AgentId
from ...mail import IndexedMessage, Message
from ...storage.syncing import worker_limiter
from ...storage.system import Mutex
from ..store import Peek
from .dialect import Dialect
from .files import MailboxFile, Stamp
from .snapshot import Snapshot

T = TypeVar("T")
Report = Callable[[MailboxDamagedError, bool], bool]
"""Is told of a damage, and whether to keep it for a later listener if there is none; whether somebody heard."""

_EQUAL_READS = 3
_LONGEST_TEARING = 10
"""Times the wait for a torn write, after which a file that keeps changing is given up."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds: for a lock that somebody holds, and for a write that somebody has not finished."""

    lock: float
    torn: float


@dataclass(slots=True)
class Look:
    """A snapshot with the indices of its messages, and how the file was when it was read."""

    stamp: Stamp | None
    data: bytes
    snapshot: Snapshot
    indices: list[int]
    """Of each entry; -1 for one that is no message."""
    end: int
    damaged: bool = False
    """The fault of this file has been looked at for long enough, and told."""
    peek: Peek | None = None
    messages: dict[int, Message] | None = None


class BoxReader:
    """Reads the mailbox of one agent, for any number of tasks and threads, and knows its indices."""

    def __init__(
        self,
        agent: AgentId,
        file: MailboxFile,
        dialect: Dialect,
        waits: Waits,
        report: Report,
    ) -> None:
        """:param report: is told of each damage once."""
        self._agent = agent
        self._file = file
        self._dialect = dialect
        self._waits = waits
        self._report = report
        self._mutex = Mutex()
        self._known: dict[str, int] = {}
        """The index that this object has given to an id, where the other program removes messages."""
        self._last: Look | None = None
        self._told: set[str] = set()

    async def look(self) -> Look:
        """The mailbox as it is now; read only when the file changed.

        :raises MailboxDamagedError: once, when the file cannot be read and nobody listens to reports.
        """
        last = self._last
        stamp = self._file.stamp()
        if last is not None and last.stamp == stamp and (stamp is None or stamp.settled) and self._is_usable(last):
            return last
        look = await self._thread(self._read)
        if not self._is_usable(look):
            look = await self._settle(look)
        self._report_entries(look)
        return look

    def message(self, look: Look, position: int) -> Message | None:
        """The message at a position, or None for an entry that is none; that is reported once."""
        if look.messages is None:
            look.messages = {}
        if (message := look.messages.get(position)) is None and look.indices[position] >= 0:
            value = look.snapshot.document.entries[position].value
            try:
                message = self._dialect.read(value, look.snapshot.ids[position], self._agent)
            except ValueError as error:
                self._tell_entry(look, position, str(error))
                return None
            look.messages[position] = message
        return message

    def indexed(self, look: Look, position: int) -> IndexedMessage | None:
        """The same with its index and mark."""
        message = self.message(look, position)
        if message is None:
            return None
        return IndexedMessage(look.indices[position], message, look.snapshot.is_read(position))

    def _is_usable(self, look: Look) -> bool:
        return not look.snapshot.fault or look.damaged

    def _read(self) -> Look:
        """The file, parsed unless it is what was parsed before."""
        found = self._file.read()
        data, stamp = found or (self._dialect.empty, None)
        with self._mutex:
            last = self._last
            if last is not None and last.data == data:
                last.stamp = stamp
                return last
        return self._keep(stamp, data, Snapshot.of(data, self._dialect))

    def _keep(self, stamp: Stamp | None, data: bytes, snapshot: Snapshot) -> Look:
        with self._mutex:
            if self._dialect.prunes:
                known = self._known
                indices = [known.setdefault(name, len(known)) if name else -1 for name in snapshot.ids]
                end = len(known)
            else:
                indices = [position if name else -1 for position, name in enumerate(snapshot.ids)]
                end = len(indices)
            look = Look(stamp, data, snapshot, indices, end)
            self._last = look
            return look

    async def _settle(self, look: Look) -> Look:
        """Look until the file can be read, or has been the same and unreadable for long enough to be damaged."""
        deadline = time.monotonic() + self._waits.torn * _LONGEST_TEARING
        equal = 1
        while equal < _EQUAL_READS and time.monotonic() < deadline:
            await anyio.sleep(self._waits.torn / (_EQUAL_READS - 1))
            before, look = look, await self._thread(self._read)
            if self._is_usable(look):
                return look
            equal = equal + 1 if before.data == look.data else 1
        fault = look.snapshot.fault
        if equal < _EQUAL_READS:
            raise MailboxDamagedError(self._file.path, f"it keeps changing, and cannot be read: {fault}")
        copy = "" if not look.data else await self._thread(lambda: self._file.copy_aside(look.data))
        look.damaged = True
        what = f"{fault}; a copy is {copy}" if copy else fault
        if not self._tell(f"{hash(look.data)}", what, keep=False):
            raise MailboxDamagedError(self._file.path, what)
        return look

    def _report_entries(self, look: Look) -> None:
        for position, why in look.snapshot.faults.items():
            self._tell_entry(look, position, why)

    def _tell_entry(self, look: Look, position: int, why: str) -> None:
        raw = look.snapshot.document.raw(look.snapshot.document.entries[position])
        self._tell(raw, f"its entry {position} is no message: {why}", keep=True)

    def _tell(self, key: str, what: str, *, keep: bool) -> bool:
        """Report once what is known by a key; whether somebody heard, now or before."""
        with self._mutex:
            if key in self._told:
                return True
            self._told.add(key)
        return self._report(MailboxDamagedError(self._file.path, what), keep)

    @staticmethod
    async def _thread(work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=worker_limiter())
