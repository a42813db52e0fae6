"""Logs on local files: in one piece (:class:`FileLog`), and with segments and marks (:mod:`.marked`)."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from ..errors import StorageError
from .appending import Appender
from .base import Damage, Durability, Record
from .chain import Chain
from .keys import Root
from .lines import check_record, data_of
from .locking import LockTimeoutError, patiently
from .marks import merged
from .syncing import SyncedFile, worker_limiter
from .system import APPEND, CREATE, Mutex, System, storage_error

T = TypeVar("T")
Appended = tuple[int, SyncedFile, int]
"""The index of a record, its file, and the ticket that makes it durable."""

INLINE = 128 << 10
"""Bytes that are read on the event loop; more are read in a worker thread."""

PLACES = 256
"""How many places of unmarked records are remembered for the next mark."""


class Kept:
    """The logs whose descriptors are open, the least used first; a full house closes those of one."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._logs: OrderedDict[int, FileLog] = OrderedDict()
        self._latest: FileLog | None = None

    def touch(self, log: FileLog) -> None:
        """Note that a log is used."""
        if log is self._latest:
            return
        self._latest = log
        logs = self._logs
        logs[id(log)] = log
        logs.move_to_end(id(log))
        if len(logs) > self._most:
            _, oldest = logs.popitem(last=False)
            oldest.close()


@dataclass(frozen=True, slots=True)
class Context:
    """What all handles of one storage share."""

    root: Root
    system: System
    durability: Durability
    lock_wait: float
    segment_bytes: int
    report: Callable[[Damage], None]
    kept: Kept = field(default_factory=Kept)


