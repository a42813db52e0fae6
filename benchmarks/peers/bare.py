"""The limit: what the kernel takes for a lock and a write, and nothing else. No mailbox that anybody could use."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from typing import ClassVar

from pseudoclaude.mail import Message

from .base import Durability, Peer


class BareOs(Peer):
    """``flock``, one ``write``, unlock."""

    name = "limit: flock + write"
    durability: ClassVar[Durability] = "os"
    note = "flock, write of a ready line, unlock: no index, no id, no look at the end; take reads without decoding"
    sync: ClassVar[bool] = False

    async def open(self) -> None:
        path = self.folder / "bare.jsonl"
        self.file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        marks = self.folder / "marks.jsonl"
        self.marks = os.open(marks, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.lines: dict[str, bytes] = {}
        self.taken = os.fstat(self.file).st_size

    async def fill(self, messages: Iterable[Message]) -> None:
        for message in messages:
            os.write(self.file, message.to_json() + b"\n")
        self.taken = os.fstat(self.file).st_size

    def prepare(self, message: Message) -> None:
        """Have the line ready, so that only the kernel's part is timed."""
        self.lines[message.id] = message.to_json() + b"\n"

    async def append(self, message: Message) -> object:
        line = self.lines.pop(message.id)
        fcntl.flock(self.file, fcntl.LOCK_EX)
        os.write(self.file, line)
        fcntl.flock(self.file, fcntl.LOCK_UN)
        if self.sync:
            os.fdatasync(self.file)
        return None

    async def take(self, count: int) -> list[Message]:
        size = os.fstat(self.file).st_size
        os.pread(self.file, size - self.taken, self.taken)
        self.taken = size
        fcntl.flock(self.marks, fcntl.LOCK_EX)
        os.write(self.marks, b'{"through":%d}\n' % size)
        fcntl.flock(self.marks, fcntl.LOCK_UN)
        return []

    async def ids(self) -> list[str]:
        size = os.fstat(self.file).st_size
        lines = os.pread(self.file, size, 0).splitlines()
        return [Message.from_json(line).id for line in lines]

    def close(self) -> None:
        os.close(self.file)
        os.close(self.marks)


class BareDisk(BareOs):
    """The same, and ``fdatasync`` after the unlock."""

    name = "limit: write + fdatasync"
    durability = "disk"
    note = "the same, then fdatasync in the calling thread"
    sync = True
