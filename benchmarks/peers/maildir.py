"""Maildir, with the class of the standard library."""

from __future__ import annotations

import mailbox
import os
from collections.abc import Iterable

from pseudoclaude.mail import Message

from .base import Peer


class Maildir(Peer):
    """One file a message, in ``new`` until it is read and in ``cur`` afterwards."""

    name = "Maildir"
    durability = "disk"
    note = "mailbox.Maildir.add (fsync of the file); take lists new, reads, renames to cur; returns the key"

    async def open(self) -> None:
        self.box = mailbox.Maildir(str(self.folder / "mail"), create=True)

    async def fill(self, messages: Iterable[Message]) -> None:
        for number, message in enumerate(messages):
            (self.folder / "mail" / "cur" / f"{number:012d}.0.here:2,S").write_bytes(message.to_json() + b"\n")

    async def append(self, message: Message) -> object:
        return self.box.add(message.to_json() + b"\n")

    async def take(self, count: int) -> list[Message]:
        new, cur = self.folder / "mail" / "new", self.folder / "mail" / "cur"
        names = sorted(os.listdir(new))[:count]
        messages = [Message.from_json((new / name).read_bytes().rstrip()) for name in names]
        for name in names:
            os.rename(new / name, cur / f"{name}:2,S")
        return messages

    async def ids(self) -> list[str]:
        files = [path for part in ("new", "cur") for path in (self.folder / "mail" / part).iterdir()]
        return [Message.from_json(path.read_bytes().rstrip()).id for path in files]
