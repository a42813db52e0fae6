"""Which records of a log are marked: a value (:class:`Marks`) and its file, where each line is the whole of it."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .lines import write_all
from .system import APPEND, CREATE, EMPTY, READ, OpenFile, System

_COMPACT_AT = 64 << 10
_LAST_LINE = 256
_START = b'{"through":'
_PLAIN = re.compile(rb'\{"through":(\d{1,18}),"also":\[\],"at":\[(\d{1,18}),(\d{1,18})\]\}')

Range = tuple[int, int]
"""Indices from the first up to, and without, the second."""


def ranges_of(indices: Iterable[int]) -> list[Range]:
    """Sorted, separate ranges that hold exactly these indices."""
    return merged((index, index + 1) for index in indices)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The union of ranges: sorted, separate, not touching."""
    result: list[Range] = []
    for start, end in sorted(ranges):
        if result and start <= result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        else:
            result.append((start, end))
    return result


@dataclass(frozen=True, slots=True)
class Marks:
    """All below ``through`` are marked, and those in ``also``.

    ``at`` names a segment and an offset from which the record ``through`` is found; a hint, never behind it.
    """

    through: int = 0
    also: tuple[Range, ...] = ()
    at: tuple[int, int] = (0, 0)

    def __contains__(self, index: int) -> bool:
        if index < self.through:
            return True
        place = bisect_right(self.also, (index, 1 << 62)) - 1
        return place >= 0 and index < self.also[place][1]

    @property
    def bound(self) -> int:
        """The index behind the last marked one."""
        return self.also[-1][1] if self.also else self.through

    def with_ranges(self, ranges: Iterable[Range]) -> Marks:
        """The union with more marks; the hint stays."""
        union = merged([(0, self.through), *self.also, *ranges])
        through = union[0][1]
        return Marks(through, tuple(union[1:]), self.at)

    def encode(self) -> bytes:
        """One line, with its newline."""
        also = ",".join(f"[{start},{end}]" for start, end in self.also)
        return f'{{"through":{self.through},"also":[{also}],"at":[{self.at[0]},{self.at[1]}]}}\n'.encode()

    @classmethod
    def decode(cls, line: bytes) -> Marks | None:
        """The marks in a line; None if it holds none."""
        if plain := _PLAIN.fullmatch(line):
            through, first, offset = map(int, plain.groups())
            return cls(through, (), (first, offset))
        try:
            value = json.loads(line)
            through, also = int(value["through"]), [(int(start), int(end)) for start, end in value["also"]]
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        try:
            first, offset = value["at"]
            at = (max(0, int(first)), max(0, int(offset)))
        except (ValueError, TypeError, KeyError):
            at = (0, 0)
        if through < 0 or any(start >= end for start, end in also):
            return None
        return cls(at=at).with_ranges([(0, through), *also]) if also else cls(through, (), at)


class MarksFile:
    """``read.jsonl``: the last whole line counts. Written under the lock of the log; never needs a sync."""

    def __init__(self, system: System, path: str) -> None:
        self._system = system
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._marks = Marks()
        self._open_line = False
        self._file: OpenFile | None = None
        self.damaged = False
        """No line of the file could be read, so that all of the log counts as unmarked."""

    def close(self) -> None:
        """Give up the descriptor; the next write opens it again."""
        self._file = None

    def version(self) -> tuple[int, int, int]:
        """What changes with every change of the file, from one ``stat``."""
        try:
            seen = self._system.stat(self.path)
        except FileNotFoundError:
            return (0, 0, 0)
        return _version_of(seen)

    @property
    def seen(self) -> tuple[int, int, int] | None:
        """The :meth:`version` that :meth:`read` answered last."""
        return self._seen

    def read(self) -> Marks:
        """The marks of this moment; the file is read only when it changed."""
        if self._seen is None or self.version() != self._seen:
            try:
                self._load()
            except FileNotFoundError:
                self._seen, self._marks, self._open_line = (0, 0, 0), Marks(), False
        return self._marks

    def _load(self) -> None:
        seen, end = self._system.glance(self.path, _LAST_LINE)
        start = end.rfind(b"\n", 0, -1) + 1
        whole = end[-1:] == b"\n" and (start > 0 or len(end) == seen.st_size)
        marks, self._open_line, self.damaged = Marks.decode(end[start:-1]) if whole else None, False, False
        if marks is None:
            file = self._system.open(self.path, READ)
            seen = self._system.fstat(file)
            marks, self._open_line, self.damaged = self._last(file, seen.st_size)
        self._marks, self._seen = marks or Marks(), _version_of(seen)
        if self._file is not None and self._system.fstat(self._file).st_ino != seen.st_ino:
            self._file = None

    def write(self, marks: Marks) -> bool:
        """Append new marks, under the lock and after :meth:`read`; whether the file has become long."""
        line = marks.encode()
        if self._file is None:
            self._file = self._system.open(self.path, APPEND | CREATE)
        prefix, self._seen = (b"\n" if self._open_line else b""), None
        write_all(self._system, self._file, prefix + line)
        self._marks, self._open_line, self._seen = marks, False, _version_of(self._system.fstat(self._file))
        return self._seen[1] > _COMPACT_AT

    def compact(self) -> None:
        """Replace the file by its last line, under the lock and in a worker thread."""
        marks = self.read()
        if self.version()[1] <= _COMPACT_AT or self.damaged:
            return
        folder, _, name = self.path.rpartition("/")
        draft = f"{folder}/.{name}.tmp"
        file = self._system.open(draft, APPEND | CREATE | EMPTY)
        write_all(self._system, file, marks.encode())
        self._system.fdatasync(file)
        self._system.rename(draft, self.path)
        self._file, self._seen = None, None

    def _last(self, file: OpenFile, size: int) -> tuple[Marks | None, bool, bool]:
        """The marks of the last whole line, whether another is open behind it, and whether the file is damaged."""
        open_line = damaged = False
        for number, line in enumerate(_lines_backwards(self._system, file, size)):
            if number == 0:
                open_line = bool(line)
            elif (marks := Marks.decode(line)) is not None:
                return marks, open_line, False
            # A writer that was killed leaves the beginning of a line; that is no damage.
            damaged = damaged or line[: len(_START)] != _START[: len(line)]
        return None, open_line, damaged


def _version_of(seen: os.stat_result) -> tuple[int, int, int]:
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns)


def _lines_backwards(system: System, file: OpenFile, size: int) -> Iterator[bytes]:
    """What stands behind the last newline, then the lines before it, the last one first."""
    start, step, rest = size, 4 << 10, b""
    while start:
        cut = max(0, start - step)
        lines = (system.read(file, start - cut, cut) + rest).split(b"\n")
        rest = lines[0]
        yield from reversed(lines[1:])
        start = cut
    yield rest
