"""Making appends durable: in a worker thread, after the unlock, many appends with one call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Protocol, cast

import anyio
import anyio.lowlevel
from anyio.lowlevel import EventLoopToken, RunVar

from ..errors import StorageError
from .system import OpenFile, System, forget_after_fork, storage_error

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("pseudoclaude.storage.limiter")


def worker_limiter() -> anyio.CapacityLimiter:
    """The threads of the storage: its own, since tools may keep those of the program busy for long."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(16)
        _limiter.set(limiter)
        return limiter


class _TrioToken(Protocol):
    def run_sync_soon(self, work: Callable[[], None]) -> None: ...


class _Threads:
    """A few threads that do nothing but sync: handing work to them takes half of what a general pool does."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()
        forget_after_fork(self)

    def put(self, work: Callable[[], None]) -> None:
        """Have it done soon."""
        self._waiting.put(work)
        if self._idle >= self._waiting.qsize():
            return
        with self._mutex:
            if self._started < self._most:
                self._started += 1
                threading.Thread(target=self._run, args=(self._waiting,), name="sync", daemon=True).start()

    def forget(self) -> None:
        """Start afresh, in a forked child, which has none of the threads."""
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._mutex = threading.Lock()
        self._started = self._idle = 0

    def _run(self, waiting: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            with self._mutex:
                self._idle += 1
            work = waiting.get()
            with self._mutex:
                self._idle -= 1
            work()
            del work


_threads = _Threads(8)


class SyncedFile:
    """A file to which records are appended, and how many of them are known to be on the disk."""

    def __init__(self, system: System, file: OpenFile, folder: str, before: SyncedFile | None = None) -> None:
        """:param folder: made durable before the first record is; ``before``: the segment that this one follows."""
        self.file = file
        self._system = system
        self._folder: str | None = folder
        self._before = before
        self._written = 0
        self._synced = 0
        self._failed: tuple[int, StorageError] | None = None
        self._running: dict[EventLoopToken, anyio.Event] = {}

    def wrote(self) -> int:
        """Note an append, under the lock; the ticket that :meth:`durable` takes."""
        self._written += 1
        return self._written

    @property
    def failed(self) -> bool:
        """Whether a sync failed: the kernel forgets it, so no later one can be believed."""
        return self._failed is not None

    async def durable(self, ticket: int) -> None:
        """Return when the append of this ticket is on the disk.

        :raises StorageError: when the disk failed; whether the record is there is unknown.
        """
        token = anyio.lowlevel.current_token()
        while True:
            if self._failed is not None and ticket <= self._failed[0]:
                raise self._failed[1]
            if self._synced >= ticket:
                return
            running = self._running.get(token)
            if running is None:
                running = self._running[token] = anyio.Event()
                _threads.put(partial(self._sync_for, token, running))
            await running.wait()

    def _sync_for(self, token: EventLoopToken, done: anyio.Event) -> None:
        """Sync, in one of the threads, and tell the loop."""
        try:
            self._sync()
        finally:
            del self._running[token]
            # Without waiting for the loop to do it, which may be ending; one that has ended has nobody waiting.
            loop = token.native_token
            with suppress(RuntimeError):
                if isinstance(loop, asyncio.AbstractEventLoop):
                    loop.call_soon_threadsafe(done.set)
                else:
                    cast(_TrioToken, loop).run_sync_soon(done.set)

    def _sync(self) -> None:
        upto = self._written
        try:
            if self._before is not None:
                self._system.fdatasync(self._before.file)
                self._before = None
            if (folder := self._folder) is not None:
                self._system.sync_folder(folder)
                self._folder = None
            self._system.fdatasync(self.file)
        except OSError as error:
            failure = storage_error(self.file.path, error)
            failure.__cause__ = error
            self._failed = (max(upto, self._written), failure)
            return
        self._synced = max(self._synced, upto)