class FileLog:
    """One file of JSON lines; every append takes its kernel lock, unless the log is *owned*."""

    def __init__(self, context: Context, key: str, *, owned: bool = False, folder: bool = False) -> None:
        self._context = context
        self._system = context.system
        self._key = key
        self._owned = owned
        self._path = context.root.path_of(key)
        self._disk = context.durability == "disk"
        self._mutex = Mutex()
        self._gaps: list[tuple[int, int]] = []
        self._chain = Chain(context.system, self._path, folder=folder, gap=self._met_gap, opened=self._touch)
        self._appender: Appender | None = None

    async def create(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Log.create`."""
        await self._thread(self._create)

    async def exists(self) -> bool:
        """See :meth:`~pseudoclaude.storage.base.Log.exists`."""
        try:
            self._guard(self._chain.firsts)
        except FileNotFoundError:
            return False
        return True

    async def append(self, data: bytes) -> int:
        """See :meth:`~pseudoclaude.storage.base.Log.append`."""
        check_record(data)
        appended = self._try_append(data)
        if appended is None:
            appended = await patiently(partial(self._try_append, data), self._context.lock_wait, self._timed_out)
        index, synced, ticket = appended
        if self._disk:
            await synced.durable(ticket)
        return index

    async def append_once(self, data: bytes, same: Callable[[bytes], bool], since: int) -> int:
        """Append a record, unless one from index ``since`` on is the same; the index of whichever is stored.

        :param same: whether a record, with or without its index, counts as this one; called under the lock for what
            came in last.
        """
        check_record(data)
        found, looked = await self._search(same, since)
        looked = looked if found is None else found
        appended = await patiently(
            partial(self._try_append, data, (looked, same)), self._context.lock_wait, self._timed_out
        )
        index, synced, ticket = appended
        if self._disk:
            await synced.durable(ticket)
        return index

    async def read(self, start: int = 0, limit: int | None = None) -> list[Record]:
        """See :meth:`~pseudoclaude.storage.base.Log.read`."""
        start = max(0, start)
        place = self._guard(partial(self._chain.place_of, start))
        if place is None or limit == 0:
            return []
        work = partial(self._records, place, start, limit)
        return await self._thread(work) if self._chain.is_far(place, INLINE) else self._guard(work)

    async def find(self, same: Callable[[bytes], bool], since: int) -> int | None:
        """The index of the first record from ``since`` on that is the same; None if there is none."""
        return (await self._search(same, since))[0]

    async def end(self) -> int:
        """See :meth:`~pseudoclaude.storage.base.Log.end`."""
        return self._guard(self._chain.look).next

    def close(self) -> None:
        """Give up the descriptors; the next use opens them again."""
        self._appender = None
        self._chain.close()

    def forget(self) -> None:
        """Start afresh, in a forked child."""
        self._mutex = Mutex()
        self.close()
        self._chain.forget()

    def _create(self) -> None:
        root, folder = self._context.root, os.path.dirname(self._path)
        root.check(self._key)
        changed = root.make_folder(folder)
        self._system.open(self._path, APPEND | CREATE)
        self._sync_folders([*changed, folder])

    def _sync_folders(self, folders: Iterable[str]) -> None:
        if self._disk:
            for folder in dict.fromkeys(folders):
                self._system.sync_folder(folder)

    def _try_append(self, data: bytes, unless: tuple[int, Callable[[bytes], bool]] | None = None) -> Appended | None:
        """Append if nobody holds the lock; None if somebody does."""
        if not self._mutex.acquire(blocking=False):
            return None
        try:
            while True:
                appender = self._appender or self._open()
                if not self._owned and not self._system.lock(appender.file):
                    return None
                try:
                    if appender.look():
                        self._touch()
                        return self._append(appender, data, unless)
                finally:
                    if not self._owned:
                        self._system.unlock(appender.file)
                self.close()  # removed, and perhaps made anew
        except FileNotFoundError:
            self.close()
            raise
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self._mutex.release()

    def _append(self, appender: Appender, data: bytes, unless: tuple[int, Callable[[bytes], bool]] | None) -> Appended:
        if unless is not None:
            start, same = unless
            place = self._chain.place_of(start)
            for record in self._records(place, start, None) if place else ():
                if same(record.data):
                    # Its writer may have died before it was durable.
                    return record.index, appender.synced, appender.synced.wrote()
        index = appender.append(data)
        return index, appender.synced, appender.synced.wrote()

    def _open(self) -> Appender:
        self._context.root.check(self._key)
        file = self._system.open(self._path, APPEND)
        self._appender = self._chain.appender = Appender(self._system, file, 0, os.path.dirname(self._path))
        return self._appender

    def _touch(self) -> None:
        self._context.kept.touch(self)

    async def _search(self, same: Callable[[bytes], bool], since: int) -> tuple[int | None, int]:
        """The index of a record, if it is there, and the one up to which all were looked at."""
        start = max(0, since)
        place = self._guard(partial(self._chain.place_of, start))
        if place is None:
            return None, start
        work = partial(self._scan, place, start, same)
        return await self._thread(work) if self._chain.is_far(place, INLINE) else self._guard(work)

    def _scan(self, place: tuple[int, int], start: int, same: Callable[[bytes], bool]) -> tuple[int | None, int]:
        for index, line, _ in self._chain.walk(place, start):
            if same(line):
                return index, index
            start = index + 1
        return None, start

    def _records(self, place: tuple[int, int], start: int, limit: int | None) -> list[Record]:
        records: list[Record] = []
        for index, line, _ in self._chain.walk(place, start):
            records.append(Record(index, data_of(line)))
            if limit is not None and len(records) >= limit:
                break
        return records

    def _met_gap(self, where: str, start: int, end: int) -> None:
        known = self._gaps
        if any(a <= start and end <= b for a, b in known):
            return
        self._gaps = merged([*known, (start, end)])
        self._context.report(Damage(self._key, where, start, end))

    def _timed_out(self) -> LockTimeoutError:
        return LockTimeoutError(self._system.holder(self._path), self._path, self._context.lock_wait)

    def _refused(self, error: OSError) -> StorageError:
        return storage_error(error.filename if isinstance(error.filename, str) else self._path, error)

    def _guard(self, work: Callable[[], T]) -> T:
        """Do it, with what the disk says as :class:`StorageError`; ``FileNotFoundError`` passes."""
        try:
            return work()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._refused(error) from error

    async def _thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(self._guard, work, limiter=worker_limiter())
