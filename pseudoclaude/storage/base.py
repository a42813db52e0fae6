"""The protocols that everything durable goes through.

A :class:`Storage` hands out logs, documents and leases by *key*: a relative path of validated names with ``/``
between, such as ``inboxes/alice-01j…`` or ``team.json``. Asking for a handle touches nothing.

No method swallows an error of the disk: :class:`~pseudoclaude.errors.StorageError` names the file and the remedy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
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


class MarkedLog(Log, Protocol):
    """A log with a *cursor*: which of its records were marked. Cursor and log share one lock.

    Marks only grow. What these methods cost follows what is unmarked, not how much the log holds.
    """

    async def mark(self, indices: Iterable[int]) -> None:
        """Mark records; a second time changes nothing. Marks made elsewhere stay.

        :raises IndexError: when one of them is not the index of a record; nothing was marked. The arguments are
            that index and the end of the log.
        """
        ...

    async def unmarked(self, limit: int | None = None) -> list[Record]:
        """The records that are not marked, oldest first, at most ``limit`` of them."""
        ...

    async def marked(self, indices: Iterable[int]) -> set[int]:
        """Those of the indices that are marked."""
        ...

    async def version(self) -> object:
        """A value that changes whenever :meth:`unmarked` would answer differently; by ``stat``, without a read."""
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


class Storage(Protocol):
    """Hands out logs, documents and leases by key."""

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
