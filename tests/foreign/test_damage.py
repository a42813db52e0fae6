"""Damaged files are kept as they are, told once, and what is good in them is delivered."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from pseudoclaude.errors import MailboxDamagedError, StorageError
from pseudoclaude.ids import AgentId
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from pseudoclaude.storage.system import OpenFile, System
from tests.foreign.conftest import ALICE, OpenStore, Store, entry_of, file_of, letter, texts_in

BOB = AgentId("bob")


async def contents(store: Store) -> list[str]:
    return [item.message.content for item in await store.read_unread(ALICE)]


def good(format_: str) -> bytes:
    return file_of(format_, entry_of(format_, "one"), entry_of(format_, "two"))


DAMAGES: dict[str, Callable[[str], bytes]] = {
    "cut": lambda format_: good(format_)[:-20],
    "null": lambda format_: b"null",
    "object": lambda format_: b"{}",
    "byte order mark": lambda format_: b"\xef\xbb\xbf" + good(format_),
    "rubbish behind": lambda format_: good(format_) + b"]",
    "zero bytes": lambda format_: b"\0" * 2048,
    "a number": lambda format_: b"12",
}
DELIVERED = {"cut": ["one"], "byte order mark": ["one", "two"], "rubbish behind": ["one", "two"]}


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_file_is_kept_and_told_once(format_: str, root: Path, open_store: OpenStore, name: str) -> None:
    path = root / "alice.json"
    data = DAMAGES[name](format_)
    path.write_bytes(data)
    store = open_store()
    told: list[MailboxDamagedError] = []
    store.on_damage(told.append)
    for _ in range(5):
        assert await contents(store) == DELIVERED.get(name, [])
        with pytest.raises(MailboxDamagedError, match=r"alice\.json") as caught:
            await store.write(ALICE, letter("refused"))
        assert caught.value.remedy
    other = open_store()
    with pytest.raises(MailboxDamagedError):
        await other.read(ALICE)
    assert len(await other.read(ALICE)) == len(DELIVERED.get(name, []))
    assert path.read_bytes() == data
    assert len(told) == 1
    (copy,) = [root / name for name in os.listdir(root) if name != path.name]
    assert copy.read_bytes() == data
    assert str(copy) in str(told[0])
    await store.write(BOB, letter(to=BOB))
    path.unlink()
    await store.write(ALICE, letter("again"))
    assert await contents(store) == ["again"]


async def test_a_file_of_no_bytes_is_told_and_takes_mail_again(format_: str, root: Path, open_store: OpenStore) -> None:
    path = root / "alice.json"
    path.write_bytes(b"")
    store = open_store()
    told: list[MailboxDamagedError] = []
    store.on_damage(told.append)
    assert await contents(store) == []
    assert await store.write(ALICE, letter("first")) == 0
    assert texts_in(format_, path) == ["first"]
    assert len(told) == 1
    assert os.listdir(root) == ["alice.json"]


async def test_bad_entries_are_told_and_kept_and_the_good_ones_delivered(
    format_: str, root: Path, open_store: OpenStore
) -> None:
    path = root / "alice.json"
    bad = ["a text", 7, None, {"from": 1}, {"text": "no sender", "content": "no sender"}]
    data = file_of(format_, entry_of(format_, "one"), *bad, entry_of(format_, "two"))  # type: ignore[arg-type]
    path.write_bytes(data)
    store = open_store()
    for _ in range(3):
        assert await contents(store) == ["one", "two"]
    told: list[MailboxDamagedError] = []
    store.on_damage(told.append)
    assert await contents(store) == ["one", "two"]
    assert len(told) == len(bad)
    await store.mark_read(ALICE, [item.index for item in await store.read_unread(ALICE)])
    await store.write(ALICE, letter("three"))
    assert await contents(store) == ["three"]
    after = json.loads(path.read_bytes())
    assert (after["messages"] if format_ == "box" else after)[1 : 1 + len(bad)] == bad


async def test_a_byte_that_is_no_utf8_stays_and_the_message_is_shown(
    format_: str, root: Path, open_store: OpenStore
) -> None:
    path = root / "alice.json"
    path.write_bytes(good(format_).replace(b"one", b"o\xffe"))
    store = open_store()
    assert await contents(store) == ["o\ufffde", "two"]
    await store.write(ALICE, letter("three"))
    assert b'"o\xffe"' in path.read_bytes()


async def test_a_folder_in_the_place_of_a_mailbox_is_told_at_once(
    format_: str, root: Path, open_store: OpenStore
) -> None:
    (root / "alice.json").mkdir()
    store = open_store(lock_wait=60)
    with anyio.fail_after(10):
        for attempt in (store.write(ALICE, letter()), store.read(ALICE), store.peek(ALICE)):
            with pytest.raises(StorageError, match=r"alice\.json"):
                await attempt
        result = await store.broadcast([ALICE, BOB], letter())
    assert set(result.stored) == {BOB}
    assert "alice.json" in result.waiting[ALICE]
    assert os.listdir(root / "alice.json") == []
    assert not (root / "alice.json.lock").exists()


@pytest.mark.parametrize("looks", [1, 2])
async def test_a_write_that_is_seen_half_done_is_no_damage(
    format_: str, root: Path, open_store: OpenStore, looks: int
) -> None:
    path = root / "alice.json"
    whole = good(format_)
    path.write_bytes(whole[:30])

    class FinishingSystem(System):
        """The writer goes on after we have read the first half of what it writes, once or twice."""

        seen = 0

        def read(self, file: OpenFile, size: int, offset: int) -> bytes:
            data = super().read(file, size, offset)
            self.seen += not data
            if self.seen == looks:
                path.write_bytes(whole)
            return data

    store = open_store(system=FinishingSystem())
    told: list[MailboxDamagedError] = []
    store.on_damage(told.append)
    assert await contents(store) == ["one", "two"]
    assert not told
    assert os.listdir(root) == ["alice.json"]


# -- links and modes


async def test_a_linked_folder_is_used_and_a_linked_mailbox_refused(
    format_: str, root: Path, tmp_path: Path, open_store: OpenStore
) -> None:
    (tmp_path / "link").symlink_to(root)
    await open_store(root=tmp_path / "link").write(ALICE, letter("one"))
    assert (tmp_path / "link").is_symlink()
    assert texts_in(format_, root / "alice.json") == ["one"]
    (root / "bob.json").symlink_to(root / "alice.json")
    before = (root / "alice.json").read_bytes()
    store = open_store()
    for attempt in (store.write(BOB, letter()), store.read(BOB)):
        with pytest.raises(StorageError, match=r"bob\.json: a symbolic link") as caught:
            await attempt
        assert caught.value.remedy
    assert (root / "bob.json").is_symlink()
    assert (root / "alice.json").read_bytes() == before


@pytest.mark.parametrize("mode", [0o644, 0o664, 0o600])
async def test_the_mode_of_a_mailbox_is_kept(format_: str, root: Path, open_store: OpenStore, mode: int) -> None:
    path = root / "alice.json"
    path.write_bytes(good(format_))
    path.chmod(mode)
    store = open_store()
    await store.write(ALICE, letter())
    await store.mark_read(ALICE, [0])
    assert stat.S_IMODE(path.stat().st_mode) == mode


FULL = """
import resource, signal, sys
import anyio
from pseudoclaude.errors import StorageError
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from tests.foreign.conftest import ALICE, letter

