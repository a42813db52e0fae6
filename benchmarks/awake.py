"""From the beginning of a send to the moment the reader runs: in another process, and in this one.

Run as a program it is the reader in the other process, which prints the time of each wake-up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import IO

import anyio
from anyio.lowlevel import checkpoint

from pseudoclaude.ids import AgentId, TeamName
from pseudoclaude.mail import Role
from pseudoclaude.mailbox.native import LogStore
from pseudoclaude.post import Draft, Post, Sender, Wake
from pseudoclaude.storage.base import Durability
from pseudoclaude.teams.models import LeadRecord, TeamRecord
from pseudoclaude.teams.registry import Registry

from .peers.redis_server import RedisServer
from .table import Row
from .timing import Cell, in_turn, messages

READER = AgentId("reader")
_PAUSE = 0.01
"""Between two sends, so that the reader sleeps when the next one comes."""


async def run(folder: Path, count: int) -> list[Row]:
    """The rows of ``awake``."""
    cells: dict[tuple[str, str], Cell] = {}
    readers: list[subprocess.Popen[str]] = []
    redis = RedisServer(folder)
    absent = redis.missing()
    try:
        for durability in _DURABILITIES:
            store = LogStore(folder / durability, durability=durability)
            await store.create(READER)
            reader = _reader("ours", folder / durability, readers)
            cells["another process", f"ours ({durability})"] = Cell(partial(_send, store, _lines(reader)))
            cells["the same process", f"ours ({durability})"] = Cell(
                await _in_process(folder / f"team-{durability}", durability)
            )
        if not absent:
            redis.start()
            reader = _reader("redis", folder, readers)
            cells["another process", "Redis, blocking read"] = Cell(partial(_push, redis.push, _lines(reader)))
        apart = [cell for (case, _), cell in cells.items() if case == "another process"]
        within = [cell for (case, _), cell in cells.items() if case == "the same process"]
        await in_turn(apart, rounds=count, batch=1, budget=1e9)
        await in_turn(within, rounds=count // 10, batch=10, budget=1e9)
    finally:
        for process in readers:
            process.kill()
            process.wait()
        redis.stop()
    rows = [Row("awake", case, system, cell.figures()) for (case, system), cell in sorted(cells.items())]
    return [*rows, Row("awake", "another process", "Redis, blocking read", absent=absent)] if absent else rows


_DURABILITIES: tuple[Durability, ...] = ("os", "disk")


def _reader(system: str, folder: Path, readers: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.awake", system, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    readers.append(process)
    _lines(process).readline()  # it waits now
    return process


def _lines(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


async def _send(store: LogStore, woken: IO[str]) -> float:
    await anyio.sleep(_PAUSE)
    (message,) = messages(1)
    began = time.monotonic()
    await store.write(READER, message)
    return float(woken.readline()) - began


async def _push(push: Callable[[bytes], None], woken: IO[str]) -> float:
    await anyio.sleep(_PAUSE)
    (message,) = messages(1)
    began = time.monotonic()
    push(message.to_json())
    return float(woken.readline()) - began


class _Waker:
    """Stands for whoever starts runs: a task that waits for an event is what a run begins with."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def wake(self, agent_id: AgentId) -> Wake:
        """See :class:`~pseudoclaude.post.Waker`."""
        self.asked.set()
        return Wake()


async def _in_process(folder: Path, durability: Durability) -> Callable[[], Awaitable[float]]:
    """A whole send by way of the post: roster read, recipient resolved, message stored, reader woken."""
    store = LogStore(folder, durability=durability)
    lead = LeadRecord(agent_id=READER)
    name = TeamName("bench")
    registry = Registry(store.storage.document("team.json"), name)
    await store.create(READER)
    await registry.create(TeamRecord(name=name, workspace=folder, lead=lead))
    waker = _Waker()
    post = Post(store, registry, waker=waker)
    (model,) = messages(1)

    async def send() -> float:
        waker.asked = anyio.Event()
        woken: list[float] = []

        async def reader() -> None:
            await waker.asked.wait()
            woken.append(time.monotonic())

        async with anyio.create_task_group() as group:
            group.start_soon(reader)
            await checkpoint()
            began = time.monotonic()
            draft = Draft("lead", model.summary, model.content)
            await post.send(Sender(AgentId("user"), Role.USER), draft)
        return woken[0] - began

    return send


async def _watch(folder: Path) -> None:
    async with LogStore(folder).watch() as names:
        await anext(names)  # its mailbox is named once at the start
        os.write(1, b"waiting\n")
        async for _ in names:
            os.write(1, b"%.9f\n" % time.monotonic())


if __name__ == "__main__":
    if sys.argv[1] == "redis":
        RedisServer(Path(sys.argv[2])).read()
    else:
        anyio.run(_watch, Path(sys.argv[2]))
