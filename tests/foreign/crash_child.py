"""Kills a writer before, in the middle of and after each of its system calls, and checks what it leaves.

Run as a program of its own: it forks, which a process with threads must not. Arguments: folder, format. Prints how
many deaths were survived.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from pseudoclaude.errors import MailboxDamagedError
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from pseudoclaude.storage.system import System

CALLS = (
    "open",
    "write",
    "overwrite",
    "fdatasync",
    "sync_folder",
    "lock",
    "mkdir",
    "rmdir",
    "rename",
    "unlink",
    "chmod",
)
TORN = ("first byte", "half", "all but one byte")
ALICE = AgentId("alice")
TEXTS = ["zero", "}]", "x" * 300, '{"type":"shutdown_approved","requestId":"1"}', "four", "\u2028\0"]


class DyingSystem(System):
    """Kills its process at the nth call, in the middle of one at the nth that writes; notes the calls otherwise."""

    def __init__(self, at: int, way: str, notes: int) -> None:
        self.left = at
        self.way = way
        self.notes = notes
        for name in CALLS:
            setattr(self, name, self._dying(name, getattr(super(), name)))

    def _dying(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*arguments: Any) -> Any:
            if self.way in TORN and "write" not in name:
                return call(*arguments)
            self.left -= 1
            if self.left < 0:
                os.write(self.notes, f"call {name}\n".encode())
            if self.left:
                return call(*arguments)
            if self.way in TORN:
                file, data = arguments
                call(file, data[: {"first byte": 1, "half": len(data) // 2}.get(self.way, len(data) - 1)])
            elif self.way == "after":
                call(*arguments)
            return os.kill(os.getpid(), signal.SIGKILL)

        return dying


def letter(number: int) -> Message:
    return Message(
        id=MessageId(f"id-{number}"),
        sender=AgentId("lead"),
        recipient=ALICE,
        summary=str(number),
        content=TEXTS[number],
        timestamp=datetime(2026, 11, 30, 12, 0, number, tzinfo=UTC),
    )


def open_store(format_: str, place: Path, system: System | None) -> BoxStore | ClaudeInboxStore:
    kind = BoxStore if format_ == "box" else ClaudeInboxStore
    return kind(place / "inboxes", stale_after=0.03, unchanged_for=0.01, torn_wait=0.02, system=system)


def plant(format_: str, place: Path) -> None:
    """What a writer of the other program left that died: a lock, and a file that it was about to rename."""
    folder = place / "inboxes"
    folder.mkdir(parents=True)
    lock = folder / "alice.json.lock"
    if format_ == "box":
        lock.write_text("2026-11-30T12:00:00Z")
    else:
        lock.mkdir()
    litter = folder / (".tmp-alice-0123abcd.json" if format_ == "box" else "alice.json.tmp.0123abcd")
    litter.write_text("half")
    for path in (lock, litter):
        os.utime(path, (1, 1))


async def work(store: BoxStore | ClaudeInboxStore, told: Callable[[str, int], None]) -> None:
    for number in range(len(TEXTS)):
        await store.write(ALICE, letter(number))
        told("stored", number)
        if number % 2:
            await store.mark_read(ALICE, [number])
            told("marked", number)


async def check(format_: str, place: Path, acknowledged: set[tuple[str, int]]) -> None:
    damages: list[MailboxDamagedError] = []
    store = open_store(format_, place, None)
    store.on_damage(damages.append)
    before = [item.message.content for item in await store.read(ALICE)]
    assert before == TEXTS[: len(before)]
    assert {number for what, number in acknowledged if what == "stored"} <= {*range(len(before))}
    for number in range(len(TEXTS)):
        assert await store.write(ALICE, letter(number), since=0) == number
    messages = await store.read(ALICE)
    assert [item.message.content for item in messages] == TEXTS
    marked = {item.index for item in messages if item.read}
    assert marked >= {number for what, number in acknowledged if what == "marked"}
    assert all(number % 2 for number in marked)
    assert await store.write(ALICE, letter(0)) == len(TEXTS)
    await store.mark_read(ALICE, [0])
    left = {path.name for path in (place / "inboxes").iterdir()}
    assert left <= {"alice.json", ".alice.json.lock.guard"}
    json.loads((place / "inboxes/alice.json").read_bytes())
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


def run(format_: str, place: Path, at: int, way: str) -> tuple[int, list[list[str]]]:
    """Work until the death; how it ended, and what was noted."""
    plant(format_, place)
    notes = os.open(place / "notes", os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def told(what: str, number: int) -> None:
        os.write(notes, f"{what} {number}\n".encode())

    ended = fork(lambda: anyio.run(work, open_store(format_, place, DyingSystem(at, way, notes)), told))
    lines = [line.split() for line in os.pread(notes, 1 << 20, 0).decode().splitlines()]
    os.close(notes)
    return ended, lines


def main(folder: Path, format_: str) -> int:
    ended, lines = run(format_, folder / "rehearsal", 0, "before")
    assert ended == 0
    made = [name for what, name in lines if what == "call"]
    # A few calls fewer than there were: how often the lock was tried differs from run to run.
    points = [(at, way) for at in range(1, len(made) - 8) for way in ("before", "after")]
    points += [(at, way) for at in range(1, sum("write" in name for name in made)) for way in TORN]
    died = 0
    for at, way in points:
        place = folder / f"{way}-{at}"
        ended, lines = run(format_, place, at, way)
        assert os.WIFSIGNALED(ended) or ended == 0, f"{way} call {at}"
        died += os.WIFSIGNALED(ended)
        acknowledged = {(what, int(number)) for what, number in lines if what != "call"}
        ended = fork(lambda place=place, seen=acknowledged: anyio.run(check, format_, place, seen))  # type: ignore[misc]
        assert ended == 0, f"{way} call {at}: {acknowledged}"
    return died


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2]))  # noqa: T201
