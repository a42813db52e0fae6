"""Making appends durable: in a worker thread, after the unlock, many appends with one call."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..errors import StorageError
from .system import OpenFile, System, storage_error

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("pseudoclaude.storage.limiter")


def worker_limiter() -> anyio.CapacityLimiter:
    """The threads of the storage: its own, since tools may keep those of the program busy for long."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(16)
        _limiter.set(limiter)
        return limiter


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
        self._running: dict[int, anyio.Event] = {}

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
        loop = threading.get_ident()
        while True:
            if self._failed is not None and ticket <= self._failed[0]:
                raise self._failed[1]
            if self._synced >= ticket:
                return
            if running := self._running.get(loop):
                await running.wait()
                continue
            self._running[loop] = done = anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._sync, abandon_on_cancel=True, limiter=worker_limiter())
            finally:
                del self._running[loop]
                done.set()

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
