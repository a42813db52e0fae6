"""Intents on local files: one file each, locked by whoever works on it.

A draft (``<name>.tmp``) is locked before anything is written to it, and renamed to ``<name>.json``: that is the commit.
The lock goes with the inode, so whoever can take it knows that the owner is gone.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread

from ..errors import StorageError
from .base import Durability
from .keys import Root
from .lines import write_all
from .syncing import worker_limiter
from .system import APPEND, CREATE, READ, OpenFile, storage_error

T = TypeVar("T")
_COMMITTED = ".json"
_DRAFT = ".tmp"
_TRIES = 8


class FileIntent:
    """See :class:`~pseudoclaude.storage.base.Intent`. Its lock is held for as long as its descriptor is open."""

    def __init__(self, root: Root, file: OpenFile, name: str, path: str, value: Any) -> None:
        self.name = name
        self.value = value
        self._system = root.system
        self._file = file
        self._path = path

    async def finish(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Intent.finish`."""
        if self._file.fd < 0:
            return  # a forked child, whose parent works on it
        try:
            self._system.unlink(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(self._path, error) from error

    def release(self) -> None:
        """Let others take it, if it is still there."""
        self._file.close()


class FileIntents:
    """See :class:`~pseudoclaude.storage.base.Intents`."""

    def __init__(self, root: Root, name: str, durability: Durability) -> None:
        self._root = root
        self._system = root.system
        self._name = name
        self._folder = os.path.join(root.path, name)
        self._disk = durability == "disk"

    @asynccontextmanager
    async def begin(self, value: Any) -> AsyncIterator[FileIntent]:
        """See :meth:`~pseudoclaude.storage.base.Intents.begin`."""
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        commit = partial(self._guard, partial(self._commit, data, value))
        intent = await anyio.to_thread.run_sync(commit, limiter=worker_limiter()) if self._disk else commit()
        try:
            yield intent
        finally:
            intent.release()

    async def sweep(self) -> list[str]:
        """See :meth:`~pseudoclaude.storage.base.Intents.sweep`."""
        return self._guard(self._sweep)

    async def values(self) -> dict[str, Any]:
        """See :meth:`~pseudoclaude.storage.base.Intents.values`."""
        return self._guard(self._values)

    @asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[FileIntent | None]:
        """See :meth:`~pseudoclaude.storage.base.Intents.take`."""
        intent = self._guard(lambda: self._take(name))
        try:
            yield intent
        finally:
            if intent is not None:
                intent.release()

    def path_of(self, name: str) -> str:
        """The file of a committed intent."""
        return f"{self._folder}/{name}{_COMMITTED}"

    def _commit(self, data: bytes, value: Any) -> FileIntent:
        self._root.check(self._name)
        changed = self._root.make_folder(self._folder)
        for _ in range(_TRIES):
            name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
            draft, path = f"{self._folder}/{name}{_DRAFT}", self.path_of(name)
            file = self._system.open(draft, APPEND | CREATE)
            # Somebody may have taken the fresh draft for one that was left behind.
            if not self._system.lock(file) or not self._system.fstat(file).st_nlink:
                continue
            try:
                write_all(self._system, file, data)
                if self._disk:
                    self._system.fdatasync(file)
                self._system.rename(draft, path)
            except OSError:
                with suppress(OSError):
                    self._system.unlink(draft)
                raise
            if self._disk:
                self._sync(path, [*changed, self._folder])
            return FileIntent(self._root, file, name, path, value)
        raise StorageError(self._folder, "drafts are removed as fast as they are made")

    def _sync(self, path: str, folders: list[str]) -> None:
        try:
            for folder in folders:
                self._system.sync_folder(folder)
        except OSError:
            self._system.unlink(path)  # nobody else could have taken it yet
            raise

    def _sweep(self) -> list[str]:
        names: list[str] = []
        for entry in self._entries():
            if entry.endswith(_COMMITTED):
                names.append(entry.removesuffix(_COMMITTED))
            elif entry.endswith(_DRAFT):
                with suppress(StorageError, OSError):  # not one of ours, or committed meanwhile
                    remove_draft(self._root, f"{self._folder}/{entry}")
        return names

    def _values(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in (entry.removesuffix(_COMMITTED) for entry in self._entries() if entry.endswith(_COMMITTED)):
            try:
                found[name] = self._value(self._system.open(self.path_of(name), READ))
            except FileNotFoundError:
                continue
            except (StorageError, OSError):
                found[name] = None
        return found

    def _take(self, name: str) -> FileIntent | None:
        path = self.path_of(name)
        try:
            file = self._system.open(path, APPEND)
            if not self._system.lock(file) or not self._system.fstat(file).st_nlink:
                return None
        except FileNotFoundError:
            return None
        return FileIntent(self._root, file, name, path, self._value(file))

    def _value(self, file: OpenFile) -> Any:
        data = self._system.read(file, self._system.fstat(file).st_size, 0)
        try:
            return json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise StorageError(
                file.path, f"cannot be read as JSON: {error}", remedy="It is left as it is: move it away."
            ) from error

    def _entries(self) -> list[str]:
        try:
            if stat.S_ISLNK(self._system.stat(self._folder).st_mode):
                self._root.check(self._name)
            return sorted(self._system.listdir(self._folder))
        except FileNotFoundError:
            return []

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else self._folder
            raise storage_error(where, error) from error


def remove_draft(root: Root, path: str) -> bool:
    """Remove a file whose writer holds its lock while it writes; whether that writer was gone.

    :raises FileNotFoundError: when it has become what it was to be.
    """
    file = root.system.open(path, APPEND)
    if not root.system.lock(file):
        return False
    if root.system.stat(path).st_ino != root.system.fstat(file).st_ino:
        return False
    root.system.unlink(path)
    return True
