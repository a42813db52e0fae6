"""Old mail is compressed, and stays as readable as before."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from pseudoclaude.errors import StorageError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.storage.base import Damage, Flaw
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import OpenFile, System

ALICE, BOB = AgentId("alice"), AgentId("bob")
NOW = timedelta(0)
OpenStore = Callable[..., NativeStore]


def letter(content: str) -> Message:
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content=content)


class Interrupting(System):
    """Does something before one call of a kind."""

    def __init__(self) -> None:
        self.before: dict[str, Callable[[], None]] = {}
        self.refused: set[str] = set()

    def open(self, path: str, flags: int) -> OpenFile:
        self._act(f"open {os.path.basename(path)}")
        return super().open(path, flags)

    def unlink(self, path: str) -> None:
        self._act("unlink")
        super().unlink(path)

    def rename(self, source: str, target: str) -> None:
        self._act("rename")
        super().rename(source, target)

    def write(self, file: OpenFile, data: bytes) -> int:
        self._act("write")
        return super().write(file, data)

    def _act(self, call: str) -> None:
        if call in self.refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if act := self.before.pop(call, None):
            act()


@pytest.fixture
def damages() -> list[Damage]:
    return []


@pytest.fixture
def open_store(tmp_path: Path, damages: list[Damage]) -> OpenStore:
    """Open the mailboxes of ``tmp_path`` anew; three messages fill a segment."""

    def open_it(system: System | None = None, **options: object) -> NativeStore:
        storage = FileStorage(tmp_path, durability="os", segment_bytes=600, system=system)
        store = NativeStore(storage, shortest_retention=NOW, **options)  # type: ignore[arg-type]
        store.on_damage(damages.append)
        return store

    return open_it


async def filled(store: NativeStore, count: int, read: int) -> NativeStore:
    await store.create(ALICE)
    for number in range(count):
        await store.write(ALICE, letter(f"{number} " + "x" * 80))
    await store.mark_read(ALICE, range(read))
    return store


async def numbers(store: NativeStore, **where: int) -> list[int]:
    messages = await store.read(ALICE, **where)
    assert [int(m.message.content.split()[0]) for m in messages] == [m.index for m in messages]
    return [m.index for m in messages]


def names(tmp_path: Path, folder: str = "") -> list[str]:
    path = tmp_path / "inboxes/alice" / folder
    return sorted(p.name for p in path.glob("0*")) if path.exists() else []


async def test_only_full_and_wholly_read_segments_are_archived(tmp_path: Path, open_store: OpenStore) -> None:
    store = await filled(open_store(), 12, read=8)
    before = names(tmp_path)
    assert before == ["000000000000.jsonl", "000000000003.jsonl", "000000000006.jsonl", "000000000009.jsonl"]
    content = (tmp_path / "inboxes/alice/000000000003.jsonl").read_bytes()
    assert await store.archive(NOW) == 2
    assert names(tmp_path) == before[2:]
    assert names(tmp_path, "archive") == ["000000000000.jsonl.gz", "000000000003.jsonl.gz"]
    packed = tmp_path / "inboxes/alice/archive/000000000003.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == content
    assert packed.stat().st_mode & 0o777 == 0o600
    assert await store.archive(NOW) == 0


async def test_the_newest_segment_stays_though_all_of_it_is_read(tmp_path: Path, open_store: OpenStore) -> None:
    store = await filled(open_store(), 9, read=9)
    await store.archive(NOW)
    assert names(tmp_path) == ["000000000006.jsonl"]
    assert await store.write(ALICE, letter("9")) == 9
    assert await numbers(open_store()) == list(range(10))


async def test_what_is_younger_than_the_retention_stays(tmp_path: Path, open_store: OpenStore) -> None:
    store = await filled(open_store(), 9, read=9)
    assert await store.archive(timedelta(hours=1)) == 0
    floor = NativeStore(FileStorage(tmp_path, durability="os"))
    assert await floor.archive(NOW) == 0
    old = (tmp_path / "inboxes/alice/000000000000.jsonl").stat().st_mtime - 2 * 86_400
    os.utime(tmp_path / "inboxes/alice/000000000000.jsonl", (old, old))
    assert await floor.archive(NOW) == 1


async def test_reading_and_finding_cross_archive_and_live(open_store: OpenStore, damages: list[Damage]) -> None:
    store = await filled(open_store(), 12, read=8)
    wanted = (await store.read(ALICE))[1].message
    await store.archive(NOW)
    for reader in (store, open_store()):
        assert await numbers(reader) == list(range(12))
        assert await numbers(reader, start=2, limit=6) == [2, 3, 4, 5, 6, 7]
        assert await numbers(reader, start=5) == list(range(5, 12))
        assert [await numbers(reader, start=n, limit=1) for n in range(12)] == [[n] for n in range(12)]
        assert [m.read for m in await reader.read(ALICE)] == [True] * 8 + [False] * 4
        assert [m.index for m in await reader.read_unread(ALICE)] == [8, 9, 10, 11]
        assert (await reader.peek(ALICE)).unread == 4
        assert await reader.find(ALICE, wanted.id, since=0) == 1
        assert await reader.find(ALICE, wanted.id, since=2) is None
        assert await reader.write(ALICE, wanted, since=0) == 1
        assert await reader.end(ALICE) == 12
    assert damages == []


async def test_handles_that_were_open_before_go_on(open_store: OpenStore, damages: list[Damage]) -> None:
    store, other = await filled(open_store(), 7, read=7), open_store()
    await other.write(ALICE, letter("7"))
    await other.peek(ALICE)
    assert await numbers(other) == list(range(8))
    for number in range(8, 20):
        await store.write(ALICE, letter(f"{number} " + "x" * 80))
    await store.mark_read(ALICE, range(20))
    await store.archive(NOW)
    assert await other.peek(ALICE) == await store.peek(ALICE)
    assert await numbers(other) == list(range(20))
    assert await other.write(ALICE, letter("20")) == 20
    await other.mark_read(ALICE, [20])
    assert not await store.has_unread(ALICE)
    assert damages == []


async def test_a_reader_that_finds_a_listed_segment_gone_looks_again(
    tmp_path: Path, open_store: OpenStore, damages: list[Damage]
) -> None:
    await filled(open_store(), 12, read=12)
    system = Interrupting()
    reader = open_store(system)
    live, archive = tmp_path / "inboxes/alice", tmp_path / "inboxes/alice/archive"

    def put_away() -> None:
        archive.mkdir()
        for name in names(tmp_path)[:3]:
            (archive / f"{name}.gz").write_bytes(gzip.compress((live / name).read_bytes()))
            (live / name).unlink()

    system.before["open 000000000003.jsonl"] = put_away
    assert await numbers(reader) == list(range(12))
    assert names(tmp_path) == ["000000000009.jsonl"]
    assert damages == []


async def test_what_an_open_broadcast_needs_stays(tmp_path: Path, open_store: OpenStore) -> None:
    system = Interrupting()
    store = await filled(open_store(system), 4, read=4)
    await store.create(BOB)
    (tmp_path / "inboxes/bob/000000000000.jsonl").mkdir()
    await store.broadcast([ALICE, BOB], letter("4 " + "x" * 80))
    for number in range(5, 12):
        await store.write(ALICE, letter(f"{number} " + "x" * 80))
    await store.mark_read(ALICE, range(12))
    assert await store.archive(NOW) == 1
    (tmp_path / "inboxes/bob/000000000000.jsonl").rmdir()
    await store.recover()
    assert await store.archive(NOW) > 1
    assert len(names(tmp_path)) == 1
    assert await numbers(store) == list(range(12))


async def test_a_copy_without_its_removal_is_no_second_message(
    tmp_path: Path, open_store: OpenStore, damages: list[Damage]
) -> None:
    system = Interrupting()
    store = await filled(open_store(system), 9, read=9)
    system.refused = {"unlink"}
    with pytest.raises(StorageError, match="no space left"):
        await store.archive(NOW)
    assert len(names(tmp_path)) == 3
    assert len(names(tmp_path, "archive")) == 1
    assert await numbers(open_store()) == list(range(9))
    system.refused = set()
    assert await store.archive(NOW) == 2
    assert await numbers(open_store()) == list(range(9))
    assert damages == []


@pytest.mark.parametrize("call", ["write", "rename"])
async def test_a_disk_that_refuses_the_copy_loses_nothing(tmp_path: Path, open_store: OpenStore, call: str) -> None:
    system = Interrupting()
    store = await filled(open_store(system), 9, read=9)
    system.refused = {call}
    with pytest.raises(StorageError, match="no space left"):
        await store.archive(NOW)
    assert len(names(tmp_path)) == 3
    assert names(tmp_path, "archive") == []
    system.refused = set()
    assert await store.archive(NOW) == 2


async def test_a_damaged_archive_is_reported_and_hides_nothing_else(
    tmp_path: Path, open_store: OpenStore, damages: list[Damage]
) -> None:
    store = await filled(open_store(), 12, read=12)
    await store.archive(NOW)
    packed = tmp_path / "inboxes/alice/archive/000000000003.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:20])
    reader = open_store()
    for _ in range(2):
        assert await numbers(reader) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert [(d.start, d.end) for d in damages] == [(3, 6)]
    assert {f.flaw for f in await reader.examine(ALICE)} == {Flaw.UNREADABLE, Flaw.LOST_RECORDS}


async def test_drafts_of_a_killed_archiver_are_in_nobodys_way(tmp_path: Path, open_store: OpenStore) -> None:
    store = await filled(open_store(), 9, read=9)
    draft = tmp_path / "inboxes/alice/archive/000000000000.jsonl.gz.tmp"
    draft.parent.mkdir(mode=0o700)
    draft.write_bytes(b"half")
    assert [f.flaw for f in await store.examine(ALICE)] == [Flaw.STRAY_FILE]
    with FileStorage(tmp_path).lease("inboxes/alice/archive/000000000000.jsonl.gz.tmp").hold("another archiver"):
        assert await store.archive(NOW) == 0
        assert [f.mended for f in await store.mend(ALICE)] == [False]
    assert await store.archive(NOW) == 2
    assert not draft.exists()
    draft.write_bytes(b"half")
    assert [f.mended for f in await store.mend(ALICE)] == [True]
    assert not draft.exists()


async def test_memory_keeps_all_of_it() -> None:
    from pseudoclaude.mailbox.native import MemoryStore

    store = await filled(MemoryStore(), 3, read=3)
    assert await store.archive(NOW) == 0
    assert await store.examine(ALICE) == []
    assert await store.mend(ALICE) == []
