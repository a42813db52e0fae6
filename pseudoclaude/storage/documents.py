"""Documents on local files: read whole, replaced whole, under a lock between processes."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from ..errors import ConflictError, StorageError
from .base import Versioned
from .keys import Root
from .lines import write_all
from .syncing import worker_limiter
from .system import APPEND, CREATE, EMPTY, READ, System, storage_error

T = TypeVar("T")
_INLINE = 64 << 10
_POLL = 0.005


def encode_json(value: Any) -> bytes:
    """A JSON value as people like to read it.

    :raises TypeError, ValueError: when it is none.
    """
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def version_of(data: bytes) -> str:
    """What identifies this content of a document."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class FileDocument:
    """One JSON file. A reader sees the old or the new one, never a mixture."""

    def __init__(self, root: Root, key: str, *, lock_wait: float) -> None:
        self._root = root
        self._system: System = root.system
        self._key = key
        self._path = root.path_of(key)
        self._folder, self._name = os.path.split(self._path)
        self._lock_wait = lock_wait

    async def read(self) -> Versioned | None:
        """See :meth:`~pseudoclaude.storage.base.Document.read`."""
        size = self._guard(self._size)
        data = await self._thread(self._content) if size > _INLINE else self._guard(self._content)
        if data is None:
            return None
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise StorageError(
                self._path,
                f"cannot be read as JSON: {error}",
                remedy="It is left as it is: repair it, or put an older copy in its place.",
            ) from error
        return Versioned(value, version_of(data))

    async def replace(self, value: Any, *, expected: str | None) -> str:
        """See :meth:`~pseudoclaude.storage.base.Document.replace`."""
        data = encode_json(value)
        await self._thread(lambda: self._replace(data, expected))
        return version_of(data)

    async def put(self, value: Any) -> None:
        """See :meth:`~pseudoclaude.storage.base.Document.put`."""
        data = encode_json(value)
        await self._thread(lambda: self._put(data))

    def _size(self) -> int:
        try:
            return self._system.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def _content(self) -> bytes | None:
        try:
            file = self._system.open(self._path, READ)
        except FileNotFoundError:
            return None
        pieces: list[bytes] = []
        size = 0
        while piece := self._system.read(file, 1 << 20, size):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)

    def _replace(self, data: bytes, expected: str | None) -> None:
        from filelock import FileLock, Timeout  # slow to import, and those who only read do not need it

        self._root.check(self._key)
        changed = self._root.make_folder(self._folder)
        lock = FileLock(
            os.path.join(self._folder, f".{self._name}.lock"),
            timeout=self._lock_wait,
            mode=0o600,
            poll_interval=_POLL,
            fallback_to_soft=False,
            thread_local=False,
        )
        try:
            with lock:
                present = self._content()
                if (None if present is None else version_of(present)) != expected:
                    raise ConflictError(self._path)
                draft = os.path.join(self._folder, f".{self._name}.tmp")
                self._draft(draft, data, synced=True)
                self._system.rename(draft, self._path)
                for folder in dict.fromkeys([*changed, self._folder]):
                    self._system.sync_folder(folder)
        except Timeout as error:
            raise StorageError(
                self._path,
                f"locked by another process for more than {self._lock_wait:g} s",
                remedy="A stopped process keeps its locks: continue it or end it, then try again.",
            ) from error

    def _put(self, data: bytes) -> None:
        self._root.check(self._key)
        self._root.make_folder(self._folder)
        draft = os.path.join(self._folder, f".{self._name}.{os.getpid()}-{threading.get_ident()}.tmp")
        self._draft(draft, data, synced=False)
        self._system.rename(draft, self._path)

    def _draft(self, path: str, data: bytes, *, synced: bool) -> None:
        file = self._system.open(path, APPEND | CREATE | EMPTY)
        try:
            write_all(self._system, file, data)
            if synced:
                self._system.fdatasync(file)
        except OSError:
            with suppress(OSError):
                self._system.unlink(path)
            raise

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise storage_error(self._path, error) from error

    async def _thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(self._guard, work, limiter=worker_limiter())
