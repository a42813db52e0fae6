"""The box of the original PseudoClaude, which is a Go program, written in Python."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pseudoclaude.mail import Message, rfc3339

from .base import Peer

_TRIES = 10
_STALE = 10.0


class Original(Peer):
    """One JSON file a mailbox, rewritten with every message under a lock file."""

    name = "original design"
    durability = "os"
    note = (
        "lock file, JSON rewritten, rename, no sync; 10 tries for the lock, 5 to 100 ms apart; returns the position; "
        "left out above 10,000, where each append would rewrite 240 MB"
    )
    most = 10_000
    grows = True

    async def open(self) -> None:
        self.path = self.folder / "reader.json"

    async def fill(self, messages: Iterable[Message]) -> None:
        self._change(lambda box: box.extend({**_entry(message), "read": True} for message in messages))

    async def append(self, message: Message) -> object:
        entry = _entry(message)
        return self._change(lambda box: box.append(entry)) - 1

    async def take(self, count: int) -> list[Message]:
        unread = [(i, entry) for i, entry in enumerate(self._read()) if not entry["read"]][:count]
        messages = [_message(entry) for _, entry in unread]

        def mark(box: list[dict[str, Any]]) -> None:
            for index, _ in unread:
                box[index]["read"] = True

        self._change(mark)
        return messages

    async def ids(self) -> list[str]:
        return [entry["payload"]["id"] for entry in self._read()]

    def _read(self) -> list[dict[str, Any]]:
        try:
            with open(self.path, encoding="utf-8") as file:
                messages: list[dict[str, Any]] = json.load(file)["messages"]
                return messages
        except FileNotFoundError:
            return []

    def _change(self, change: Callable[[list[dict[str, Any]]], None]) -> int:
        """Change the box under its lock; how many messages it then has."""
        with self._locked():
            box = self._read()
            change(box)
            handle, draft = tempfile.mkstemp(prefix=".tmp-", suffix=".json", dir=self.folder)
            with open(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps({"messages": box}, indent=2, ensure_ascii=False) + "\n")
            os.rename(draft, self.path)
            return len(box)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = f"{self.path}.lock"
        for _ in range(_TRIES):
            try:
                handle = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                break
            except FileExistsError:
                self._remove_stale(lock)
                time.sleep(random.uniform(0.005, 0.1))
        else:
            raise TimeoutError(f"{lock} is held")
        os.write(handle, str(time.time_ns()).encode())
        os.close(handle)
        try:
            yield
        finally:
            os.unlink(lock)

    def _remove_stale(self, lock: str) -> None:
        try:
            if time.time() - os.stat(lock).st_mtime > _STALE:
                os.unlink(lock)
        except FileNotFoundError:
            pass


def _entry(message: Message) -> dict[str, Any]:
    return {
        "from": message.sender,
        "to": message.recipient,
        "type": str(message.type),
        "summary": message.summary,
        "content": message.content,
        "payload": {"id": message.id},
        "timestamp": rfc3339(message.timestamp),
        "read": False,
    }


def _message(entry: dict[str, Any]) -> Message:
    return Message.model_validate({**entry, "id": entry["payload"]["id"], "payload": None})
