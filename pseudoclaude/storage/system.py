"""The system calls of the file storage: the only module that opens for writing, locks, syncs and renames.

Everything goes through the methods of one :class:`System`, so that a test can pass one that dies before, in the
middle of or after its nth call. Each is short enough for the event loop, but for :meth:`System.fsync` and
:meth:`System.fdatasync`, which belong in a worker thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Protocol

from ..errors import StorageError

if sys.platform not in ("linux", "darwin"):
    raise ImportError(
        f"pseudoclaude keeps its mail under kernel locks (flock), and was not made for {sys.platform}: "
        "run it on Linux or macOS"
    )

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Never through a planted link, never waiting for the other end of a planted FIFO."""

READ = os.O_RDONLY | _SAFE
WRITE = os.O_RDWR | _SAFE
APPEND = os.O_RDWR | os.O_APPEND | _SAFE
CREATE = os.O_CREAT
NEW = os.O_CREAT | os.O_EXCL
EMPTY = os.O_TRUNC

_REMEDIES = {
    errno.ENOSPC: "Free some space on this disk, then try again.",
    errno.EDQUOT: "Free some space of your quota, then try again.",
    errno.EFBIG: "Raise the limit for the size of files (ulimit -f).",
    errno.EACCES: "Check who owns the file and the folders above it, and their permissions.",
    errno.EPERM: "Check who owns the file and the folders above it, and their permissions.",
    errno.EROFS: "This file system is mounted read-only.",
    errno.EIO: "The disk failed: check it, and restore the file from a copy if it cannot be read.",
    errno.ELOOP: "A symbolic link is never followed here: remove it, or put the file itself in its place.",
    errno.ENOTDIR: "A part of this path is a file where a folder is needed: move it away.",
    errno.EISDIR: "There is a folder where a file is needed: move it away.",
    errno.ENAMETOOLONG: "Use a shorter name, or a root with a shorter path.",
    errno.EMFILE: "Raise the limit for open files (ulimit -n).",
    errno.ENFILE: "Too many files are open on this machine.",
    errno.ENOLCK: "This file system has no kernel locks: keep the root on a local disk.",
    errno.ENOTSUP: "This file system has no kernel locks: keep the root on a local disk.",
    errno.ENOENT: "The folder is missing: create it, or choose another root.",
}


def storage_error(path: str, error: OSError) -> StorageError:
    """What the disk said, as a :class:`StorageError` that names the file and the remedy."""
    why = error.strerror or str(error)
    return StorageError(path, why[:1].lower() + why[1:], remedy=_REMEDIES.get(error.errno or 0, ""))


