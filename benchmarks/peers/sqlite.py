"""SQLite from the standard library, with the table that one would make for mail."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import ClassVar

from pseudoclaude.mail import Message

from .base import Durability, Peer

SCHEMA = """
CREATE TABLE IF NOT EXISTS mail (
  i INTEGER PRIMARY KEY, box TEXT NOT NULL, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL, read INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS unread ON mail (box, i) WHERE read = 0;
"""
INSERT = "INSERT INTO mail (box, id, body, read) VALUES (?, ?, ?, ?)"


class SqliteNormal(Peer):
    """A write-ahead log that is synced at checkpoints only."""

    name = "SQLite WAL, NORMAL"
    durability: ClassVar[Durability] = "os"
    note = "stdlib sqlite3, WAL, NORMAL, unique id, index of the unread, busy timeout 60 s; returns the row id"
    synchronous: ClassVar[str] = "NORMAL"

    async def open(self) -> None:
        self.db = sqlite3.connect(self.folder / "mail.db", timeout=60, isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={self.synchronous}")
        self.db.executescript(SCHEMA)

    async def fill(self, messages: Iterable[Message]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany(INSERT, ((m.recipient, m.id, m.to_json(), 1) for m in messages))
        self.db.execute("COMMIT")

    async def append(self, message: Message) -> object:
        row = (message.recipient, message.id, message.to_json(), 0)
        return self.db.execute(INSERT, row).lastrowid

    async def take(self, count: int) -> list[Message]:
        query = "SELECT i, body FROM mail WHERE box = ? AND read = 0 ORDER BY i LIMIT ?"
        rows = self.db.execute(query, ("reader", count)).fetchall()
        messages = [Message.from_json(body) for _, body in rows]
        # Two transactions, as between them the messages go into the reader's conversation.
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("UPDATE mail SET read = 1 WHERE i = ?", [(i,) for i, _ in rows])
        self.db.execute("COMMIT")
        return messages

    async def ids(self) -> list[str]:
        return [row[0] for row in self.db.execute("SELECT id FROM mail")]

    def close(self) -> None:
        self.db.close()


class SqliteFull(SqliteNormal):
    """A write-ahead log that is synced with every commit."""

    name = "SQLite WAL, FULL"
    durability = "disk"
    note = "the same, FULL"
    synchronous = "FULL"
