"""The protocols that everything durable goes through.

A :class:`Storage` hands out its intents, and logs, documents and leases by *key*: a relative path of validated names
with ``/`` between, such as ``inboxes/alice-01j…`` or ``team.json``. Asking for a handle touches nothing.

No method swallows an error of the disk: :class:`~pseudoclaude.errors.StorageError` names the file and the remedy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from ..errors import ConflictError

Durability = Literal["disk", "os"]
"""``disk``: an append returns when the record survives a power cut; ``os``: when it survives a killed process."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log: its index, and one JSON object in UTF-8, without the index."""

    index: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Indices of a log that cannot be read any more: ``start`` up to, and without, ``end``."""

    key: str
    where: str
    start: int
    end: int

    def __str__(self) -> str:
        if self.start == self.end:
            return f"{self.where} cannot be read; what it says is taken from the rest"
        many = f"{self.start} to {self.end - 1}" if self.end - self.start > 1 else str(self.start)
        return f"{self.where}: record {many} cannot be read any more; the others can"


class Log(Protocol):
    """An append-only sequence of JSON objects. Indices count 0, 1, 2, … and never change meaning.

    Readers take no lock and never see half a record. After a kill at any point, every append that returned is read
    back, and the next append mends what the killed one left.
    """

    async def create(self) -> None:
        """Make the log, empty, if it is not there yet."""
        ...

    async def exists(self) -> bool:
        """Whether it was created and not removed."""
        ...

    async def append(self, data: bytes) -> int:
        """Store one JSON object, a single line that starts with ``{`` and has at least one key; its index.

        Returns when it is durable. An append that raised or was cancelled has an unknown outcome.

        :raises FileNotFoundError: when the log was not created, or was removed.
        :raises TimeoutError: when somebody else held its lock for the whole wait; nothing was written. The first
            argument is the holder's process id as text, or empty.
        """
        ...

    async def read(self, start: int = 0, limit: int | None = None) -> list[Record]:
        """Records from an index on, oldest first. Damaged ones are left out and reported once per handle."""
        ...

    async def end(self) -> int:
        """The index the next record would get."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """How much of a log is not marked: records, counting damaged ones, and their bytes on the disk, estimated."""

    records: int = 0
    bytes: int = 0


class Flaw(StrEnum):
    """What can be wrong with a log and its files."""

    LOST_RECORDS = "lost-records"
    TORN_PIECE = "torn-piece"
    NO_MESSAGE = "no-message"
    MARKS_BEYOND_END = "marks-beyond-end"
    UNREADABLE_MARKS = "unreadable-marks"
    STRAY_FILE = "stray-file"
    NO_LOCK_FILE = "no-lock-file"
    WRONG_MODE = "wrong-mode"
    NOT_A_FILE = "not-a-file"
    UNFINISHED = "unfinished"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and what becomes of it."""

    flaw: Flaw
    where: str
    """The file or folder."""
    what: str
    """What is wrong, in words."""
    remedy: str = ""
    """What was done about it, can be done, or why nothing need be done."""
    start: int | None = None
    end: int | None = None
    """The indices concerned: ``start`` up to, and without, ``end``."""
    mended: bool = False


class MarkedLog(Log, Protocol):
    """A log with a *cursor*: which of its records were marked. Cursor and log share one lock.

    Marks only grow. What these methods cost follows what is unmarked, not how much the log holds.
    """

    async def append_once(self, data: bytes, same: Callable[[bytes], bool], since: int) -> int:
        """Append a record as :meth:`append` does, unless one from index ``since`` on is the same, in one step.

        :param same: whether a record, with or without its index, counts as this one.
        :return: the index of whichever is stored, durably.
        """
        ...

    async def find(self, same: Callable[[bytes], bool], since: int) -> int | None:
        """The index of the first record from ``since`` on that is the same; None if there is none."""
        ...

    async def mark(self, indices: Iterable[int]) -> None:
        """Mark records; a second time changes nothing. Marks made elsewhere stay.

        :raises IndexError: when one of them is not the index of a record; nothing was marked. The arguments are
            that index and the end of the log.
        """
        ...

    async def unmarked(self, limit: int | None = None, *, seen: object = None) -> list[Record]:
        """The records that are not marked, oldest first, at most ``limit`` of them.

        :param seen: the :meth:`version` of a moment ago, which may save another look.
        """
        ...

    async def marked(self, indices: Iterable[int]) -> set[int]:
        """Those of the indices that are marked."""
        ...

    async def version(self) -> tuple[object, object]:
        """Two values: the first changes with every record that came in, the second with every mark.

        By ``stat``, without a read.
        """
        ...

    async def grown(self) -> object:
        """The first value of :meth:`version` alone."""
        ...

    async def load(self) -> Load:
        """How much is not marked. Costs the same however much that is."""
        ...

    async def archive(self, *, older_than: float, keep_from: int | None = None) -> int:
        """Put away, compressed, what is full, wholly marked and unchanged for ``older_than`` seconds; how many pieces.

        It stays readable. Never the newest piece, and none that reaches to the index ``keep_from``.
        """
        ...

    async def examine(self, *, mend: bool = False) -> list[Finding]:
        """What is wrong with it. ``mend`` repairs what can be repaired without losing anything.

        :raises FileNotFoundError: when the log was not created, or was removed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """A JSON value together with what identifies this version of it."""

    value: Any
    version: str


class Document(Protocol):
    """One JSON value, replaced as a whole. A reader sees the old or the new value, never a mixture."""

    async def read(self) -> Versioned | None:
        """The value, or None where there is none.

        :raises StorageError: when it is there and cannot be read or parsed; it is never treated as absent.
        """
        ...

    async def replace(self, value: Any, *, expected: str | None) -> str:
        """Store a new value if the present one has the version ``expected`` (None: if there is none); its version.

        :raises ConflictError: when the present version is another one.
        """
        ...

    async def put(self, value: Any) -> None:
        """Store a value whatever is there; for documents with a single writer. Survives a kill, not a power cut."""
        ...


class Lease(Protocol):
    """A right that one holder has, and that ends with the holder's process at the latest."""

    def hold(self, holder: str) -> AbstractContextManager[None]:
        """Take it for the duration of a ``with`` block, at once or not at all.

        :param holder: what others are told about who holds it, one line.
        :raises LeaseHeldError: when somebody else holds it.
        """
        ...

    async def holder(self) -> str | None:
        """What the present holder wrote about itself; None when nobody holds it. A moment later it may be untrue."""
        ...


class Intent(Protocol):
    """Something that was begun and must be finished, held by nobody else at the moment."""

    @property
    def name(self) -> str:
        """What tells it from the others; in the order of names they were begun."""
        ...

    @property
    def value(self) -> Any:
        """What was to be done, as JSON."""
        ...

    async def finish(self) -> None:
        """Remove it: all of it is done. After a power cut it may be there again."""
        ...


class Intents(Protocol):
    """What was begun, kept until it is finished: by whoever comes next, if the one who began it died."""

    def begin(self, value: Any) -> AbstractAsyncContextManager[Intent]:
        """Note a JSON value durably, and hold it for the duration of an ``async with`` block.

        What is not finished in the block stays, for others to take.

        :raises StorageError: when the disk refused; then nothing was noted.
        """
        ...

    async def sweep(self) -> list[str]:
        """Remove what died before it was noted; the names of what was noted, held or not, oldest first."""
        ...

    def take(self, name: str) -> AbstractAsyncContextManager[Intent | None]:
        """Hold one that was left behind; None when somebody holds it, or it is finished.

        :raises StorageError: when it cannot be read; it is left as it is.
        """
        ...

    async def values(self) -> dict[str, Any]:
        """All that is noted, held or not, by name; None for one that cannot be read."""
        ...


class Storage(Protocol):
    """Hands out logs, documents and leases by key, and its intents."""

    def log(self, key: str) -> Log:
        """A log in one piece, ``….jsonl``; several processes may append to it."""
        ...

    def owned_log(self, key: str) -> Log:
        """A log to which only the holder of ``lease(key)`` appends, so that it takes no lock of its own."""
        ...

    def marked_log(self, key: str) -> MarkedLog:
        """A log with a cursor."""
        ...

    def document(self, key: str) -> Document:
        """A document, ``….json``."""
        ...

    def lease(self, key: str) -> Lease:
        """A lease. Its key may be that of an owned log."""
        ...

    def intents(self) -> Intents:
        """What was begun in this storage and must be finished."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """The last parts of the keys directly under a prefix, in order; empty where there is nothing."""
        ...

    def ring(self) -> None:
        """Tell every :meth:`rung` of this storage, in any process, that something was stored. Never raises."""
        ...

    def rung(self) -> AbstractAsyncContextManager[AsyncIterator[None]]:
        """Wake-ups: one at once, then one soon after each :meth:`ring`; several may merge into one."""
        ...

    def on_damage(self, report: Callable[[Damage], None]) -> None:
        """Call ``report`` for each damaged range, once per handle that met it."""
        ...


async def update(document: Document, change: Callable[[Any], Any]) -> Any:
    """Change a document as one step: read it, apply ``change`` to its value (None if absent), store the result.

    When somebody else was faster, ``change`` is applied again to what they stored; it must not have effects of its
    own. What it raises passes through, and nothing is stored. A result equal to the value stores nothing.

    :return: the value now stored.
    """
    while True:
        current = await document.read()
        old = current.value if current else None
        new = change(old)
        if current is not None and new == old:
            return new
        try:
            await document.replace(new, expected=current.version if current else None)
        except ConflictError:
            continue
        return new
