"""One mailbox file on the disk: read whole, replaced whole, copied aside when it is damaged."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass

from ...errors import StorageError
from ...storage.lines import write_all
from ...storage.system import APPEND, NEW, READ, System, storage_error
from .dialect import Dialect
from .locks import Hold

_JUST_NOW = 0.05
"""Seconds: a clock of a file system ticks at least this often, so an older file that changes gets another time."""

_NAMES_TRIED = 8


class LockLostError(Exception):
    """Raised when somebody took our lock away before anything was written."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what one sees, without reading it, that a file is the same as before."""

    inode: int
    size: int
    changed: int
    settled: bool = False
    """It was unchanged for long enough when it was looked at that any later change shows."""


class MailboxFile:
    """A mailbox file. A symbolic link is refused: two programs would lock it under two names."""

    def __init__(self, system: System, folder: str, name: str, dialect: Dialect, *, durable: bool) -> None:
        # UTF-8 in the file system whatever the locale, as the other programs have it.
        self._name = os.fsdecode(name.encode())
        self.path = os.path.join(folder, self._name)
        self.folder = folder
        self._system = system
        self._dialect = dialect
        self._durable = durable

    def stamp(self) -> Stamp | None:
        """Whether it changed; None when there is no file.

        :raises StorageError: when the folder is missing or the disk refuses.
        """
        try:
            found = self._system.stat(self.path)
        except FileNotFoundError:
            self._expect_folder()
            return None
        except OSError as error:
            raise storage_error(self.path, error) from error
        if stat.S_ISLNK(found.st_mode):
            raise StorageError(
                self.path,
                "a symbolic link in the place of a mailbox, which two programs would lock under two names",
                remedy="Use the folder that it points into, or put the file itself in its place.",
            )
        return _stamp(found)

    def read(self) -> tuple[bytes, Stamp] | None:
        """Its bytes, and its stamp from before they were read; None when there is no file."""
        if self.stamp() is None:
            return None
        try:
            file = self._system.open(self.path, READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(self.path, error) from error
        try:
            found = _stamp(self._system.fstat(file))
            pieces: list[bytes] = []
            size = 0
            while piece := self._system.read(file, 1 << 20, size):
                pieces.append(piece)
                size += len(piece)
            return b"".join(pieces), found
        except OSError as error:
            raise storage_error(self.path, error) from error
        finally:
            file.close()

    def has_folder(self) -> bool:
        """Whether the folder of the mailboxes is there."""
        return self._system.is_folder(self.folder)

    def make_folder(self) -> None:
        """Make the folder of the mailboxes, as the other program does before it writes; not those above it."""
        try:
            self._system.mkdir(self.folder)
        except FileExistsError:
            if not self._system.is_folder(self.folder):
                raise storage_error(self.folder, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))) from None
        except OSError as error:
            raise storage_error(self.folder, error) from error

    def replace(self, data: bytes, hold: Hold) -> None:
        """Put other bytes in its place in one step, with the mode it has.

        :raises LockLostError: when the lock was taken away; nothing was written.
        :raises StorageError: when the disk refuses; the file is as it was.
        """
        try:
            mode = stat.S_IMODE(self._system.stat(self.path).st_mode)
        except FileNotFoundError:
            mode = None
        temporary = self._temporary(data, mode)
        try:
            if not hold.is_ours():
                raise LockLostError(self.path)
            self._system.rename(temporary, self.path)
        except BaseException as error:
            with suppress(OSError):
                self._system.unlink(temporary)
            if isinstance(error, OSError):
                raise storage_error(self.path, error) from error
            raise

    def sync_name(self) -> None:
        """Return when the name in the folder is on the disk, where that was asked for."""
        if self._durable:
            try:
                self._system.sync_folder(self.folder)
            except OSError as error:
                raise storage_error(self.folder, error) from error

    def sweep(self) -> None:
        """Remove what writers of this file left who died in the middle; called before their lock is taken away.

        One that is not dead then fails instead of writing over what others write meanwhile.
        """
        start, end = self._dialect.temporary(self._name, "*").split("*")
        with suppress(OSError):
            for name in self._system.listdir(self.folder):
                token = name.removeprefix(start).removesuffix(end)
                if name != start + token + end or len(token) != 8 or not set(token) <= set("0123456789abcdef"):
                    continue
                path = os.path.join(self.folder, name)
                if stat.S_ISREG(self._system.stat(path).st_mode):
                    self._system.unlink(path)

    def copy_aside(self, data: bytes) -> str:
        """Keep one copy of damaged bytes beside the file, whoever finds them; its path, or empty if that failed."""
        digest = hashlib.sha256(data).hexdigest()[:12]
        path = os.path.join(self.folder, f".{self._name}.damaged-{digest}")
        try:
            self._put(path, data, None)
        except FileExistsError:
            return path
        except (OSError, StorageError):
            return ""
        return path

    def _expect_folder(self) -> None:
        if not self._system.is_folder(self.folder):
            raise storage_error(self.folder, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))

    def _temporary(self, data: bytes, mode: int | None) -> str:
        for _ in range(_NAMES_TRIED):
            path = os.path.join(self.folder, self._dialect.temporary(self._name, secrets.token_hex(4)))
            try:
                self._put(path, data, mode)
            except FileExistsError:
                continue
            return path
        raise storage_error(path, FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)))

    def _put(self, path: str, data: bytes, mode: int | None) -> None:
        """Make a file that is not there yet.

        :raises FileExistsError: when something is there, also a link that leads nowhere.
        """
        try:
            file = self._system.open(path, APPEND | NEW)
        except FileExistsError:
            raise
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            if mode is not None:
                self._system.chmod(path, mode)
            write_all(self._system, file, data)
            if self._durable:
                self._system.fdatasync(file)
        except BaseException as error:
            with suppress(OSError):
                self._system.unlink(path)
            if isinstance(error, OSError):
                raise storage_error(self.path, error) from error
            raise
        finally:
            file.close()


def _stamp(found: os.stat_result) -> Stamp:
    settled = time.time() - found.st_mtime > _JUST_NOW
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, settled)
