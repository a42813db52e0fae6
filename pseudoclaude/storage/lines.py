"""One file of JSON lines: what a line is, where the last one ends, and how the next is appended.

A line counts only with its newline and if it parses. What stands behind the last newline was left by a writer that
died; the next one adopts it if it is whole, and closes it otherwise. Nothing is ever truncated: a reader without a
lock would join what it read before with what was written after.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from .system import OpenFile, System

_HEAD = re.compile(rb'\{"i":(0|[1-9][0-9]{0,17}),')
_BEGINNING = re.compile(rb'\{\s*"')
_SEAL = re.compile(rb'\{"sealed":(0|[1-9][0-9]{0,17})\}')
_FIRST_LOOK = 4 << 10
_CHUNK = 64 << 10


def check_record(data: bytes) -> None:
    """Refuse what would not be one line with one JSON object in it.

    :raises ValueError: for anything else.
    """
    if data[-1:] != b"}" or b"\n" in data or not _BEGINNING.match(data):
        raise ValueError(f"a record is one line with one JSON object of at least one key, not {data[:60]!r}")


def head_of(index: int) -> bytes:
    """What the line of a record begins with."""
    return b'{"i":%d,' % index


def encode(index: int, data: bytes) -> bytes:
    """The line of a record, with its newline."""
    return b'{"i":%d,%b\n' % (index, data[1:])


def is_json(line: bytes) -> bool:
    """Whether a line is JSON in UTF-8."""
    # Where messages are decoded, pydantic's parser is loaded: several times faster than the other, and slow to import.
    # It refuses some that the other takes, such as halves of surrogate pairs.
    if fast := getattr(sys.modules.get("pydantic_core"), "from_json", None):
        with suppress(ValueError):
            fast(line)
            return True
    try:
        json.loads(str(line, "utf-8"))
    except (ValueError, RecursionError):
        return False
    return True


def claimed_index(line: bytes) -> int | None:
    """The index that a line begins with; the rest of it may be torn."""
    head = _HEAD.match(line)
    return int(head[1]) if head else None


def index_of(line: bytes) -> int | None:
    """The index of the record in a line; None if it is no record."""
    index = claimed_index(line)
    return index if index is not None and line[-1:] == b"}" and is_json(line) else None


def data_of(line: bytes) -> bytes:
    """The record in a line that holds one, as it was given to ``append``."""
    return b"{" + line[line.index(b",") + 1 :]


def seal_of(line: bytes) -> int | None:
    """The index that follows a sealed segment; None if the line is no seal."""
    seal = _SEAL.fullmatch(line)
    return int(seal[1]) if seal else None


@dataclass(frozen=True, slots=True)
class Tail:
    """How a file ended when it was looked at: the next index, the seal, and whether the last line is open."""

    inode: int
    size: int
    next: int
    sealed: int | None = None
    open: bool = False
    whole: bool = False
    """The open line is a record or a seal that lacks only its newline."""


def read_tail(system: System, file: OpenFile, first: int) -> Tail:
    """Look at the end of a file, reading back to the last line that counts; ``first`` is the index it starts with."""
    seen = system.fstat(file)
    start, data, step = seen.st_size, b"", _FIRST_LOOK
    while True:
        cut = max(0, start - step)
        piece = system.read(file, start - cut, cut)
        data, start, step = piece + data, cut, step * 2
        end = data.rfind(b"\n")
        rest = data[end + 1 :]
        while end >= 0:
            newline = data.rfind(b"\n", 0, end)
            if newline < 0 and start:
                break  # the line may begin before what was read
            line = data[newline + 1 : end]
            if (index := index_of(line)) is not None:
                return _tail(seen.st_ino, seen.st_size, max(first, index + 1), None, rest)
            if (sealed := seal_of(line)) is not None and sealed > first:
                return _tail(seen.st_ino, seen.st_size, sealed, sealed, rest)
            end = newline
        if not start:
            return _tail(seen.st_ino, seen.st_size, first, None, rest)


def _tail(inode: int, size: int, following: int, sealed: int | None, rest: bytes) -> Tail:
    whole = False
    if rest:
        index, seal = index_of(rest), seal_of(rest)
        whole = (index is not None and index >= following) or (seal is not None and seal >= following > 0)
    return Tail(inode, size, following, sealed, bool(rest), whole)


def write_all(system: System, file: OpenFile, data: bytes) -> None:
    """Write at the end of a file, going on after a short write until it is done or the true error comes."""
    try:
        while (taken := system.write(file, data)) != len(data):
            data = data[taken:]
    except OSError as error:
        error.filename = error.filename or file.path
        raise


def lines_from(system: System, file: OpenFile, offset: int) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file from a place on, each with the offset that follows it."""
    rest = b""
    size = system.fstat(file).st_size
    while offset < size:
        piece = system.read(file, min(_CHUNK, size - offset), offset)
        if not piece:
            return
        offset += len(piece)
        if b"\n" not in piece:
            rest += piece
            continue
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        at = offset - len(rest) - sum(map(len, lines)) - len(lines)
        for line in lines:
            at += len(line) + 1
            yield at, line
