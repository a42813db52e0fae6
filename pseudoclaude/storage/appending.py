"""Appending to one file of lines, under whatever lock its owner took."""

from __future__ import annotations

from .lines import encode, read_tail, write_all
from .syncing import SyncedFile
from .system import OpenFile, System


class Appender:
    """One file of lines, and what is remembered of its end; trusted only while the size is the same."""

    __slots__ = ("_open_line", "_system", "file", "first", "inode", "next", "sealed", "size", "synced")

    def __init__(
        self, system: System, file: OpenFile, first: int, folder: str, before: SyncedFile | None = None
    ) -> None:
        self._system = system
        self.file = file
        self.first = first
        self.next = first
        self.sealed: int | None = None
        self.inode = 0
        self.size = -1
        self._open_line = False
        self.synced = SyncedFile(system, file, folder, before)

    def look(self) -> bool:
        """Bring what is remembered up to date, and adopt an open line that is a whole record.

        :return: False when the file was removed.
        """
        seen = self._system.fstat(self.file)
        if seen.st_size == self.size or seen.st_nlink == 0:
            return seen.st_nlink > 0
        tail = read_tail(self._system, self.file, self.first)
        if tail.whole:
            write_all(self._system, self.file, b"\n")
            tail = read_tail(self._system, self.file, self.first)
        self.inode, self.size, self.sealed, self._open_line = tail.inode, tail.size, tail.sealed, tail.open
        # What this process has seen acknowledged stays taken, even if somebody damaged it since.
        self.next = max(self.next, tail.next)
        return True

    def append(self, data: bytes) -> int:
        """Write a record, after :meth:`look`; its index."""
        index = self.next
        self._write(encode(index, data))
        self.next = index + 1
        return index

    def seal(self, following: int) -> None:
        """Write that the segment is full and which index follows it, after :meth:`look`."""
        self._write(b'{"sealed":%d}\n' % following)
        self.next = self.sealed = following

    def _write(self, line: bytes) -> None:
        if self._open_line:
            line = b"\n" + line
        size, self.size = self.size, -1
        write_all(self._system, self.file, line)
        self.size, self._open_line = size + len(line), False