class OpenFile:
    """A descriptor that is closed when nobody refers to it any more, without unlocking it first.

    A sync in a worker thread refers to it, so that its number cannot become another file meanwhile.
    """

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        _open_files.add(self)

    def close(self) -> None:
        """Close it now; a second time does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)

    def __del__(self) -> None:
        self.close()


class System:
    """The calls themselves. Each raises what the kernel says, as ``OSError``, unless it says otherwise."""

    def open(self, path: str, flags: int) -> OpenFile:
        """Open a regular file; made with mode 0600 where ``flags`` hold :data:`CREATE`.

        :raises StorageError: when there is something else than a regular file, such as a FIFO.
        """
        file = OpenFile(os.open(path, flags, 0o600), path)
        if not stat.S_ISREG(os.fstat(file.fd).st_mode):
            file.close()
            raise StorageError(path, "this is not a regular file", remedy="Move it away.")
        return file

    def glance(self, path: str, size: int) -> tuple[os.stat_result, bytes]:
        """What the system knows of a regular file, and at most ``size`` bytes of its end.

        :raises StorageError: when there is something else than a regular file.
        """
        fd = os.open(path, READ)
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode):
                raise StorageError(path, "this is not a regular file", remedy="Move it away.")
            return seen, os.pread(fd, size, max(0, seen.st_size - size))
        finally:
            os.close(fd)

    def read(self, file: OpenFile, size: int, offset: int) -> bytes:
        """At most ``size`` bytes from a place on; fewer only at the end of the file."""
        return os.pread(file.fd, size, offset)

    def write(self, file: OpenFile, data: bytes) -> int:
        """Write at the end of a file opened with :data:`APPEND`; how many bytes the kernel took."""
        return os.write(file.fd, data)

    def overwrite(self, file: OpenFile, data: bytes) -> int:
        """Write over the beginning of a file; how many bytes the kernel took."""
        return os.pwrite(file.fd, data, 0)

    def truncate(self, file: OpenFile, size: int) -> None:
        """Cut a file that holds no records."""
        os.ftruncate(file.fd, size)

    def fdatasync(self, file: OpenFile) -> None:
        """Return when the file's data is on the disk; takes milliseconds."""
        if sys.platform == "darwin":
            fcntl.fcntl(file.fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(file.fd)

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the disk; takes milliseconds."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, file: OpenFile) -> bool:
        """Take the file's lock if nobody has it; whether it was taken."""
        try:
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def probe(self, file: OpenFile) -> bool:
        """Whether somebody holds the file's lock."""
        try:
            fcntl.flock(file.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file.fd, fcntl.LOCK_UN)
        return False

    def unlock(self, file: OpenFile) -> None:
        """Give the file's lock back; does nothing after a fork, when it is the parent's."""
        if file.fd >= 0:
            fcntl.flock(file.fd, fcntl.LOCK_UN)

    def fstat(self, file: OpenFile) -> os.stat_result:
        """What the system knows of an open file."""
        return os.fstat(file.fd)

    def stat(self, path: str) -> os.stat_result:
        """``stat`` of the path itself, also where it is a link."""
        return os.lstat(path)

    def absolute(self, path: str | os.PathLike[str]) -> str:
        """The path from the root of the file system on, as text."""
        return os.path.abspath(path)

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder, or a link to one."""
        return os.path.isdir(path)

    def listdir(self, path: str) -> list[str]:
        """The names in a folder, in no order."""
        return os.listdir(path)

    def mkdir(self, path: str) -> None:
        """Make one folder, mode 0700."""
        os.mkdir(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        """Put one file in the place of another, in one step."""
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name; who has the file open keeps it."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove a folder that is empty."""
        os.rmdir(path)

    def chmod(self, path: str, mode: int) -> None:
        """Set the mode of a file or folder that can be opened, never through a link."""
        fd = os.open(path, os.O_RDONLY | _SAFE)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)

    def touch(self, path: str, ns: int) -> None:
        """Set the time of the last change, in nanoseconds, of the path itself."""
        os.utime(path, ns=(ns, ns), follow_symlinks=False)

    def pause(self, seconds: float) -> None:
        """Sleep without the event loop, for a few milliseconds at most."""
        time.sleep(seconds)

    def holder(self, path: str) -> str:
        """The process id of whoever locks a file, as text; empty where the system does not tell."""
        try:
            seen = os.stat(path)
            place = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
            with open("/proc/locks", encoding="ascii", errors="replace") as table:
                rows = [line.split() for line in table]
        except OSError:
            return ""
        held = [row for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == place]
        return next((row[4] for row in held if row[4].isdigit() and row[4] != "0"), "")

    def openers(self, path: str) -> list[str] | None:
        """The ids of the processes that have a removed file of this path open; None where that cannot be told."""
        gone = f"{path} (deleted)"
        found: list[str] = []
        try:
            for pid in (name for name in os.listdir("/proc") if name.isdigit()):
                try:
                    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
                except FileNotFoundError:
                    continue  # it ended, or closed the file
                if gone in links:
                    found.append(pid)
        except OSError:
            return None
        return found

    def kind(self, path: str) -> str:
        """The type of the file system that holds a path, such as ``ext4``; empty where the system does not tell."""
        try:
            seen = os.stat(path)
            place = f"{os.major(seen.st_dev)}:{os.minor(seen.st_dev)}"
            with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as table:
                rows = [line.split() for line in table]
        except OSError:
            return ""
        return next((row[row.index("-") + 1] for row in rows if row[2] == place and "-" in row), "")


def give_way() -> None:
    """Let another process have the processor, if one is ready to run."""
    os.sched_yield()


class Forgetful(Protocol):
    """Something that keeps descriptors, or knowledge of files, which a child process must not use."""

    def forget(self) -> None:
        """Drop all of it, unlocking nothing."""
        ...


_open_files: weakref.WeakSet[OpenFile] = weakref.WeakSet()
_keepers: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def forget_after_fork(keeper: Forgetful) -> None:
    """Call ``keeper.forget()`` in every child that this process forks."""
    _keepers.add(keeper)


def _after_fork() -> None:
    # A lock taken before the fork belongs to parent and child: to unlock it here would take it from the parent, and
    # to keep the descriptor would hold it after the parent's death.
    for file in tuple(_open_files):
        file.close()
    for keeper in tuple(_keepers):
        keeper.forget()


os.register_at_fork(after_in_child=_after_fork)

Mutex = threading.Lock
