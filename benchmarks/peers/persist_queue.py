"""The package persist-queue: its queue with acknowledgements, in SQLite."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable

from pseudoclaude.mail import Message

from .base import Peer


class PersistQueue(Peer):
    """``SQLiteAckQueue``: a message that was got and not acknowledged comes again."""

    name = "persist-queue"
    durability = "disk"
    note = (
        "SQLiteAckQueue; its defaults (WAL, FULL), busy timeout 60 s; take is get, then ack; returns the row id; "
        "left out above 10,000, where a take takes seconds"
    )
    distribution = "persist-queue"
    module = "persistqueue"
    most = 10_000

    async def open(self) -> None:
        self.queue = self.library().SQLiteAckQueue(str(self.folder), multithreading=False, timeout=60)

    async def fill(self, messages: Iterable[Message]) -> None:
        acked = self.library().AckStatus.acked
        table, db, now = self.queue._table_name, self.queue._putter, time.time()
        rows = ((pickle.dumps(m.to_json()), now, acked) for m in messages)
        with db:
            db.executemany(f"INSERT INTO {table} (data, timestamp, status) VALUES (?, ?, ?)", rows)

    async def append(self, message: Message) -> object:
        return self.queue.put(message.to_json())

    async def take(self, count: int) -> list[Message]:
        empty = self.library().Empty
        taken = []
        for _ in range(count):
            try:
                taken.append(self.queue.get(block=False))
            except empty:
                break
        messages = [Message.from_json(data) for data in taken]
        for data in taken:
            self.queue.ack(data)
        return messages

    async def ids(self) -> list[str]:
        rows = self.queue._getter.execute(f"SELECT data FROM {self.queue._table_name}")
        return [Message.from_json(pickle.loads(row[0])).id for row in rows]

    def close(self) -> None:
        self.queue.close()