async def main(root, format_):
    store = (BoxStore if format_ == "box" else ClaudeInboxStore)(root)
    await store.write(ALICE, letter("one"))
    before = open(f"{root}/alice.json", "rb").read()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        await store.write(ALICE, letter("x" * 5000))
    except StorageError as error:
        assert "too large" in str(error) and error.remedy, error
    else:
        raise AssertionError("stored")
    assert open(f"{root}/alice.json", "rb").read() == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.write(ALICE, letter("two"))

anyio.run(main, *sys.argv[1:])
"""


def test_a_disk_that_is_full_leaves_the_mailbox_as_it_was(format_: str, root: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", FULL, root, format_], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert texts_in(format_, root / "alice.json") == ["one", "two"]
    assert os.listdir(root) == ["alice.json"]


# -- the other program removes what it delivered


async def test_an_index_outlives_what_the_other_program_removes(root: Path) -> None:
    path = root / "alice.json"
    entries = [entry_of("claude", text, msg_id=f"id-{text}", color="blue") for text in ("one", "two", "three")]
    path.write_bytes(file_of("claude", *entries))
    store = ClaudeInboxStore(root, durability="os")
    indices = {item.message.content: item.index for item in await store.read_unread(ALICE)}
    path.write_bytes(file_of("claude", *entries[1:]))
    await store.mark_read(ALICE, [indices["one"], indices["three"]])
    assert [entry["read"] for entry in json.loads(path.read_bytes())] == [False, True]
    assert [(item.message.content, item.index) for item in await store.read_unread(ALICE)] == [("two", indices["two"])]
    path.write_bytes(b"[]")
    assert await store.read(ALICE) == []
    assert await store.end(ALICE) == 3
    late = letter("late")
    assert await store.write(ALICE, late) == 3
    # In another process indices begin anew, and a retry finds the message by its id.
    assert await ClaudeInboxStore(root).write(ALICE, late, since=3) == 0
    assert len(json.loads(path.read_bytes())) == 1


async def test_indices_of_a_box_are_places(root: Path) -> None:
    (root / "alice.json").write_bytes(file_of("box", *(entry_of("box", text) for text in ("one", "two", "three"))))
    store = BoxStore(root, durability="os")
    assert [item.index for item in await store.read(ALICE, start=1)] == [1, 2]
    assert await store.write(ALICE, letter("four"), since=3) == 3


async def test_an_unchanged_file_is_not_read_again(format_: str, root: Path, open_store: OpenStore) -> None:
    class CountingSystem(System):
        reads = 0

        def read(self, file: OpenFile, size: int, offset: int) -> bytes:
            self.reads += 1
            return super().read(file, size, offset)

    path = root / "alice.json"
    path.write_bytes(good(format_))
    os.utime(path, (1, 1))
    system = CountingSystem()
    store = open_store(system=system)
    assert (await store.peek(ALICE)).unread == 2
    after = system.reads
    for _ in range(10):
        assert await store.has_unread(ALICE)
        assert (await store.peek(ALICE)).waking == 2
    assert system.reads == after


async def test_the_bytes_are_on_the_disk_before_they_take_the_place_of_the_others(open_store: OpenStore) -> None:
    calls: list[str] = []

    class NotingSystem(System):
        def fdatasync(self, file: OpenFile) -> None:
            calls.append("sync")
            super().fdatasync(file)

        def rename(self, source: str, target: str) -> None:
            calls.append("rename")
            super().rename(source, target)

        def sync_folder(self, path: str) -> None:
            calls.append("sync folder")
            super().sync_folder(path)

    await open_store(system=NotingSystem(), durability="disk").write(ALICE, letter())
    assert calls == ["sync", "rename", "sync folder"]
