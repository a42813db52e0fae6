"""Keys: relative paths of validated parts, and what they name below a root."""

from __future__ import annotations

import errno
import os
import stat

from ..errors import StorageError
from .system import System, storage_error

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


def parts_of(key: str) -> list[str]:
    """The parts of a key.

    :raises ValueError: when one is empty, starts with a dot, or holds a control character or a backslash.
    """
    parts = key.split("/")
    for part in parts:
        if not part or part[0] == "." or "\\" in part or not part.isprintable():
            raise ValueError(f"{key!r} is no key: {part!r} is empty, hidden or not printable")
    return parts


class Root:
    """The folder below which all keys lie."""

    def __init__(self, path: str, system: System) -> None:
        self.path = path
        self.system = system
        self._admitted = False

    def path_of(self, key: str) -> str:
        """The path that a key names."""
        parts_of(key)
        return os.path.join(self.path, key)

    def check(self, key: str) -> None:
        """Refuse a key with a link on its way, and a root whose file system has no dependable locks.

        :raises StorageError: for either.
        """
        path = self.path
        for part in key.split("/"):
            path = os.path.join(path, part)
            try:
                mode = self.system.stat(path).st_mode
            except FileNotFoundError:
                break
            except OSError as error:
                raise storage_error(path, error) from error
            if stat.S_ISLNK(mode):
                raise storage_error(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
        self._admit()

    def make_folder(self, folder: str) -> list[str]:
        """Make a folder and those above it that are missing; the folders whose names changed by that.

        :raises StorageError: when the disk refuses.
        """
        missing: list[str] = []
        path = folder
        while path and not self.system.is_folder(path):
            missing.append(path)
            path, last = os.path.dirname(path), path
            if path == last:
                break
        for path in reversed(missing):
            try:
                self.system.mkdir(path)
            except FileExistsError:
                if not self.system.is_folder(path):
                    raise storage_error(path, OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))) from None
            except OSError as error:
                raise storage_error(path, error) from error
        self._admit()
        return [os.path.dirname(path) for path in missing]

    def _admit(self) -> None:
        if self._admitted:
            return
        kind = self.system.kind(self.path)
        if kind in _NETWORK:
            raise StorageError(
                self.path,
                f"a network file system ({kind}) does not keep locks and appends dependably",
                remedy="Keep the root on a local disk (PSEUDOCLAUDE_HOME).",
            )
        self._admitted = self.system.is_folder(self.path)
