"""The package litequeue: a queue in SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pseudoclaude.mail import Message

from .base import Peer


class LiteQueue(Peer):
    """A queue whose messages are popped one by one, then declared done."""

    name = "litequeue"
    durability = "os"
    note = "its defaults (WAL, NORMAL), busy timeout 60 s; take is pop, then done; returns its own id"
    distribution = "litequeue"
    module = "litequeue"

    async def open(self) -> None:
        self.queue = self.library().LiteQueue(self.folder / "queue.db", timeout=60)

    async def fill(self, messages: Iterable[Message]) -> None:
        done = self.library().MessageStatus.DONE.value
        insert = (
            f"INSERT INTO {self.queue.table} (data, message_id, status, in_time, lock_time, done_time) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        now = time.time_ns()
        with self.queue.transaction():
            for message in messages:
                uuid = self.library().uuid7()
                self.queue.conn.execute(insert, (message.to_json().decode(), uuid, done, now, now, now))

    async def append(self, message: Message) -> object:
        return self.queue.put(message.to_json().decode()).message_id

    async def take(self, count: int) -> list[Message]:
        taken = []
        for _ in range(count):
            if (item := self.queue.pop()) is None:
                break
            taken.append(item)
        messages = [Message.from_json(item.data.encode()) for item in taken]
        for item in taken:
            self.queue.done(item.message_id)
        return messages

    async def ids(self) -> list[str]:
        rows = self.queue.conn.execute(f"SELECT data FROM {self.queue.table}")
        return [Message.from_json(row[0].encode()).id for row in rows]

    def close(self) -> None:
        self.queue.close()
