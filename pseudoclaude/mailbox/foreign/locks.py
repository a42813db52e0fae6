"""The locks of the other programs: a file for PseudoClaude, a folder for Claude Code, made beside what they lock.

Neither names its holder, and the death of a holder frees neither, so both programs take a lock away that is older than
ten seconds. Several that do so at once could each end up inside. Ours ask more of a lock they take away: it is old by
the clock of the file system, nobody touched it while they watched, and only one of our processes takes at a time.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from ...errors import StorageError
from ...storage.system import CREATE, NEW, WRITE, OpenFile, System, storage_error

Seen = tuple[int, int, int]
"""A lock as it was met: device, inode, time of the last change in nanoseconds."""


@dataclass(slots=True)
class Hold:
    """A lock that is ours, as long as nobody takes it away."""

    lock: ForeignLock
    device: int
    inode: int

    def is_ours(self) -> bool:
        """Whether what stands at the lock's path is still what we put there."""
        seen = self.lock.look()
        return seen is not None and seen[:2] == (self.device, self.inode)

    def release(self) -> None:
        """Give it back; what somebody else put in its place is left alone."""
        # What cannot be removed is told to whoever comes next and finds it.
        with suppress(OSError, StorageError):
            if self.is_ours():
                self.lock.remove()


class ForeignLock(ABC):
    """A lock that is held while something stands at its path."""

    def __init__(self, system: System, path: str, *, stale_after: float, unchanged_for: float) -> None:
        """
        :param stale_after: seconds after which the other program takes a lock away.
        :param unchanged_for: seconds for which we watch it first.
        """
        self.system = system
        self.path = path
        self.unchanged_for = unchanged_for
        self._stale_after = stale_after
        folder, name = os.path.split(path)
        self._guard = os.path.join(folder, f".{name}.guard")

    @abstractmethod
    def make(self) -> Hold:
        """Put something at the path.

        :raises FileExistsError: when something is there.
        """

    @abstractmethod
    def remove(self) -> None:
        """Remove what is at the path."""

    @abstractmethod
    def objection(self, mode: int) -> str:
        """Why something of this mode is no lock; empty if it is one."""

    def take(self) -> Hold | None:
        """Take the lock, if nothing stands at its path."""
        try:
            return self.make()
        except FileExistsError:
            return None
        except OSError as error:
            raise storage_error(self.path, error) from error

    def look(self) -> Seen | None:
        """What stands at the path; None if nothing does.

        :raises StorageError: when it is something else than a lock, which would stay there for ever.
        """
        try:
            found = self.system.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self.path, error) from error
        if why := self.objection(found.st_mode):
            raise StorageError(
                self.path, f"{why}, in the place of a lock", remedy="Look who put it there, then remove it."
            )
        return found.st_dev, found.st_ino, found.st_mtime_ns

    def steal(self, seen: Seen, clean: Callable[[], None]) -> Hold | None:
        """Take a lock away that nobody has touched since it was seen, if it is old enough.

        :param clean: removes what its holder left; called before the lock is gone, so that whoever dies in between
            leaves the same to the next.
        """
        try:
            return self._steal(seen, clean)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise StorageError(
                    self.path, "left behind as a lock, and not empty", remedy="Look what is in it, then remove it."
                ) from error
            raise storage_error(self.path, error) from error

    def _steal(self, seen: Seen, clean: Callable[[], None]) -> Hold | None:
        guard = self.system.open(self._guard, WRITE | CREATE)
        try:
            if not self.system.lock(guard) or not self._is_current(guard):
                return None
            try:
                self.system.overwrite(guard, b"\n")
                age = (self.system.fstat(guard).st_mtime_ns - seen[2]) / 1e9
                if age <= self._stale_after or self.look() != seen:
                    return None
                clean()
                with suppress(FileNotFoundError):
                    self.remove()
                return self.take()
            finally:
                self.system.unlink(self._guard)
        finally:
            guard.close()

    def _is_current(self, guard: OpenFile) -> bool:
        """Whether the guard was not removed, by whoever held it before, between our opening and locking it."""
        try:
            return os.path.samestat(self.system.fstat(guard), self.system.stat(self._guard))
        except FileNotFoundError:
            return False


class FileLock(ForeignLock):
    """PseudoClaude's: a file made with ``O_EXCL`` that holds the time."""

    def make(self) -> Hold:
        """See :meth:`.ForeignLock.make`."""
        file = self.system.open(self.path, WRITE | NEW)
        found = self.system.fstat(file)
        try:
            self.system.overwrite(file, datetime.now(UTC).isoformat().encode())
        except OSError:
            self.system.unlink(self.path)
            raise
        finally:
            file.close()
        return Hold(self, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """See :meth:`.ForeignLock.remove`."""
        self.system.unlink(self.path)

    def objection(self, mode: int) -> str:
        """See :meth:`.ForeignLock.objection`."""
        return "" if stat.S_ISREG(mode) else f"there is {_kind(mode)}"


class FolderLock(ForeignLock):
    """Claude Code's: a folder."""

    def make(self) -> Hold:
        """See :meth:`.ForeignLock.make`."""
        self.system.mkdir(self.path)
        found = self.system.stat(self.path)
        return Hold(self, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """See :meth:`.ForeignLock.remove`: never what is in the folder."""
        self.system.rmdir(self.path)

    def objection(self, mode: int) -> str:
        """See :meth:`.ForeignLock.objection`."""
        return "" if stat.S_ISDIR(mode) else f"there is {_kind(mode)}"


class Waiter:
    """One wait for a lock: tries, and remembers between them how long the present holder did not stir."""

    def __init__(self, lock: ForeignLock, clean: Callable[[], None] = lambda: None) -> None:
        """:param clean: removes what the holder of a lock left that is taken away."""
        self._lock = lock
        self._clean = clean
        self._seen: Seen | None = None
        self._since = 0.0

    def attempt(self) -> Hold | None:
        """Take the lock if it is free, or left behind; None otherwise.

        :raises StorageError: when the disk refuses, or when there is something that is no lock.
        """
        if (hold := self._lock.take()) is not None:
            return hold
        seen = self._lock.look()
        now = time.monotonic()
        if seen is None or seen != self._seen:
            self._seen, self._since = seen, now
            return None
        if now - self._since < self._lock.unchanged_for:
            return None
        self._since = now
        return self._lock.steal(seen, self._clean)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "something else"
