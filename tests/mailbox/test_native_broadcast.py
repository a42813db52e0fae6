"""A broadcast reaches everybody or nobody, once, whatever happens to its sender and to the mailboxes."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pseudoclaude.errors import StorageError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message, MessageType
from pseudoclaude.mailbox.broadcasts import Recovery
from pseudoclaude.mailbox.native import LogStore, MemoryStore, NativeStore
from pseudoclaude.storage.base import Flaw
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import OpenFile, System

ALICE, BOB, CAROL = AgentId("alice"), AgentId("bob"), AgentId("carol")
EVERYBODY = [ALICE, BOB, CAROL]


class FullSystem(System):
    """A disk on which some folders are full, and of which some calls fail."""

    def __init__(self) -> None:
        self.full: tuple[str, ...] = ()
        self.failing: tuple[str, ...] = ()

    def write(self, file: OpenFile, data: bytes) -> int:
        if any(place in file.path for place in self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(file, data)

    def rename(self, source: str, target: str) -> None:
        self._fail("rename")
        super().rename(source, target)

    def sync_folder(self, path: str) -> None:
        if path.endswith("broadcasts"):
            self._fail("sync_folder")
        super().sync_folder(path)

    def unlink(self, path: str) -> None:
        self._fail("unlink")
        super().unlink(path)

    def _fail(self, call: str) -> None:
        if call in self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def letter(content: str = "hello", kind: MessageType = MessageType.TEXT) -> Message:
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content=content, type=kind)


@pytest.fixture
def system() -> FullSystem:
    return FullSystem()


@pytest.fixture
def open_store(tmp_path: Path, system: FullSystem) -> Callable[..., NativeStore]:
    """Open the mailboxes of ``tmp_path`` anew, as another process would."""

    def open_it(**options: object) -> NativeStore:
        storage = FileStorage(tmp_path, durability="os", system=system, **options)  # type: ignore[arg-type]
        return NativeStore(storage, recovery_patience=0.05)

    return open_it


async def made(store: NativeStore) -> NativeStore:
    for agent in EVERYBODY:
        await store.create(agent)
    return store


async def copies(store: NativeStore) -> list[int]:
    return [len(await store.read(agent)) for agent in EVERYBODY]


def open_broadcasts(tmp_path: Path) -> list[str]:
    folder = tmp_path / "broadcasts"
    return sorted(os.listdir(folder)) if folder.exists() else []


async def test_a_finished_broadcast_leaves_nothing_behind(
    tmp_path: Path, open_store: Callable[..., NativeStore]
) -> None:
    store = await made(open_store())
    result = await store.broadcast([ALICE, BOB, CAROL, BOB], letter())
    assert dict(result.stored) == {ALICE: 0, BOB: 0, CAROL: 0}
    assert open_broadcasts(tmp_path) == []


async def test_who_cannot_be_written_gets_it_from_whoever_broadcasts_next(
    tmp_path: Path, open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    system.full = ("/bob/",)
    first = await store.broadcast(EVERYBODY, letter("first"))
    assert set(first.stored) == {ALICE, CAROL}
    assert set(first.waiting) == first.kept == {BOB}
    assert "no space left" in first.waiting[BOB]
    assert "do not send it again" in first.waiting[BOB]
    assert len(open_broadcasts(tmp_path)) == 1
    system.full = ()
    recovered: list[Recovery] = []
    other = open_store()
    other.on_recovery(recovered.append)
    await other.broadcast(EVERYBODY, letter("second"))
    assert [r.stored for r in recovered] == [{ALICE: 0, BOB: 0, CAROL: 0}]
    for agent in EVERYBODY:
        assert [m.message.content for m in await store.read(agent)] == ["first", "second"]
    assert open_broadcasts(tmp_path) == []


async def test_a_retry_to_the_one_who_waits_doubles_nothing(
    tmp_path: Path, open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    system.full = ("/bob/",)
    message = letter()
    await store.broadcast(EVERYBODY, message)
    system.full = ()
    await store.write(BOB, message.model_copy(update={"recipient": BOB}), since=0)
    await store.recover()
    await store.broadcast(EVERYBODY, message, since=0)
    assert await copies(store) == [1, 1, 1]
    assert open_broadcasts(tmp_path) == []


async def test_a_held_lock_holds_up_nobody_but_its_owner(open_store: Callable[..., NativeStore]) -> None:
    store = await made(open_store(lock_wait=0.05))
    with open_store().storage.lease("inboxes/bob/lock").hold("me"):
        first = await store.broadcast(EVERYBODY, letter("first"))
        second = await store.broadcast([ALICE, CAROL], letter("second"))
    assert set(first.waiting) == {BOB}
    assert "locked by" in first.waiting[BOB]
    assert set(second.stored) == {ALICE, CAROL}
    (recovery,) = await store.recover()
    assert set(recovery.stored) == set(EVERYBODY)
    assert await copies(store) == [2, 1, 2]


async def test_a_folder_in_place_of_a_mailbox_is_named_and_waited_for(
    tmp_path: Path, open_store: Callable[..., NativeStore]
) -> None:
    store = await made(open_store())
    path = tmp_path / "inboxes/bob/000000000000.jsonl"
    path.mkdir()
    result = await store.broadcast(EVERYBODY, letter())
    assert set(result.stored) == {ALICE, CAROL}
    assert "000000000000.jsonl" in result.waiting[BOB]
    path.rmdir()
    await store.recover()
    assert await copies(store) == [1, 1, 1]


async def test_nobody_has_it_when_it_cannot_be_noted(
    tmp_path: Path, open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    for attempt in ("full", "rename"):
        system.full = ("/broadcasts/",) if attempt == "full" else ()
        system.failing = (attempt,)
        with pytest.raises(StorageError) as caught:
            await store.broadcast(EVERYBODY, letter())
        assert caught.value.remedy
        system.full, system.failing = (), ()
        assert await copies(store) == [0, 0, 0]
        assert open_broadcasts(tmp_path) == []
    synced = await made(NativeStore(FileStorage(tmp_path, system=system)))
    system.failing = ("sync_folder",)
    with pytest.raises(StorageError, match="broadcasts"):
        await synced.broadcast(EVERYBODY, letter())
    assert open_broadcasts(tmp_path) == []
    assert await copies(store) == [0, 0, 0]


async def test_what_cannot_be_removed_afterwards_is_found_again_and_doubles_nothing(
    tmp_path: Path, open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    system.failing = ("unlink",)
    result = await store.broadcast(EVERYBODY, letter())
    assert set(result.stored) == set(EVERYBODY)
    system.failing = ()
    assert len(await open_store().recover()) == 1
    assert await copies(store) == [1, 1, 1]
    assert open_broadcasts(tmp_path) == []


async def test_a_cancelled_broadcast_is_finished_by_the_next(
    tmp_path: Path, open_store: Callable[..., NativeStore]
) -> None:
    store = await made(open_store(lock_wait=60.0))
    with open_store().storage.lease("inboxes/bob/lock").hold("me"):
        async with anyio.create_task_group() as group:
            group.start_soon(store.broadcast, EVERYBODY, letter())
            while await copies(store) != [1, 0, 1]:
                await anyio.lowlevel.checkpoint()
            # Its lock is held, so nobody else takes it up.
            assert await open_store().recover() == []
            group.cancel_scope.cancel()
    assert len(open_broadcasts(tmp_path)) == 1
    await open_store().recover()
    assert await copies(store) == [1, 1, 1]


async def test_a_recipient_who_is_gone_is_dropped_and_told_of(
    tmp_path: Path, open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    system.full = ("/bob/",)
    message = letter()
    await store.broadcast(EVERYBODY, message)
    shutil.rmtree(tmp_path / "inboxes/bob")
    assert await store.recover() == [Recovery(message.id, {ALICE: 0, CAROL: 0}, {}, (BOB,))]
    assert open_broadcasts(tmp_path) == []
    assert await store.recover() == []


async def test_a_draft_of_a_dead_sender_is_removed_and_that_of_a_living_one_kept(
    tmp_path: Path, open_store: Callable[..., NativeStore]
) -> None:
    store = await made(open_store())
    folder = tmp_path / "broadcasts"
    folder.mkdir()
    (folder / "1-dead.tmp").write_text('{"recipients":')
    (folder / "2-living.tmp").write_text("")
    with FileStorage(tmp_path).lease("broadcasts/2-living.tmp").hold("me"):
        assert await store.recover() == []
        assert open_broadcasts(tmp_path) == ["2-living.tmp"]
    assert await copies(store) == [0, 0, 0]


@pytest.mark.parametrize("content", [b"", b"\0\0", b'{"recipients":{"../x":0},"message":{}}', b"[]", b'{"a":1}'])
async def test_a_broadcast_that_cannot_be_read_is_left_alone_and_shown(
    tmp_path: Path, open_store: Callable[..., NativeStore], content: bytes
) -> None:
    store = await made(open_store())
    path = tmp_path / "broadcasts/1-odd.json"
    path.parent.mkdir()
    path.write_bytes(content)
    assert set((await store.broadcast(EVERYBODY, letter())).stored) == set(EVERYBODY)
    assert path.read_bytes() == content
    assert [f.flaw for f in await store.examine(ALICE)] == [Flaw.UNREADABLE]
    assert [f.mended for f in await store.mend(ALICE)] == [False]


@pytest.mark.parametrize("plant", ["link", "fifo"])
async def test_a_planted_link_or_fifo_is_not_followed(
    tmp_path: Path, open_store: Callable[..., NativeStore], plant: str
) -> None:
    store = await made(open_store())
    (tmp_path / "broadcasts").mkdir()
    victim = tmp_path / "victim"
    victim.write_text(json.dumps({"recipients": {"alice": 0}, "message": {}}))
    for name in ("1-odd.json", "1-odd.tmp"):
        if plant == "link":
            (tmp_path / "broadcasts" / name).symlink_to(victim)
        else:
            os.mkfifo(tmp_path / "broadcasts" / name)
    with anyio.fail_after(5):
        await store.broadcast(EVERYBODY, letter())
    assert victim.read_text().startswith('{"recipients"')
    assert await copies(store) == [1, 1, 1]


async def test_a_linked_folder_of_broadcasts_is_refused(tmp_path: Path, open_store: Callable[..., NativeStore]) -> None:
    store = await made(open_store())
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "broadcasts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="broadcasts"):
        await store.broadcast(EVERYBODY, letter())
    assert os.listdir(tmp_path / "elsewhere") == []


async def test_a_full_mailbox_is_named_left_out_and_not_waited_for(tmp_path: Path) -> None:
    for store in (LogStore(tmp_path, max_unread=2, durability="os"), MemoryStore(max_unread=2)):
        await made(store)
        await store.write(BOB, letter())
        await store.write(BOB, letter())
        result = await store.broadcast(EVERYBODY, letter())
        assert set(result.stored) == {ALICE, CAROL}
        assert "2 messages" in result.waiting[BOB]
        assert result.kept == frozenset()
        assert await store.recover() == []
        assert set((await store.broadcast(EVERYBODY, letter(kind=MessageType.TASK_COMPLETED))).stored) == set(EVERYBODY)


async def test_what_is_open_is_shown_to_who_misses_it_and_mended(
    open_store: Callable[..., NativeStore], system: FullSystem
) -> None:
    store = await made(open_store())
    system.full = ("/bob/",)
    await store.broadcast(EVERYBODY, letter())
    assert await store.examine(ALICE) == []
    assert [(f.flaw, f.mended) for f in await store.examine(BOB)] == [(Flaw.UNFINISHED, False)]
    assert [(f.flaw, f.mended) for f in await store.mend(BOB)] == [(Flaw.UNFINISHED, False)]
    system.full = ()
    assert [(f.flaw, f.mended) for f in await store.mend(BOB)] == [(Flaw.UNFINISHED, True)]
    assert await store.examine(BOB) == []
    assert await copies(store) == [1, 1, 1]
