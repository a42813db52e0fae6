"""What our store does beyond the contract: errors in its own words, damage, what it costs to look."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import pytest

from pseudoclaude.errors import InvalidMessageError, InvalidNameError, MailboxBusyError, StorageError
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import LogStore, MemoryStore, NativeStore
from pseudoclaude.mailbox.store import MailStore
from pseudoclaude.storage.base import Damage, Storage
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.storage.system import OpenFile, System

ALICE, BOB = AgentId("alice"), AgentId("bob")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops."""
    return str(request.param)


def letter(content: str = "hello") -> Message:
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content=content)


class CountingSystem(System):
    """Counts the bytes that are read, and fails writes below a folder."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.broken = ""

    def read(self, file: OpenFile, size: int, offset: int) -> bytes:
        data = super().read(file, size, offset)
        self.bytes_read += len(data)
        return data

    def write(self, file: OpenFile, data: bytes) -> int:
        if self.broken and self.broken in file.path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(file, data)


def test_the_stores_keep_the_protocol(tmp_path: Path) -> None:
    stores: list[MailStore] = [LogStore(tmp_path), MemoryStore(), NativeStore(MemoryStorage())]
    storages: list[Storage] = [FileStorage(tmp_path), MemoryStorage()]
    assert stores
    assert storages


async def test_a_locked_mailbox_names_file_and_wait(tmp_path: Path) -> None:
    store = LogStore(tmp_path, lock_wait=0.05)
    await store.create(ALICE)
    await store.create(BOB)
    with FileStorage(tmp_path).lease("alice/lock").hold("me"):
        with pytest.raises(MailboxBusyError, match="alice") as caught:
            await store.write(ALICE, letter())
        assert caught.value.holder in ("", str(os.getpid()))
        result = await store.broadcast([ALICE, BOB], letter())
    assert set(result.stored) == {BOB}
    assert "locked by" in result.waiting[ALICE]


async def test_a_full_disk_of_one_leaves_a_broadcast_to_the_others(tmp_path: Path) -> None:
    system = CountingSystem()
    store = NativeStore(FileStorage(tmp_path, system=system))
    await store.create(ALICE)
    await store.create(BOB)
    system.broken = "/alice/"
    with pytest.raises(StorageError, match="no space left"):
        await store.write(ALICE, letter())
    message = letter()
    result = await store.broadcast([ALICE, BOB], message)
    assert set(result.stored) == {BOB}
    assert "Free some space" in result.waiting[ALICE]
    system.broken = ""
    assert set((await store.broadcast([ALICE, BOB], message, since=0)).stored) == {ALICE, BOB}
    assert [len(await store.read(agent)) for agent in (ALICE, BOB)] == [1, 1]


async def test_a_record_that_is_no_message_is_reported_once_and_wedges_nothing(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path, durability="os")
    store = NativeStore(storage)
    damages: list[Damage] = []
    store.on_damage(damages.append)
    await store.create(ALICE)
    log = storage.marked_log("inboxes/alice")
    await log.append(b'{"not":"a message"}')
    await log.append(b'{"id":7,"from":"../x"}')
    index = await store.write(ALICE, letter("kept"))
    await log.append(b'{"also":"none"}')
    for _ in range(2):
        assert [m.index for m in await store.read_unread(ALICE, limit=1)] == [index]
        assert [m.index for m in await store.read(ALICE, limit=1)] == [index]
        assert (await store.peek(ALICE)).unread == 1
    assert [(d.start, d.end) for d in damages] == [(0, 1), (1, 2), (3, 4)]
    await store.mark_read(ALICE, [index])
    assert not await store.has_unread(ALICE)
    assert [r.index for r in await log.unmarked()] == [3]


async def test_damage_of_the_file_is_reported_to_who_asks_later(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    await store.create(ALICE)
    for number in range(3):
        await store.write(ALICE, letter(str(number)))
    path = tmp_path / "alice" / "000000000000.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\0" * (len(lines[1]) - 1) + b"\n" + lines[2])
    again = LogStore(tmp_path)
    assert [m.index for m in await again.read_unread(ALICE)] == [0, 2]
    damages: list[Damage] = []
    again.on_damage(damages.append)
    assert [(d.start, d.end) for d in damages] == [(1, 2)]


async def test_what_peek_reads_follows_what_is_new(tmp_path: Path) -> None:
    system = CountingSystem()
    store = NativeStore(FileStorage(tmp_path, durability="os", system=system))
    await store.create(ALICE)
    for _ in range(200):
        await store.write(ALICE, letter("x" * 2_000))
    assert (await store.peek(ALICE)).unread == 200
    system.bytes_read = 0
    assert (await store.peek(ALICE)).unread == 200
    assert system.bytes_read == 0
    await store.write(ALICE, letter("new"))
    assert (await store.peek(ALICE)).unread == 201
    assert system.bytes_read < 20_000


async def test_taking_mail_costs_the_same_however_much_was_read_before(tmp_path: Path) -> None:
    system = CountingSystem()
    store = NativeStore(FileStorage(tmp_path, durability="os", system=system, segment_bytes=64 << 10))
    await store.create(ALICE)
    costs: list[int] = []
    for _ in range(60):
        for _ in range(10):
            await store.write(ALICE, letter("x" * 1_000))
        system.bytes_read = 0
        await store.mark_read(ALICE, [m.index for m in await store.read_unread(ALICE, limit=10)])
        costs.append(system.bytes_read)
    assert max(costs[-20:]) <= max(costs[:20]) + 4_096
    other = NativeStore(FileStorage(tmp_path, durability="os", system=system))
    await store.write(ALICE, letter("last"))
    system.bytes_read = 0
    assert len(await other.read_unread(ALICE)) == 1
    assert system.bytes_read < 64 << 10


async def test_the_limit_of_a_message_is_the_stores_own(tmp_path: Path) -> None:
    store = LogStore(tmp_path, max_message_bytes=10)
    await store.create(ALICE)
    await store.write(ALICE, letter("x" * 10))
    with pytest.raises(InvalidMessageError, match="at most 10"):
        await store.write(ALICE, letter("x" * 11))
    with pytest.raises(InvalidMessageError, match="at most 10"):
        await store.write(ALICE, letter().model_copy(update={"payload": {"a": "x" * 11}}))
    with pytest.raises(InvalidMessageError):
        await store.broadcast([ALICE], letter("é" * 6))


async def test_a_name_that_could_leave_the_folder_reaches_no_disk(tmp_path: Path) -> None:
    store = LogStore(tmp_path / "inboxes")
    for name in ("../x", "a/b", "..", ".", "", "a\0b", "C:x", "x" * 300, ".hidden", "lead.json.lock"):
        with pytest.raises(InvalidNameError):
            await store.create(cast(AgentId, name))
    assert os.listdir(tmp_path) == []


async def test_strangers_in_the_folder_disturb_no_watch(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    await store.create(ALICE)
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    async with store.watch() as names:
        with anyio.fail_after(5):
            assert await anext(names) == ALICE
    assert [*await store.agents()] == [ALICE, AgentId("empty")]


async def test_marking_names_nobody_to_a_watch(tmp_path: Path) -> None:
    store, other = LogStore(tmp_path, durability="os"), LogStore(tmp_path, durability="os")
    await store.create(ALICE)
    await store.create(BOB)
    index = await store.write(ALICE, letter())
    with anyio.fail_after(5):
        async with store.watch() as names:
            await anext(names)
            await anext(names)
            await other.mark_read(ALICE, [index])
            await other.write(BOB, letter())
            assert await anext(names) == BOB


async def test_a_retry_after_a_cancelled_write_is_stored_once(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    await store.create(ALICE)
    message = letter()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.write(ALICE, message)
    await store.write(ALICE, message, since=0)
    assert len(await store.read(ALICE)) == 1


async def test_ids_of_any_spelling_are_found(tmp_path: Path) -> None:
    store = LogStore(tmp_path, durability="os")
    await store.create(ALICE)
    for text in ('with "quotes"', "back\\slash", "é", "plain#2"):
        message = letter().model_copy(update={"id": MessageId(text)})
        index = await store.write(ALICE, message)
        assert await store.find(ALICE, message.id, since=0) == index
        assert await store.write(ALICE, message, since=0) == index


async def test_more_mailboxes_than_descriptors_may_be_kept(tmp_path: Path) -> None:
    store = LogStore(tmp_path, durability="os")
    agents = [AgentId(f"agent-{n}") for n in range(150)]
    before = len(os.listdir("/dev/fd"))
    for agent in agents:
        await store.create(agent)
    for _ in range(2):
        await store.broadcast(agents, letter())
        for agent in agents:
            await store.mark_read(agent, [m.index for m in await store.read_unread(agent)])
    assert len(os.listdir("/dev/fd")) - before < 300
    assert [len(await store.read(agent)) for agent in agents] == [2] * 150


@pytest.mark.parametrize("durability", ["disk", "os"])
async def test_threads_share_one_store(tmp_path: Path, durability: str) -> None:
    store = LogStore(tmp_path, durability=durability, segment_bytes=2_000)  # type: ignore[arg-type]
    await store.create(ALICE)
    failures: list[BaseException] = []

    async def write(name: int) -> None:
        for number in range(25):
            await store.write(ALICE, letter(f"{name}:{number}"))

    def run(name: int) -> None:
        try:
            anyio.run(write, name)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    assert not failures
    assert [m.index for m in await LogStore(tmp_path).read(ALICE)] == list(range(100))


async def test_a_lost_record_is_told_once_whoever_meets_it(tmp_path: Path) -> None:
    store = LogStore(tmp_path, durability="os")
    await store.create(ALICE)
    for number in range(4):
        await store.write(ALICE, letter(f"letter {number}"))
    (segment,) = (tmp_path / ALICE).glob("0*.jsonl")
    lines = segment.read_bytes().split(b"\n")
    lines[1] = lines[1][:20] + b"\0" * 10 + lines[1][30:]
    segment.write_bytes(b"\n".join(lines))

    reader = LogStore(tmp_path, durability="os")
    told: list[tuple[int, int]] = []
    reader.on_damage(lambda damage: told.append((damage.start, damage.end)))
    for _ in range(2):
        assert len(await reader.read_unread(ALICE)) == 3
        assert (await reader.peek(ALICE)).unread == 3
        assert len(await reader.read(ALICE)) == 3
    assert told == [(1, 2)]
