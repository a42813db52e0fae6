"""The storage in memory: for tests and examples. Values are kept as the bytes that a file would hold."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel

from ..errors import ConflictError, LeaseHeldError
from .base import Damage, Finding, Load, Record, Versioned
from .documents import encode_json, version_of
from .keys import parts_of
from .lines import check_record
from .marks import Marks, ranges_of


@dataclass(slots=True)
class _Content:
    """What outlives the handles: the records of each log, the marks, the documents, who holds what."""

    logs: dict[str, list[bytes]] = field(default_factory=dict)
    marks: dict[str, Marks] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    leases: dict[str, str] = field(default_factory=dict)
    intents: dict[str, bytes] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)


class MemoryLog:
    """See :class:`~pseudoclaude.storage.base.MarkedLog`."""

    def __init__(self, content: _Content, key: str) -> None:
        parts_of(key)
        self._content = content
        self._key = key

    async def create(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Log.create`."""
        self._content.logs.setdefault(self._key, [])

    async def exists(self) -> bool:
        """See :meth:`~pseudoclaude.storage.base.Log.exists`."""
        return self._key in self._content.logs

    async def append(self, data: bytes) -> int:
        """See :meth:`~pseudoclaude.storage.base.Log.append`."""
        check_record(data)
        json.loads(data)
        records = self._records()
        records.append(bytes(data))
        return len(records) - 1

    async def append_once(self, data: bytes, same: Callable[[bytes], bool], since: int) -> int:
        """Append a record, unless one from index ``since`` on is the same; the index of whichever is stored."""
        found = await self.find(same, since)
        return await self.append(data) if found is None else found

    async def find(self, same: Callable[[bytes], bool], since: int) -> int | None:
        """The index of the first record from ``since`` on that is the same; None if there is none."""
        start = max(0, since)
        return next((i for i, record in enumerate(self._records()[start:], start) if same(record)), None)

    async def read(self, start: int = 0, limit: int | None = None) -> list[Record]:
        """See :meth:`~pseudoclaude.storage.base.Log.read`."""
        start = max(0, start)
        end = None if limit is None else start + limit
        return [Record(index, data) for index, data in enumerate(self._records()[start:end], start)]

    async def end(self) -> int:
        """See :meth:`~pseudoclaude.storage.base.Log.end`."""
        return len(self._records())

    async def mark(self, indices: Iterable[int]) -> None:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.mark`."""
        wanted, end = sorted(set(indices)), len(self._records())
        if (bad := next((index for index in wanted if not 0 <= index < end), None)) is not None:
            raise IndexError(bad, end)
        self._content.marks[self._key] = self._marks().with_ranges(ranges_of(wanted))

    async def unmarked(self, limit: int | None = None, *, seen: object = None) -> list[Record]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.unmarked`."""
        records, marks = self._records(), self._marks()
        found = (Record(i, records[i]) for i in range(marks.through, len(records)) if i not in marks)
        return [record for record, _ in zip(found, range(len(records) if limit is None else limit), strict=False)]

    async def marked(self, indices: Iterable[int]) -> set[int]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.marked`."""
        self._records()
        marks = self._marks()
        return {index for index in indices if index in marks}

    async def version(self) -> tuple[object, object]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.version`."""
        return len(self._records()), self._marks()

    async def grown(self) -> object:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.grown`."""
        return len(self._records())

    async def load(self) -> Load:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.load`."""
        unmarked = await self.unmarked()
        return Load(len(unmarked), sum(len(record.data) for record in unmarked))

    async def archive(self, *, older_than: float, keep_from: int | None = None) -> int:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.archive`; memory keeps all of it as it is."""
        self._records()
        return 0

    async def examine(self, *, mend: bool = False) -> list[Finding]:
        """See :meth:`~pseudoclaude.storage.base.MarkedLog.examine`; memory is never damaged."""
        self._records()
        return []

    def _records(self) -> list[bytes]:
        try:
            return self._content.logs[self._key]
        except KeyError:
            raise FileNotFoundError(2, "no such log", self._key) from None

    def _marks(self) -> Marks:
        return self._content.marks.get(self._key) or Marks()


class MemoryDocument:
    """See :class:`~pseudoclaude.storage.base.Document`."""

    def __init__(self, content: _Content, key: str) -> None:
        parts_of(key)
        self._documents = content.documents
        self._key = key

    async def read(self) -> Versioned | None:
        """See :meth:`~pseudoclaude.storage.base.Document.read`."""
        data = self._documents.get(self._key)
        return None if data is None else Versioned(json.loads(data), version_of(data))

    async def replace(self, value: Any, *, expected: str | None) -> str:
        """See :meth:`~pseudoclaude.storage.base.Document.replace`."""
        data = encode_json(value)
        present = self._documents.get(self._key)
        if (None if present is None else version_of(present)) != expected:
            raise ConflictError(self._key)
        self._documents[self._key] = data
        return version_of(data)

    async def put(self, value: Any) -> None:
        """See :meth:`~pseudoclaude.storage.base.Document.put`."""
        self._documents[self._key] = encode_json(value)


class MemoryLease:
    """See :class:`~pseudoclaude.storage.base.Lease`."""

    def __init__(self, content: _Content, key: str) -> None:
        parts_of(key)
        self._leases = content.leases
        self._key = key

    @contextmanager
    def hold(self, holder: str) -> Iterator[None]:
        """See :meth:`~pseudoclaude.storage.base.Lease.hold`."""
        if (other := self._leases.get(self._key)) is not None:
            raise LeaseHeldError(self._key, other)
        self._leases[self._key] = holder
        try:
            yield
        finally:
            del self._leases[self._key]

    async def holder(self) -> str | None:
        """See :meth:`~pseudoclaude.storage.base.Lease.holder`."""
        return self._leases.get(self._key)


class MemoryIntent:
    """See :class:`~pseudoclaude.storage.base.Intent`."""

    def __init__(self, content: _Content, name: str) -> None:
        self.name = name
        self.value: Any = json.loads(content.intents[name])
        self._content = content

    async def finish(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Intent.finish`."""
        self._content.intents.pop(self.name, None)


class MemoryIntents:
    """See :class:`~pseudoclaude.storage.base.Intents`."""

    def __init__(self, content: _Content) -> None:
        self._content = content

    @asynccontextmanager
    async def begin(self, value: Any) -> AsyncIterator[MemoryIntent]:
        """See :meth:`~pseudoclaude.storage.base.Intents.begin`."""
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._content.intents[name] = encode_json(value)
        with self._hold(name):
            yield MemoryIntent(self._content, name)

    async def sweep(self) -> list[str]:
        """See :meth:`~pseudoclaude.storage.base.Intents.sweep`."""
        return sorted(self._content.intents)

    @asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[MemoryIntent | None]:
        """See :meth:`~pseudoclaude.storage.base.Intents.take`."""
        if name in self._content.held or name not in self._content.intents:
            yield None
            return
        with self._hold(name):
            yield MemoryIntent(self._content, name)

    async def values(self) -> dict[str, Any]:
        """See :meth:`~pseudoclaude.storage.base.Intents.values`."""
        return {name: json.loads(data) for name, data in sorted(self._content.intents.items())}

    @contextmanager
    def _hold(self, name: str) -> Iterator[None]:
        self._content.held.add(name)
        try:
            yield
        finally:
            self._content.held.discard(name)


class _Listener:
    def __init__(self) -> None:
        self._rung = anyio.Event()
        self._rung.set()

    def ring(self) -> None:
        self._rung.set()

    def __aiter__(self) -> AsyncIterator[None]:
        return self

    async def __anext__(self) -> None:
        await self._rung.wait()
        self._rung = anyio.Event()


class MemoryStorage:
    """Implements :class:`~pseudoclaude.storage.base.Storage` for one event loop; all of it is gone with the object."""

    def __init__(self) -> None:
        self._content = _Content()
        self._listeners: set[_Listener] = set()

    def log(self, key: str) -> MemoryLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.log`."""
        return MemoryLog(self._content, key)

    def owned_log(self, key: str) -> MemoryLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.owned_log`."""
        return MemoryLog(self._content, key)

    def marked_log(self, key: str) -> MemoryLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.marked_log`."""
        return MemoryLog(self._content, key)

    def document(self, key: str) -> MemoryDocument:
        """See :meth:`~pseudoclaude.storage.base.Storage.document`."""
        return MemoryDocument(self._content, key)

    def lease(self, key: str) -> MemoryLease:
        """See :meth:`~pseudoclaude.storage.base.Storage.lease`."""
        return MemoryLease(self._content, key)

    def intents(self) -> MemoryIntents:
        """See :meth:`~pseudoclaude.storage.base.Storage.intents`."""
        return MemoryIntents(self._content)

    async def keys(self, prefix: str) -> list[str]:
        """See :meth:`~pseudoclaude.storage.base.Storage.keys`."""
        start = "/".join(parts_of(prefix)) + "/" if prefix else ""
        everything = (*self._content.logs, *self._content.documents, *self._content.leases)
        return sorted({key.removeprefix(start).partition("/")[0] for key in everything if key.startswith(start)})

    def ring(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Storage.ring`."""
        for listener in tuple(self._listeners):
            listener.ring()

    def rung(self) -> AbstractAsyncContextManager[AsyncIterator[None]]:
        """See :meth:`~pseudoclaude.storage.base.Storage.rung`."""
        return self._rung()

    @asynccontextmanager
    async def _rung(self) -> AsyncIterator[AsyncIterator[None]]:
        listener = _Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def on_damage(self, report: Callable[[Damage], None]) -> None:
        """See :meth:`~pseudoclaude.storage.base.Storage.on_damage`; memory is never damaged."""
