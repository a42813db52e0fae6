"""Leases: a kernel lock on a file, held for as long as a ``with`` block lasts, or the process lives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..errors import LeaseHeldError, StorageError
from .keys import Root
from .system import CREATE, READ, WRITE, OpenFile, System, storage_error

T = TypeVar("T")
_TRIES = 4
_PAUSE = 0.001
_LONGEST_TEXT = 1_000


class FileLease:
    """The right that the lock of one file stands for. The file is never removed, and a log's is never written to."""

    def __init__(self, root: Root, key: str) -> None:
        self._root = root
        self._system: System = root.system
        self._key = key
        self._path = root.path_of(key)
        self._is_log = key.endswith(".jsonl")

    @contextmanager
    def hold(self, holder: str) -> Iterator[None]:
        """See :meth:`~pseudoclaude.storage.base.Lease.hold`."""
        file = self._guard(self._take)
        try:
            if not self._is_log:
                self._guard(lambda: self._sign(file, holder))
            yield
        finally:
            self._system.unlock(file)
            file.close()

    async def holder(self) -> str | None:
        """See :meth:`~pseudoclaude.storage.base.Lease.holder`."""
        return self._guard(self._holder)

    def _take(self) -> OpenFile:
        self._root.check(self._key)
        self._root.make_folder(os.path.dirname(self._path))
        for _ in range(_TRIES):
            file = self._system.open(self._path, WRITE | CREATE)
            # Somebody who asks who holds it has the lock for a moment.
            tries = _TRIES
            while not (taken := self._system.lock(file)) and tries:
                tries -= 1
                self._system.pause(_PAUSE)
            if not taken:
                raise LeaseHeldError(self._path, self._text(file))
            if self._is_present(file):
                return file
            file.close()
        raise StorageError(self._path, "removed again and again while it was taken")

    def _is_present(self, file: OpenFile) -> bool:
        try:
            return self._system.stat(self._path).st_ino == self._system.fstat(file).st_ino
        except FileNotFoundError:
            return False

    def _sign(self, file: OpenFile, holder: str) -> None:
        text = " ".join(holder.split())[:_LONGEST_TEXT].encode() + b"\n"
        self._system.overwrite(file, text)
        self._system.truncate(file, len(text))

    def _holder(self) -> str | None:
        try:
            file = self._system.open(self._path, READ)
        except FileNotFoundError:
            return None
        return self._text(file) if self._system.probe(file) else None

    def _text(self, file: OpenFile) -> str:
        written = "" if self._is_log else self._signature(file)
        if written:
            return written
        pid = self._system.holder(self._path)
        return f"process {pid}" if pid else ""

    def _signature(self, file: OpenFile) -> str:
        text = self._system.read(file, _LONGEST_TEXT * 4, 0).decode(errors="replace").partition("\n")[0]
        return "".join(character for character in text if character.isprintable())

    def _guard(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise storage_error(self._path, error) from error
