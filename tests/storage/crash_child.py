"""Kills a writer before, in the middle of and after each of its system calls, and checks what it leaves.

Run as a program of its own: it forks, which a process with threads must not. Arguments: what to do (``log`` or
``store``), folder, durability, segment bytes. Prints how many deaths were survived.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from typing import cast

from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.storage.base import Damage, Durability
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import System

sys.path.insert(0, str(Path(__file__).parent))
from dying import Told, die_everywhere

KEY = "inboxes/alice"
TEXTS = ["zero", "ends in }", "x" * 300, '{"sealed":3}', '{"i":4,"id":"4"}', "five"]
ALICE, BOB = AgentId("alice"), AgentId("bob")
BROADCASTS = (2, 5)
NOW = timedelta(0)


def record(number: int) -> bytes:
    return json.dumps({"id": str(number), "text": TEXTS[number]}).encode()


def carries(number: int) -> Callable[[bytes], bool]:
    return lambda data: json.loads(data)["id"] == str(number)


def letter(number: int) -> Message:
    return Message(
        id=MessageId(f"m{number}"), sender=AgentId("lead"), recipient=ALICE, summary="s", content=TEXTS[number]
    )


class Scene:
    """What is done, and what is checked, with these settings."""

    def __init__(self, durability: str, segment_bytes: str) -> None:
        self.durability = cast(Durability, durability)
        self.segment_bytes = int(segment_bytes)

    def open(self, place: Path, system: System | None = None) -> FileStorage:
        return FileStorage(
            place, durability=self.durability, segment_bytes=self.segment_bytes, system=system, notify=False
        )

    async def use_log(self, system: System, place: Path, told: Told) -> None:
        storage = self.open(place, system)
        log = storage.marked_log(KEY)
        await log.create()
        told("created", 0)
        for number in range(len(TEXTS)):
            await log.append(record(number))
            storage.ring()
            told("stored", number)
            if number % 2:
                await log.mark([number])
                told("marked", number)

    async def check_log(self, place: Path, acknowledged: Collection[tuple[str, int]]) -> None:
        storage = self.open(place)
        damages: list[Damage] = []
        storage.on_damage(damages.append)
        log = storage.marked_log(KEY)
        if ("created", 0) in acknowledged:
            assert await log.exists()
        await log.create()
        before = {r.index: r.data for r in await log.read()}
        for what, number in acknowledged:
            if what == "stored":
                assert before[number] == record(number), (what, number)
        for number in range(len(TEXTS)):
            assert await log.append_once(record(number), carries(number), 0) == number
        assert [(r.index, r.data) for r in await log.read()] == [(n, record(n)) for n in range(len(TEXTS))]
        marked = await log.marked(range(len(TEXTS)))
        assert marked >= {number for what, number in acknowledged if what == "marked"}
        assert all(number % 2 for number in marked)
        assert await log.append(b'{"id":"new"}') == len(TEXTS)
        await log.mark([0])
        assert {r.index for r in await log.unmarked()} == {*range(len(TEXTS) + 1)} - marked - {0}
        assert not damages

    async def use_store(self, system: System, place: Path, told: Told) -> None:
        store = NativeStore(self.open(place, system), shortest_retention=NOW)
        for agent in (ALICE, BOB):
            await store.create(agent)
        told("created", 0)
        for number in range(len(TEXTS)):
            if number in BROADCASTS:
                result = await store.broadcast([ALICE, BOB], letter(number))
                assert not result.waiting
            else:
                await store.write(ALICE, letter(number))
            told("stored", number)
            if number % 2:
                await store.mark_read(ALICE, [m.index for m in await store.read_unread(ALICE)])
                told("marked", number)
                await store.archive(NOW)
        await store.mend(ALICE)

    async def check_store(self, place: Path, acknowledged: Collection[tuple[str, int]]) -> None:
        store = NativeStore(self.open(place), shortest_retention=NOW)
        damages: list[Damage] = []
        store.on_damage(damages.append)
        stored = {number for what, number in acknowledged if what == "stored"}
        if ("created", 0) not in acknowledged:
            for agent in (ALICE, BOB):
                await store.create(agent)
        mail = {agent: [m.message.id for m in await store.read(agent)] for agent in (ALICE, BOB)}
        assert {f"m{number}" for number in stored} <= {*mail[ALICE]}
        assert {f"m{number}" for number in stored if number in BROADCASTS} <= {*mail[BOB]}
        await store.recover()
        mail = {agent: [m.message.id for m in await store.read(agent)] for agent in (ALICE, BOB)}
        for number in BROADCASTS:
            assert (f"m{number}" in mail[ALICE]) == (f"m{number}" in mail[BOB]), "one has it, the other has not"
        for number in range(len(TEXTS)):
            if number in BROADCASTS:
                await store.broadcast([ALICE, BOB], letter(number), since=0)
            else:
                await store.write(ALICE, letter(number), since=0)
        kept = {m.index for m in await store.read(ALICE) if m.read}
        marked = max((number for what, number in acknowledged if what == "marked"), default=-1)
        assert {*range(marked + 1)} <= kept
        everything = [(n, f"m{n}", letter(n).content) for n in range(len(TEXTS))]
        for _ in range(2):
            found = [(m.index, m.message.id, m.message.content) for m in await store.read(ALICE)]
            assert found == everything
            assert [m.message.id for m in await store.read(BOB)] == [f"m{n}" for n in BROADCASTS]
            await store.mark_read(ALICE, range(len(TEXTS)))
            await store.archive(NOW)
        assert await store.write(ALICE, letter(0).model_copy(update={"id": MessageId("new")})) == len(TEXTS)
        assert [m.message.id for m in await store.read_unread(ALICE)] == ["new"]
        await store.mend(ALICE)
        await store.mend(BOB)
        assert not [name for _, _, names in os.walk(place) for name in names if name.endswith(".tmp")]
        assert not os.listdir(place / "broadcasts")
        assert not damages


def main(what: str, folder: str, durability: str, segment_bytes: str) -> int:
    scene = Scene(durability, segment_bytes)
    if what == "log":
        return int(die_everywhere(Path(folder), scene.use_log, scene.check_log))
    return int(die_everywhere(Path(folder), scene.use_store, scene.check_store))


if __name__ == "__main__":
    print(main(*sys.argv[1:]))  # noqa: T201
