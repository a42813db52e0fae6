"""A mailbox that nobody reads refuses at some point; until then the limits cost nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pseudoclaude.errors import MailboxFullError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message, MessageType
from pseudoclaude.mailbox.native import LogStore, MemoryStore, NativeStore
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import OpenFile, System

ALICE = AgentId("alice")


def letter(content: str = "hello", kind: MessageType | str = MessageType.TEXT) -> Message:
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content=content, type=kind)


class CountingSystem(System):
    """Counts the calls, and the bytes that are read."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bytes_read = 0

    def open(self, path: str, flags: int) -> OpenFile:
        self.calls["open"] += 1
        return super().open(path, flags)

    def read(self, file: OpenFile, size: int, offset: int) -> bytes:
        data = super().read(file, size, offset)
        self.calls["read"] += 1
        self.bytes_read += len(data)
        return data

    def write(self, file: OpenFile, data: bytes) -> int:
        self.calls["write"] += 1
        return super().write(file, data)

    def stat(self, path: str):  # type: ignore[no-untyped-def]
        self.calls["stat"] += 1
        return super().stat(path)

    def fstat(self, file: OpenFile):  # type: ignore[no-untyped-def]
        self.calls["fstat"] += 1
        return super().fstat(file)

    def listdir(self, path: str) -> list[str]:
        self.calls["listdir"] += 1
        return super().listdir(path)

    def start(self) -> None:
        self.calls.clear()
        self.bytes_read = 0


async def fill(store: NativeStore, numbers: Iterator[int]) -> None:
    for _ in numbers:
        await store.write(ALICE, letter("x" * 900))


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> NativeStore:
    if request.param == "memory":
        return MemoryStore(max_unread=3)
    return LogStore(tmp_path, durability="os", max_unread=3)


async def test_a_full_mailbox_refuses_and_says_what_the_sender_can_do(store: NativeStore) -> None:
    await store.create(ALICE)
    for _ in range(3):
        await store.write(ALICE, letter())
    for _ in range(2):
        with pytest.raises(MailboxFullError, match="3 messages") as caught:
            await store.write(ALICE, letter())
        assert "when alice has read some" in caught.value.remedy
    assert len(await store.read(ALICE)) == 3


async def test_it_takes_mail_again_when_some_was_read(store: NativeStore) -> None:
    await store.create(ALICE)
    for _ in range(3):
        await store.write(ALICE, letter())
    with pytest.raises(MailboxFullError):
        await store.write(ALICE, letter())
    await store.mark_read(ALICE, [1])
    assert await store.write(ALICE, letter()) == 3
    with pytest.raises(MailboxFullError):
        await store.write(ALICE, letter())


async def test_what_only_the_runtime_makes_is_always_taken(store: NativeStore) -> None:
    await store.create(ALICE)
    for _ in range(5):
        await store.write(ALICE, letter(kind=MessageType.TASK_COMPLETED))
    for kind in (MessageType.TEXT, MessageType.NOTE, "of another program"):
        with pytest.raises(MailboxFullError):
            await store.write(ALICE, letter(kind=kind))


async def test_a_retry_of_what_is_stored_finds_it_in_a_full_mailbox(store: NativeStore) -> None:
    await store.create(ALICE)
    message = letter()
    for index in range(3):
        assert await store.write(ALICE, message if index == 1 else letter()) == index
    assert await store.write(ALICE, message, since=0) == 1
    with pytest.raises(MailboxFullError):
        await store.write(ALICE, letter(), since=0)


async def test_bytes_are_limited_too(tmp_path: Path) -> None:
    store = LogStore(tmp_path, durability="os", max_unread_bytes=10_000, segment_bytes=3_000)
    await store.create(ALICE)
    sizes = iter(range(20))
    with pytest.raises(MailboxFullError, match="bytes"):
        await fill(store, sizes)
    written = next(sizes) - 1
    assert 8 <= written <= 10
    await store.mark_read(ALICE, range(written - 1))
    assert await store.write(ALICE, letter()) == written


async def test_what_other_processes_write_and_read_counts(tmp_path: Path) -> None:
    one, other = (LogStore(tmp_path, durability="os", max_unread=6) for _ in range(2))
    await one.create(ALICE)
    for _ in range(3):
        await one.write(ALICE, letter())
        await other.write(ALICE, letter())
    await one.write(ALICE, letter())
    for store in (one, other):
        with pytest.raises(MailboxFullError):
            await store.write(ALICE, letter())
    await other.mark_read(ALICE, [0, 1])
    await one.write(ALICE, letter())


async def test_far_from_the_limit_a_write_looks_at_nothing_for_it(tmp_path: Path) -> None:
    system = CountingSystem()
    store = NativeStore(FileStorage(tmp_path, durability="os", system=system))
    await store.create(ALICE)
    await store.write(ALICE, letter())
    await store.write(ALICE, letter())
    for _ in range(100):
        system.start()
        await store.write(ALICE, letter())
        assert system.calls == {"fstat": 2, "write": 1}


async def test_collect_peek_and_send_cost_the_same_with_ten_thousand_read_messages(tmp_path: Path) -> None:
    costs = []
    for history in (0, 10_000):
        folder = tmp_path / str(history)
        filling = LogStore(folder, durability="os", max_unread=1 << 20)
        await filling.create(ALICE)
        for _ in range(history):
            await filling.write(ALICE, letter("x" * 2_000))
        await filling.mark_read(ALICE, range(history))
        for _ in range(3):
            await filling.write(ALICE, letter("x" * 2_000))
        for warm in (False, True):
            system = CountingSystem()
            store = NativeStore(FileStorage(folder, durability="os", system=system), prefix="")
            if warm:
                await store.peek(ALICE)
                await store.write(ALICE, letter("x" * 2_000))
                await store.read_unread(ALICE, limit=1)
            spent = []
            for act in (
                store.peek(ALICE),
                store.has_unread(ALICE),
                store.read_unread(ALICE),
                store.end(ALICE),
                store.write(ALICE, letter("x" * 2_000)),
                store.peek(ALICE),
                store.mark_read(ALICE, [history + 0]),
                store.peek(ALICE),
            ):
                system.start()
                await act
                spent.append((sum(system.calls.values()), system.bytes_read))
            costs.append(spent)
    for empty, full in ((costs[0], costs[2]), (costs[1], costs[3])):
        for (calls, read), (calls_full, read_full) in zip(empty, full, strict=True):
            # A hint that is confirmed, a listing where the first segment was a guess, and the end of a longer segment.
            assert calls_full <= calls + 6
            assert read_full <= read + (16 << 10)
