"""The archive of a log: ``archive/<segment>.jsonl.gz``, compressed copies of segments that are no longer there.

A copy is durable under its name before the segment is removed, so at every moment at least one of the two is there.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress

from ..errors import StorageError
from .intents import remove_draft
from .keys import Root
from .lines import write_all
from .system import APPEND, CREATE, READ, OpenFile, System

ARCHIVE = "archive"
ENDING = ".jsonl"
_PACKED = ENDING + ".gz"
_DRAFT = ".tmp"
_DIGITS = 12
_CHUNK = 1 << 20
_LEVEL = 6
_GZIP = 31
"""What zlib calls the format of ``gzip``."""


def segment_name(first: int) -> str:
    """The file name of a segment."""
    return f"{first:0{_DIGITS}d}{ENDING}"


def firsts_in(names: list[str], ending: str = ENDING) -> list[int]:
    """The first indices of the segments among the names of a folder, in order."""
    stems = (name.removesuffix(ending) for name in names if name.endswith(ending))
    return sorted(int(stem) for stem in stems if len(stem) >= _DIGITS and stem.isascii() and stem.isdigit())


class Archive:
    """The compressed segments of one log."""

    def __init__(self, system: System, path: str) -> None:
        """:param path: the folder of the log."""
        self._system = system
        self.path = f"{path}/{ARCHIVE}"

    def path_of(self, first: int) -> str:
        """The path of an archived segment."""
        return f"{self.path}/{segment_name(first)}.gz"

    def firsts(self) -> list[int]:
        """The first indices of what is archived, in order."""
        try:
            return firsts_in(self._system.listdir(self.path), _PACKED)
        except FileNotFoundError:
            return []

    def lines(self, first: int, offset: int) -> Iterator[tuple[int, bytes]]:
        """The whole lines of an archived segment, each with the offset that follows it, as in the segment itself.

        What cannot be unpacked any more is left out.

        :raises FileNotFoundError: when it is not in the archive.
        """
        at = offset
        for line in self._unpack(first)[offset:].split(b"\n")[:-1]:
            at += len(line) + 1
            yield at, line

    def add(self, root: Root, first: int, segment: OpenFile) -> None:
        """Make a durable copy of a segment that will not change any more; takes long, so in a worker thread."""
        system = self._system
        changed = root.make_folder(self.path)
        path = self.path_of(first)
        draft = path + _DRAFT
        with suppress(FileNotFoundError):
            remove_draft(root, draft)
        file = system.open(draft, APPEND | CREATE)
        if not system.lock(file) or system.fstat(file).st_size or not system.fstat(file).st_nlink:
            raise BlockingIOError(11, "somebody else archives this", path)
        try:
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
            write_all(system, file, packer.compress(_content(system, segment)) + packer.flush())
            system.fdatasync(file)
            system.rename(draft, path)
        except OSError:
            with suppress(OSError):
                system.unlink(draft)
            raise
        for folder in [*changed, self.path]:
            system.sync_folder(folder)

    def drafts(self) -> list[str]:
        """Copies that were begun: by somebody who is at it now, or was killed."""
        try:
            names = self._system.listdir(self.path)
        except FileNotFoundError:
            return []
        return [f"{self.path}/{name}" for name in sorted(names) if name.endswith(_DRAFT)]

    def is_whole(self, first: int) -> bool:
        """Whether all of an archived segment can be unpacked."""
        try:
            zlib.decompress(_content(self._system, self._system.open(self.path_of(first), READ)), _GZIP)
        except (OSError, zlib.error, StorageError):
            return False
        return True

    def _unpack(self, first: int) -> bytes:
        packed = _content(self._system, self._system.open(self.path_of(first), READ))
        unpacker = zlib.decompressobj(_GZIP)
        pieces: list[bytes] = []
        with suppress(zlib.error):
            for start in range(0, len(packed), 4_096):
                pieces.append(unpacker.decompress(packed[start : start + 4_096]))
        return b"".join(pieces)


def _content(system: System, file: OpenFile) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := system.read(file, _CHUNK, size):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)
