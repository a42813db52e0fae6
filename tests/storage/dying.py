"""A system whose process dies at a chosen call, and the loop over all such calls. For programs that may fork."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import anyio

from pseudoclaude.storage.system import System

CALLS = (
    "open",
    "write",
    "overwrite",
    "fdatasync",
    "sync_folder",
    "lock",
    "unlock",
    "mkdir",
    "rename",
    "unlink",
    "touch",
    "chmod",
)
TORN = ("first byte", "half", "all but one byte")
Told = Callable[[str, int], None]
Work = Callable[[System, Path, Told], Awaitable[None]]
Check = Callable[[Path, Collection[tuple[str, int]]], Awaitable[None]]


class DyingSystem(System):
    """Kills its process at the nth call, or in the middle of the nth write; notes the calls until then."""

    def __init__(self, at: int = 0, way: str = "before") -> None:
        self.left = at
        self.way = way
        self.made: list[str] = []
        for name in CALLS:
            setattr(self, name, self._dying(name, getattr(super(), name)))

    def _dying(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any) -> Any:
            self.made.append(name)
            self.left -= self.way not in TORN or name == "write"
            if self.left:
                return call(*arguments)
            if self.way in TORN:
                file, data = arguments
                call(file, data[: {"first byte": 1, "half": len(data) // 2}.get(self.way, len(data) - 1)])
            elif self.way == "after":
                call(*arguments)
            return os.kill(os.getpid(), signal.SIGKILL)

        return dying


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


def die_everywhere(folder: Path, work: Work, check: Check) -> int:
    """Do the work once for each call in it, dying there, and check what each death leaves; how many there were."""
    rehearsal = DyingSystem()
    (folder / "rehearsal").mkdir()
    anyio.run(work, rehearsal, folder / "rehearsal", lambda *_: None)
    # Dead after one call is dead before the next.
    points = [(at, "before") for at in range(1, len(rehearsal.made) + 1)]
    points += [(at, way) for at in range(1, rehearsal.made.count("write") + 1) for way in TORN]
    points.append((len(rehearsal.made), "after"))
    deaths = 0
    for at, way in points:
        place = folder / f"{way}-{at}"
        place.mkdir()
        notes = os.open(place / ".acknowledged", os.O_CREAT | os.O_APPEND | os.O_RDWR)

        def told(what: str, number: int, notes: int = notes) -> None:
            os.write(notes, f"{what} {number}\n".encode())

        def die(at: int = at, way: str = way, place: Path = place, told: Told = told) -> None:
            anyio.run(work, DyingSystem(at, way), place, told)

        ended = fork(die)
        # Threads that sync make the number of calls vary a little.
        assert ended == 0 or os.WIFSIGNALED(ended), f"failed {way} call {at}"
        deaths += os.WIFSIGNALED(ended)
        lines = [line.split() for line in os.pread(notes, 1 << 20, 0).decode().splitlines()]
        os.close(notes)
        try:
            anyio.run(check, place, {(what, int(number)) for what, number in lines})
        except BaseException:
            sys.stderr.write(f"died {way} call {at} in {place}\n")
            raise
    return deaths
