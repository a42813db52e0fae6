"""Reading a log without a lock: its segments, where they end, and the records from an index on.

A log in one piece is a chain of one segment. Segments are only ever followed by way of a seal, or from a listing made
before the older one was read: then all that the older one will ever hold has been seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, pairwise

from ..errors import StorageError
from .appending import Appender
from .archives import Archive, firsts_in, segment_name
from .lines import Tail, claimed_index, head_of, is_json, lines_from, read_tail, seal_of
from .system import READ, OpenFile, System

LOCK = "lock"

Place = tuple[int, int]
"""A segment, named by its first index, and an offset in it."""


class Chain:
    """The files of one log, seen without a lock."""

    def __init__(
        self,
        system: System,
        path: str,
        *,
        folder: bool,
        gap: Callable[[str, int, int], None],
        opened: Callable[[], None],
    ) -> None:
        """:param gap: told the file and the indices where records are missing; ``opened``: called when one is kept."""
        self._system = system
        self._path = path
        self._folder = folder
        self._gap = gap
        self._opened = opened
        self._newest: int | None = None
        self._named = (-1, path)
        self._tail: Tail | None = None
        self._reading: tuple[int, OpenFile] | None = None
        self._reached: tuple[int, Place] | None = None
        self.passed: list[tuple[int, Place]] = []
        self.appender: Appender | None = None

    @property
    def newest(self) -> int | None:
        """The newest segment that is known of."""
        return self._newest

    def close(self) -> None:
        """Give up the descriptors; what was learned stays."""
        self._reading = None
        self.appender = None

    def forget(self) -> None:
        """Give up what was learned as well."""
        self.close()
        self._newest = self._tail = self._reached = None
        self.passed = []

    def path_of(self, first: int) -> str:
        """The path of a segment."""
        named = self._named
        if named[0] != first:
            named = self._named = (first, f"{self._path}/{segment_name(first)}" if self._folder else self._path)
        return named[1]

    @property
    def has_looked(self) -> bool:
        """Whether the end of the log was looked at before."""
        return self._tail is not None

    @property
    def archive(self) -> Archive:
        """Its archived segments."""
        return Archive(self._system, self._path)

    def firsts(self) -> list[int]:
        """The first indices of all segments that are not archived, in order.

        :raises FileNotFoundError: when the log was not created, or was removed.
        """
        if not self._folder:
            self._system.stat(self._path)
            return [0]
        names = self._system.listdir(self._path)
        if LOCK not in names:
            raise FileNotFoundError(2, "no such log", self._path)
        return firsts_in(names)

    def firsts_from(self, first: int) -> list[int]:
        """The first indices of the segments, in order; the archived ones, too, where ``first`` lies before the others.

        :raises FileNotFoundError: when the log was not created, or was removed.
        """
        # What moves into the archive between the two listings is in the second.
        firsts = self.firsts()
        if not self._folder or (firsts and first >= firsts[0]):
            return firsts
        return sorted({*firsts, *self.archive.firsts()})

    def assume(self, first: int) -> None:
        """Take a segment for the newest, while nothing better is known; a seal in it leads on."""
        if self._newest is None:
            self._newest = first

    def seen(self) -> tuple[int, int]:
        """Inode and size of the newest segment, from one ``stat``."""
        if self._newest is not None and (self._tail is None or self._tail.sealed is None):
            try:
                seen = self._system.stat(self.path_of(self._newest))
            except FileNotFoundError:
                self.forget()
            else:
                return seen.st_ino, seen.st_size
        tail = self.look()
        return tail.inode, tail.size

    def look(self) -> Tail:
        """How the log ends now; costs one ``stat`` if nothing was appended since the last look.

        :raises FileNotFoundError: when the log was not created, or was removed.
        """
        for _ in range(1_000):
            if self._newest is None:
                firsts = self.firsts()
                if not firsts:
                    return Tail(0, 0, 0)
                self._newest = firsts[-1]
            first = self._newest
            try:
                tail = self._tail_of(first)
            except FileNotFoundError:
                self.forget()
                continue
            if tail.sealed is None or (newer := max(self.firsts(), default=first)) <= first:
                return tail
            self._newest, self._tail = newer, None
        raise StorageError(self._path, "its segments come and go faster than they can be read")

    def place_of(self, index: int, hint: Place | None = None, *, looked: bool = False) -> Place | None:
        """A place from which the record of this index is found: at it, or before it. None in an empty log.

        :param looked: :meth:`look` was called just before.
        """
        if not looked:
            self.look()
        if self._newest is None:
            return None
        best = self.place_before(index)
        if hint is not None and hint > best and hint[0] <= index and self._is_line_start(hint):
            best = hint
        if best[0] != self._newest:
            firsts = self.firsts_from(index)
            start = firsts[max(0, bisect_right(firsts, index) - 1)] if firsts else self._newest
            best = max(best, (start, 0))
        return best

    def place_before(self, index: int) -> Place:
        """The furthest place known of that is not behind the record of this index."""
        places = [(0, 0)]
        if self._reached is not None and self._reached[0] <= index:
            places.append(self._reached[1])
        if known := bisect_right(self.passed, (index, (1 << 62, 0))):
            places.append(self.passed[known - 1][1])
        return max(places)

    def end_if(self, index: int) -> Place:
        """The end of the log as it was last seen, if this is the index that follows it; else its beginning."""
        tail = self._tail
        if tail is None or self._newest is None or tail.next != index or tail.open or tail.sealed is not None:
            return (0, 0)
        return (self._newest, tail.size)

    def is_far(self, place: Place, limit: int) -> bool:
        """Whether more than ``limit`` bytes lie between a place and the end of the log."""
        return place[0] != self._newest or self._tail is None or self._tail.size - place[1] > limit

    def walk(self, place: Place, expected: int, *, parse: bool = True) -> Iterator[tuple[int, bytes, Place]]:
        """Records with an index of at least ``expected``: index, line, and the place behind it.

        :param parse: whether to look for damage inside of records; else it is left to whoever decodes them.
        """
        first, offset = place
        while True:
            listed = self.firsts_from(first) if first != self._newest else []
            sealed: int | None = None
            lines = chain(self._lines(first, offset), [(0, b"")])
            for (after, line), (_, following_line) in pairwise(lines):
                claimed = claimed_index(line)
                if claimed is None:
                    sealed = seal if (seal := seal_of(line)) is not None else sealed
                elif (
                    claimed >= expected
                    and line[-1:] == b"}"
                    # Only what was found whole is ever followed by its successor, so that is not torn.
                    and ((not parse and following_line.startswith(head_of(claimed + 1))) or is_json(line))
                ):
                    self._skip(first, expected, claimed)
                    expected = claimed + 1
                    if self._reached is None or expected > self._reached[0]:
                        self._reached = (expected, (first, after))
                    yield claimed, line, (first, after)
            if sealed is not None:
                listed = self.firsts_from(first)
                self._skip(first, expected, sealed)
                expected = max(expected, sealed)
            following = next((other for other in listed if other > first), None)
            if following is None:
                return
            self._skip(first, expected, following)
            expected = max(expected, following)
            first, offset = following, 0
            if self._newest is None or first > self._newest:
                self._newest, self._tail = first, None

    def bytes_from(self, place: Place) -> int:
        """How many bytes of the segments lie behind a place, after :meth:`look`."""
        if place[0] == self._newest:
            return self._tail.size - place[1] if self._tail else 0
        total = 0
        for first in self.firsts():
            if first >= place[0]:
                with suppress(FileNotFoundError):
                    total += self._system.stat(self.path_of(first)).st_size
        return total - place[1]

    def _lines(self, first: int, offset: int) -> Iterator[tuple[int, bytes]]:
        """The lines of a segment, wherever it is; none if it is gone."""
        if (file := self._open(first)) is not None:
            return lines_from(self._system, file, offset)
        if self._folder:
            with suppress(FileNotFoundError):
                # A copy is in the archive before a segment is removed, so one look there is enough.
                return iter(list(self.archive.lines(first, offset)))
        return iter(())

    def _skip(self, first: int, expected: int, found: int) -> None:
        if found > expected:
            self._gap(self.path_of(first), expected, found)

    def _tail_of(self, first: int) -> Tail:
        seen = self._system.stat(self.path_of(first))
        tail, own = self._tail, self.appender
        if tail is not None and tail.size == seen.st_size and tail.inode == seen.st_ino:
            return tail
        if tail is not None and tail.inode != seen.st_ino:  # made anew: no place in it is known
            self._reached, self.passed = None, []
        if own is not None and own.size == seen.st_size and own.inode == seen.st_ino and own.first == first:
            tail = Tail(own.inode, own.size, own.next, own.sealed)
        else:
            file = self._open(first)
            if file is None:
                raise FileNotFoundError(2, "no such segment", self.path_of(first))
            tail = read_tail(self._system, file, first)
        self._tail = tail
        return tail

    def _is_line_start(self, place: Place) -> bool:
        first, offset = place
        file = self._open(first)
        return file is not None and (offset == 0 or self._system.read(file, 1, offset - 1) == b"\n")

    def _open(self, first: int) -> OpenFile | None:
        path = self.path_of(first)
        try:
            if self._reading is not None and self._reading[0] == first:
                file = self._reading[1]
                if file.fd >= 0 and self._system.fstat(file).st_ino == self._system.stat(path).st_ino:
                    return file
                self.forget()
                self._newest = first
            file = self._system.open(path, READ)
        except FileNotFoundError:
            return None
        if first == self._newest:
            self._reading = (first, file)
            self._opened()
        return file
