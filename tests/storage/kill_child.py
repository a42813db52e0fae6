"""Kills several processes at once, again and again, while they send, broadcast, read and archive; then checks.

Run as a program of its own: it forks. Arguments: folder, durability, rounds, seed. Prints how many were killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

import anyio

from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.storage.base import Damage, Durability
from pseudoclaude.storage.files import FileStorage

sys.path.insert(0, str(Path(__file__).parent))
import anyio.lowlevel
from dying import fork

AGENTS = [AgentId("alice"), AgentId("bob"), AgentId("carol")]
ROLES = ("send-0", "send-1", "send-2", "broadcast-0", "broadcast-1", "mark-0", "mark-1", "archive")
NOW = timedelta(0)


class Notes:
    """What one worker has begun and finished, in a file that outlives it; each finish also rings the parent."""

    def __init__(self, path: Path, bell: int) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR)
        self.lines = os.pread(self.file, 1 << 24, 0).decode().split("\n")[:-1]
        self.bell = bell

    def note(self, *words: object) -> None:
        line = " ".join(map(str, words))
        self.lines.append(line)
        os.write(self.file, f"{line}\n".encode())
        if words[0] != "try":
            os.write(self.bell, b".")


def letter(message_id: str) -> Message:
    dice = random.Random(message_id)
    content = f"}} {message_id} " + "x" * dice.choice([10, 100, 3_000, 3_000, 200_000])
    return Message(id=MessageId(message_id), sender=AgentId("lead"), recipient=AGENTS[0], summary="s", content=content)


def open_store(folder: Path, durability: str) -> NativeStore:
    storage = FileStorage(folder, durability=cast(Durability, durability), segment_bytes=20_000, notify=False)
    return NativeStore(storage, shortest_retention=NOW, max_unread=1 << 20, max_unread_bytes=1 << 40)


async def send(store: NativeStore, name: str, notes: Notes) -> None:
    sent = sum(line.startswith("done") for line in notes.lines)
    if notes.lines and notes.lines[-1].startswith("try"):
        _, message_id, since = notes.lines[-1].split()
        await store.write(AGENTS[0], letter(message_id), since=int(since))
        notes.note("done", message_id)
        sent += 1
    while True:
        message_id = f"{name}-{sent}"
        notes.note("try", message_id, await store.end(AGENTS[0]))
        await store.write(AGENTS[0], letter(message_id))
        notes.note("done", message_id)
        sent += 1


async def broadcast(store: NativeStore, name: str, notes: Notes) -> None:
    sent = sum(line.startswith("try") for line in notes.lines)
    while True:
        notes.note("try", f"{name}-{sent}")
        result = await store.broadcast(AGENTS, letter(f"{name}-{sent}"))
        if not result.waiting:
            notes.note("done", f"{name}-{sent}")
        sent += 1


async def mark(store: NativeStore, name: str, notes: Notes) -> None:
    while True:
        for agent in AGENTS:
            taken = await store.read_unread(agent, limit=7)
            await store.mark_read(agent, [m.index for m in taken])
            if taken:
                notes.note("marked", agent, *[m.index for m in taken])
        await anyio.lowlevel.checkpoint()


async def archive(store: NativeStore, name: str, notes: Notes) -> None:
    while True:
        await store.archive(NOW)
        await anyio.lowlevel.checkpoint()


WORK: dict[str, Callable[[NativeStore, str, Notes], Awaitable[None]]] = {
    "send": send,
    "broadcast": broadcast,
    "mark": mark,
    "archive": archive,
}


def start(folder: Path, durability: str, role: str, bell: int) -> int:
    child = os.fork()
    if not child:
        try:
            notes = Notes(folder / f"{role}.notes", bell)
            anyio.run(WORK[role.partition("-")[0]], open_store(folder, durability), role, notes)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


async def make(folder: Path, durability: str) -> None:
    for agent in AGENTS:
        await open_store(folder, durability).create(agent)


async def check(folder: Path, durability: str) -> None:
    store = open_store(folder, durability)
    damages: list[Damage] = []
    store.on_damage(damages.append)
    await store.recover()
    ids: dict[AgentId, list[str]] = {}
    read: dict[AgentId, set[int]] = {}
    for agent in AGENTS:
        messages = await store.read(agent)
        assert [m.index for m in messages] == list(range(len(messages)))
        ids[agent] = [m.message.id for m in messages]
        read[agent] = {m.index for m in messages if m.read}
        assert max(Counter(ids[agent]).values(), default=1) == 1, "stored twice"
        assert all(m.message.content == letter(m.message.id).content for m in messages)
    for role in ROLES:
        for line in Notes(folder / f"{role}.notes", 0).lines:
            what, *rest = line.split()
            if what == "done":
                for agent in AGENTS if role.startswith("broadcast") else AGENTS[:1]:
                    assert rest[0] in ids[agent], f"{rest[0]} is lost for {agent}"
            elif what == "try" and role.startswith("broadcast"):
                assert len({rest[0] in ids[agent] for agent in AGENTS}) == 1, f"{rest[0]} reached some"
            elif what == "marked":
                assert {int(index) for index in rest[1:]} <= read[AgentId(rest[0])]
    assert not damages
    for agent in AGENTS:
        await store.mend(agent)
    intents = folder / "broadcasts"
    assert not (intents.exists() and os.listdir(intents))  # a first round may have died before its first broadcast
    # Each writer's messages stand in the order in which it sent them.
    for role in (role for role in ROLES if role.startswith("send")):
        numbers = [int(i.rpartition("-")[2]) for i in ids[AGENTS[0]] if i.startswith(f"{role}-")]
        assert numbers == list(range(len(numbers)))


def apart(work: Callable[[Path, str], Awaitable[None]], folder: Path, durability: str) -> None:
    """Do it in a process of its own, since the one that forks must have no threads."""
    assert fork(lambda: anyio.run(work, folder, durability)) == 0


def main(folder: Path, durability: str, rounds: int, seed: int) -> int:
    dice = random.Random(seed)
    apart(make, folder, durability)
    killed = 0
    for _ in range(rounds):
        ear, bell = os.pipe()
        children = [start(folder, durability, role, bell) for role in ROLES]
        os.close(bell)
        left = dice.randrange(10, 120)
        while left > 0 and (heard := os.read(ear, left)):
            left -= len(heard)
        dice.shuffle(children)
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "a worker failed"
            killed += 1
        os.close(ear)
        if dice.random() < 0.2:
            apart(check, folder, durability)
    apart(check, folder, durability)
    return killed


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))  # noqa: T201
