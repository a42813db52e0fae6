"""Our own store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import LogStore

from .base import Durability, Peer

READER = AgentId("reader")

_MARKED = 1_000
"""A mailbox with more unread mail than its owner would ever read refuses more."""


class OursOs(Peer):
    """``LogStore`` that answers when the operating system has the message."""

    name = "ours (os)"
    durability: ClassVar[Durability] = "os"
    note = "LogStore(durability='os'), otherwise its defaults; returns the index"

    async def open(self) -> None:
        self.store = LogStore(self.folder, durability=self.durability)
        await self.store.create(READER)

    async def fill(self, messages: Iterable[Message]) -> None:
        store = LogStore(self.folder, durability="os")
        for message in messages:
            index = await store.write(READER, message)
            if index % _MARKED == _MARKED - 1:
                await store.mark_read(READER, range(index + 1))
        await store.mark_read(READER, range(await store.end(READER)))

    async def append(self, message: Message) -> object:
        return await self.store.write(READER, message)

    async def take(self, count: int) -> list[Message]:
        unread = await self.store.read_unread(READER, limit=count)
        await self.store.mark_read(READER, [item.index for item in unread])
        return [item.message for item in unread]

    async def ids(self) -> list[str]:
        return [item.message.id for item in await self.store.read(READER)]


class OursDisk(OursOs):
    """``LogStore`` as it is by default."""

    name = "ours (disk)"
    durability = "disk"
    note = "LogStore with its defaults (fdatasync in a worker thread before the answer); returns the index"
