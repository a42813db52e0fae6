"""Kills a writer before, in the middle of and after each of its system calls, and checks what it leaves.

Run as a program of its own: it forks, which a process with threads must not. Arguments: folder, durability, segment
bytes. Prints how many deaths were survived.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import anyio

from pseudoclaude.storage.base import Damage
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import System

CALLS = ("open", "write", "overwrite", "fdatasync", "sync_folder", "lock", "unlock", "mkdir", "rename", "utime")
TORN = ("first byte", "half", "all but one byte")
KEY = "inboxes/alice"
TEXTS = ["zero", "ends in }", "x" * 300, '{"sealed":3}', '{"i":4,"id":"4"}', "five"]


class DyingSystem(System):
    """Kills its process at the nth call; notes the calls until then."""

    def __init__(self, at: int = 0, way: str = "before") -> None:
        self.left = at
        self.way = way
        self.made: list[str] = []
        for name in CALLS:
            setattr(self, name, self._dying(name, getattr(super(), name)))

    def _dying(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any) -> Any:
            self.made.append(name)
            self.left -= 1
            if self.left:
                return call(*arguments)
            if self.way in TORN:
                file, data = arguments
                call(file, data[: {"first byte": 1, "half": len(data) // 2}.get(self.way, len(data) - 1)])
            elif self.way == "after":
                call(*arguments)
            return os.kill(os.getpid(), signal.SIGKILL)

        return dying


def record(number: int) -> bytes:
    return json.dumps({"id": str(number), "text": TEXTS[number]}).encode()


def carries(number: int) -> Callable[[bytes], bool]:
    return lambda data: json.loads(data)["id"] == str(number)


async def work(storage: FileStorage, told: Callable[[str, int], None]) -> None:
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


async def check(storage: FileStorage, acknowledged: set[tuple[str, int]]) -> None:
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


def fork(do: Callable[[], None]) -> int:
    """Do it in a child; how that ended."""
    child = os.fork()
    if not child:
        code = 1
        try:
            do()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1]


def main(folder: Path, durability: str, segment_bytes: int) -> int:
    def storage(system: System | None, place: Path) -> FileStorage:
        return FileStorage(
            place, durability=cast(Any, durability), segment_bytes=segment_bytes, system=system, notify=False
        )

    rehearsal = DyingSystem()
    (folder / "rehearsal").mkdir()
    anyio.run(work, storage(rehearsal, folder / "rehearsal"), lambda *_: None)
    # Dead after one call is dead before the next.
    points = [(at, "before") for at in range(1, len(rehearsal.made) + 1)]
    points += [(at, way) for at, name in enumerate(rehearsal.made, 1) if "write" in name for way in TORN]
    points.append((len(rehearsal.made), "after"))
    for at, way in points:
        place = folder / f"{way}-{at}"
        place.mkdir()
        notes = os.open(place / ".acknowledged", os.O_CREAT | os.O_APPEND | os.O_RDWR)

        def told(what: str, number: int, notes: int = notes) -> None:
            os.write(notes, f"{what} {number}\n".encode())

        def die(at: int = at, way: str = way, place: Path = place, told: Any = told) -> None:
            anyio.run(work, storage(DyingSystem(at, way), place), told)

        assert os.WIFSIGNALED(fork(die)), f"did not die {way} call {at}"
        lines = [line.split() for line in os.pread(notes, 1 << 20, 0).decode().splitlines()]
        os.close(notes)
        acknowledged = {(what, int(number)) for what, number in lines}
        anyio.run(check, storage(None, place), acknowledged)
    return len(points)


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))  # noqa: T201
