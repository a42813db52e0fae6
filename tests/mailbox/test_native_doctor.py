"""What is wrong with a mailbox is shown, and mended where nothing can be lost by it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pseudoclaude.errors import UnknownMailboxError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.storage.base import Finding, Flaw
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import System

ALICE = AgentId("alice")
OpenStore = Callable[[], NativeStore]


def letter(content: str = "hello") -> Message:
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content=content)


@pytest.fixture
def open_store(tmp_path: Path) -> OpenStore:
    return lambda: NativeStore(FileStorage(tmp_path, durability="os"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "inboxes/alice"


@pytest.fixture
async def store(open_store: OpenStore) -> NativeStore:
    """Five messages, the first of them read."""
    store = open_store()
    await store.create(ALICE)
    for number in range(5):
        await store.write(ALICE, letter(str(number)))
    await store.read_unread(ALICE)
    await store.mark_read(ALICE, [0])
    return store


def content_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file() and p.name != "read.jsonl"}


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def damage(folder: Path, number: int) -> None:
    path = folder / "000000000000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number] = b"\0" * (len(lines[number]) - 1) + b"\n"
    path.write_bytes(b"".join(lines))


async def test_a_healthy_mailbox_has_no_findings(store: NativeStore, open_store: OpenStore) -> None:
    for each in (store, open_store()):
        assert await each.examine(ALICE) == []
        assert await each.mend(ALICE) == []
    with pytest.raises(UnknownMailboxError):
        await store.examine(AgentId("nobody"))


async def test_lost_records_are_named_and_marked_over(store: NativeStore, open_store: OpenStore, folder: Path) -> None:
    damage(folder, 2)
    before = content_of(folder)
    found = only(await open_store().examine(ALICE))
    assert (found.flaw, found.start, found.end, found.mended) == (Flaw.LOST_RECORDS, 2, 3, False)
    assert found.where == str(folder / "000000000000.jsonl")
    assert "count as unread" in found.remedy
    assert only(await open_store().mend(ALICE)).mended
    assert content_of(folder) == before
    again = only(await open_store().mend(ALICE))
    assert (again.flaw, again.mended) == (Flaw.LOST_RECORDS, False)
    await store.mark_read(ALICE, [1, 3, 4])
    assert '"through":5,"also":[]' in (folder / "read.jsonl").read_text()


async def test_a_torn_piece_is_named_as_harmless(store: NativeStore, folder: Path) -> None:
    with (folder / "000000000000.jsonl").open("ab") as file:
        file.write(b'{"i":5,"id":"to')
    await store.write(ALICE, letter("after"))
    before = content_of(folder)
    found = only(await store.mend(ALICE))
    assert (found.flaw, found.mended) == (Flaw.TORN_PIECE, False)
    assert "Nothing need be done" in found.remedy
    assert content_of(folder) == before


async def test_a_record_that_is_no_message_is_named(store: NativeStore, folder: Path) -> None:
    with (folder / "000000000000.jsonl").open("ab") as file:
        file.write(b'{"i":5,"not":"a message"}\n')
    found = only(await store.examine(ALICE))
    assert (found.flaw, found.start, found.end) == (Flaw.NO_MESSAGE, 5, 6)


async def test_marks_behind_the_end_are_named(store: NativeStore, open_store: OpenStore, folder: Path) -> None:
    (folder / "read.jsonl").write_text('{"through":9,"also":[],"at":[0,0]}\n')
    found = only(await open_store().mend(ALICE))
    assert (found.flaw, found.start, found.end) == (Flaw.MARKS_BEYOND_END, 5, 9)
    assert "index 9" in found.remedy
    assert await open_store().write(ALICE, letter()) == 9


async def test_unreadable_marks_are_named_and_left(store: NativeStore, open_store: OpenStore, folder: Path) -> None:
    (folder / "read.jsonl").write_bytes(b"\0" * 30 + b"\n")
    damage(folder, 2)
    assert {f.flaw for f in await open_store().mend(ALICE)} == {Flaw.UNREADABLE_MARKS, Flaw.LOST_RECORDS}
    assert (folder / "read.jsonl").read_bytes() == b"\0" * 30 + b"\n"


async def test_modes_are_put_right(store: NativeStore, folder: Path) -> None:
    for path, mode in ((folder, 0o755), (folder / "read.jsonl", 0o644), (folder / "000000000000.jsonl", 0o666)):
        os.chmod(path, mode)
    found = await store.examine(ALICE)
    assert [f.flaw for f in found] == [Flaw.WRONG_MODE] * 3
    assert "0755" in found[0].what
    assert all(f.mended for f in await store.mend(ALICE))
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(folder / name).st_mode) for name in os.listdir(folder)} == {0o600}
    assert await store.examine(ALICE) == []


async def test_drafts_of_killed_writers_are_removed_and_strangers_left(store: NativeStore, folder: Path) -> None:
    (folder / ".read.jsonl.tmp").write_text("{")
    (folder / ".read.jsonl.tmp").chmod(0o600)
    (folder / "notes.txt").write_text("mine")
    assert [f.mended for f in await store.examine(ALICE)] == [False, False]
    found = {os.path.basename(f.where): f.mended for f in await store.mend(ALICE)}
    assert found == {".read.jsonl.tmp": True, "notes.txt": False}
    assert not (folder / ".read.jsonl.tmp").exists()
    assert (folder / "notes.txt").read_text() == "mine"


class UsedSystem(System):
    """Knows who has removed files open."""

    users: list[str] | None = None

    def openers(self, path: str) -> list[str] | None:
        assert path.endswith("/lock")
        return self.users


async def test_a_missing_lock_file_is_made_anew_when_nobody_can_hold_the_old_one(
    tmp_path: Path, store: NativeStore, folder: Path
) -> None:
    (folder / "lock").unlink()
    with pytest.raises(UnknownMailboxError):
        await store.write(ALICE, letter())
    system = UsedSystem()
    doctor = NativeStore(FileStorage(tmp_path, durability="os", system=system))
    for users, told in ((None, "somebody may use it"), (["17", "18"], "17, 18")):
        system.users = users
        found = only(await doctor.mend(ALICE))
        assert (found.flaw, found.mended) == (Flaw.NO_LOCK_FILE, False)
        assert told in found.remedy
    system.users = []
    assert only(await doctor.examine(ALICE)).mended is False
    assert only(await doctor.mend(ALICE)).mended
    assert await store.write(ALICE, letter()) == 5
    assert [m.index for m in await store.read_unread(ALICE)] == [1, 2, 3, 4, 5]


async def test_who_has_a_removed_file_open_is_known_or_said_to_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fd = os.open(path, os.O_CREAT | os.O_RDWR)
    os.unlink(path)
    users = System().openers(str(path))
    os.close(fd)
    assert users is None or users == [str(os.getpid())]


@pytest.mark.parametrize("plant", ["link", "fifo", "folder"])
async def test_what_is_no_file_is_named_and_left(
    tmp_path: Path, store: NativeStore, open_store: OpenStore, folder: Path, plant: str
) -> None:
    path = folder / "000000000000.jsonl"
    path.unlink()
    (tmp_path / "victim").write_text("precious")
    if plant == "link":
        path.symlink_to(tmp_path / "victim")
    elif plant == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    found = await open_store().mend(ALICE)
    assert next(f.flaw for f in found if f.where == str(path)) is Flaw.NOT_A_FILE
    assert not any(f.mended for f in found if f.flaw is Flaw.NOT_A_FILE)
    assert path.name in os.listdir(folder)
    assert (tmp_path / "victim").read_text() == "precious"
