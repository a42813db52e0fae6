"""The package diskcache: a cache in SQLite, whose push and pull make a queue."""

from __future__ import annotations

from collections.abc import Iterable

from pseudoclaude.mail import Message

from .base import Peer


class DiskCache(Peer):
    """A queue that forgets what was pulled."""

    name = "diskcache"
    durability = "os"
    note = "Cache.push, pull; its defaults (WAL, NORMAL), no size limit; pull deletes, so that N wait; returns the key"
    distribution = "diskcache"
    module = "diskcache"

    async def open(self) -> None:
        self.cache = self.library().Cache(str(self.folder), timeout=60, eviction_policy="none", size_limit=1 << 40)

    async def fill(self, messages: Iterable[Message]) -> None:
        with self.cache.transact():
            for message in messages:
                self.cache.push(message.to_json())

    async def append(self, message: Message) -> object:
        return self.cache.push(message.to_json())

    async def take(self, count: int) -> list[Message]:
        messages: list[Message] = []
        for _ in range(count):
            key, data = self.cache.pull()
            if key is None:
                break
            messages.append(Message.from_json(data))
        return messages

    async def ids(self) -> list[str]:
        return [Message.from_json(self.cache[key]).id for key in self.cache]

    def close(self) -> None:
        self.cache.close()
