"""The doorbell: a small file that is touched whenever something was stored, and how others notice."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel

from ..errors import StorageError
from .system import CREATE, WRITE, System

if sys.platform == "linux":
    import ctypes

    import inotify_simple  # type: ignore[import-untyped]
    from inotify_simple import INotify, flags

    # It would look for the C library by starting ldconfig, and the event loop would wait for that; the C library of
    # this process is at hand.
    inotify_simple._libc = inotify_simple._libc or ctypes.CDLL(None, use_errno=True)


class Doorbell:
    """One file; the time of its last change is set by hand, since two rings may fall into one tick of the clock."""

    def __init__(self, system: System, path: str, *, poll: float, notify: bool) -> None:
        """:param poll: seconds between two looks at the file; ``notify``: let the kernel tell at once, on Linux."""
        self._system = system
        self._path = path
        self._poll = poll
        self._notify = notify and sys.platform == "linux"
        self._last = 0

    def ring(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Storage.ring`."""
        # Who waits looks by itself now and then, so a bell that cannot be rung is no failure of what was stored.
        with suppress(OSError, StorageError):
            self._last = now = max(self._last + 1, time.time_ns())
            try:
                self._system.touch(self._path, now)
            except FileNotFoundError:
                self._system.open(self._path, WRITE | CREATE).close()
                self._system.touch(self._path, now)

    @asynccontextmanager
    async def rung(self) -> AsyncIterator[AsyncIterator[None]]:
        """See :meth:`~pseudoclaude.storage.base.Storage.rung`."""
        listener = _Listener(self._system, self._path, self._poll, notify=self._notify)
        try:
            yield listener
        finally:
            listener.close()


class _Listener:
    def __init__(self, system: System, path: str, poll: float, *, notify: bool) -> None:
        self._system = system
        self._path = path
        self._poll = poll
        self._seen: object = None
        self._first = True
        self._inotify: INotify | None = None
        self._watched: int | None = None
        if notify:
            with suppress(OSError):  # the limit of watches is reached; the polling is enough
                self._inotify = INotify(nonblocking=True)
        if self._inotify is not None:
            with suppress(OSError, StorageError):
                self._system.open(path, WRITE | CREATE)
        self._look()

    def __aiter__(self) -> AsyncIterator[None]:
        return self

    async def __anext__(self) -> None:
        if self._first:
            self._first = False
            await anyio.lowlevel.checkpoint()
            return
        while True:
            if self._inotify is None:
                await anyio.sleep(self._poll)
            else:
                with anyio.move_on_after(self._poll):
                    await anyio.wait_readable(self._inotify.fileno())
                self._drain(self._inotify)
            if self._look():
                return

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()

    def _look(self) -> bool:
        """Whether the bell was rung since the last look."""
        try:
            stat = self._system.stat(self._path)
            seen: object = (stat.st_ino, stat.st_mtime_ns)
            inode: int | None = stat.st_ino
        except OSError:
            seen = inode = None
        if self._inotify is not None and inode != self._watched:
            self._watched = None
            with suppress(OSError):
                if inode is not None:
                    self._inotify.add_watch(self._path, flags.ATTRIB | flags.DONT_FOLLOW)
                    self._watched = inode
        changed, self._seen = seen != self._seen and seen is not None, seen
        return changed

    @staticmethod
    def _drain(inotify: INotify) -> None:
        with suppress(BlockingIOError):
            while os.read(inotify.fileno(), 1 << 16):
                pass
