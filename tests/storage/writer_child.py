"""Another process at work on a log: ``append``, ``mark``, ``hold`` a lease, ``count`` in a document, ``ring``.

Arguments: what to do, the root, then what that takes. Prints one line when it is about to begin, and waits for one.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import cast

import anyio

from pseudoclaude.storage.base import Durability, update
from pseudoclaude.storage.files import FileStorage


def ready(text: str = "ready") -> None:
    print(text, flush=True)  # noqa: T201
    sys.stdin.readline()


async def append(root: str, name: str, count: str, segment_bytes: str, durability: str = "os") -> None:
    storage = FileStorage(root, durability=cast(Durability, durability), segment_bytes=int(segment_bytes))
    log = storage.marked_log("inboxes/alice")
    ready()
    for number in range(int(count)):
        await log.append(f'{{"id":"{name}-{number}","text":"{"x" * 200}"}}'.encode())


async def mark(root: str, start: str, end: str, step: str) -> None:
    log = FileStorage(root, durability="os").marked_log("inboxes/alice")
    ready()
    for index in range(int(start), int(end), int(step)):
        await log.mark([index])


async def hold(root: str, key: str) -> None:
    with FileStorage(root).lease(key).hold("the child"):
        ready("held")


async def lock(root: str) -> None:
    storage = FileStorage(root)
    with storage.lease("inboxes/alice/lock").hold(""):
        ready("held")


async def count(root: str, times: str) -> None:
    document = FileStorage(root).document("counter.json")
    ready()
    for _ in range(int(times)):
        await update(document, lambda value: {"count": (value or {"count": 0})["count"] + 1})


async def ring(root: str) -> None:
    storage = FileStorage(root)
    ready()
    storage.ring()


WORK: dict[str, Callable[..., Awaitable[None]]] = {
    "append": append,
    "mark": mark,
    "hold": hold,
    "lock": lock,
    "count": count,
    "ring": ring,
}

if __name__ == "__main__":
    anyio.run(WORK[sys.argv[1]], *sys.argv[2:])
