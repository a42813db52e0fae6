"""The locks of the other programs: never two inside, never anything removed that is no lock, and no hanging."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pseudoclaude.errors import MailboxBusyError, MessageLostError, StorageError
from pseudoclaude.mailbox.foreign.locks import FileLock, FolderLock, Waiter
from pseudoclaude.storage.system import OpenFile, System
from tests.foreign.conftest import (
    ALICE,
    OpenStore,
    StartChild,
    entry_of,
    file_of,
    go,
    letter,
    texts_in,
)


def leave_lock(format_: str, path: Path, age: float = 60) -> None:
    """A lock whose holder died."""
    if format_ == "box":
        path.write_text("2026-11-30T12:00:00Z")
    else:
        path.mkdir()
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))


async def test_a_lock_left_behind_is_taken(format_: str, root: Path, open_store: OpenStore) -> None:
    leave_lock(format_, root / "alice.json.lock")
    (root / "alice.json.tmp.0123abcd").write_text("half")
    (root / ".tmp-alice-0123abcd.json").write_text("half")
    (root / ".tmp-bob-0123abcd.json").write_text("another's")
    assert await open_store().write(ALICE, letter()) == 0
    left = {"alice.json", ".tmp-bob-0123abcd.json"}
    left.add("alice.json.tmp.0123abcd" if format_ == "box" else ".tmp-alice-0123abcd.json")
    assert set(os.listdir(root)) == left


async def test_a_lock_that_is_young_or_is_touched_is_never_taken(
    format_: str, root: Path, open_store: OpenStore
) -> None:
    lock = root / "alice.json.lock"
    leave_lock(format_, lock, age=9)
    with pytest.raises(MailboxBusyError, match=r"alice\.json\.lock"):
        await open_store(lock_wait=0.2).write(ALICE, letter())
    os.utime(lock, (1, 1))
    with pytest.raises(MailboxBusyError):
        await open_store(lock_wait=0.2, unchanged_for=60).write(ALICE, letter())

    class TouchingSystem(System):
        """The holder touches its lock whenever somebody takes the guard, and keeps it old by the clock."""

        times = 0

        def overwrite(self, file: OpenFile, data: bytes) -> int:
            self.times += 1
            os.utime(lock, (100 + self.times, 100 + self.times))
            return super().overwrite(file, data)

    os.utime(lock, (1, 1))
    system = TouchingSystem()
    with pytest.raises(MailboxBusyError):
        await open_store(lock_wait=0.3, system=system).write(ALICE, letter())
    assert lock.exists()
    assert system.times
    assert not (root / "alice.json").exists()


class PausingSystem(System):
    """Stops between finding a lock old and removing it."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def unlink(self, path: str) -> None:
        self._pause(path)
        super().unlink(path)

    def rmdir(self, path: str) -> None:
        self._pause(path)
        super().rmdir(path)

    def _pause(self, path: str) -> None:
        if path.endswith(".json.lock") and not self.entered.is_set():
            self.entered.set()
            assert self.go_on.wait(60)


async def test_two_of_ours_never_take_one_lock(format_: str, root: Path, open_store: OpenStore) -> None:
    leave_lock(format_, root / "alice.json.lock")
    system = PausingSystem()
    async with anyio.create_task_group() as group:
        group.start_soon(open_store(system=system, lock_wait=60).write, ALICE, letter("slow"))
        await anyio.to_thread.run_sync(system.entered.wait)
        with pytest.raises(MailboxBusyError):
            await open_store(lock_wait=0.3).write(ALICE, letter("quick"))
        system.go_on.set()
    await open_store().write(ALICE, letter("quick"))
    assert texts_in(format_, root / "alice.json") == ["slow", "quick"]


@pytest.mark.slow
def test_sixteen_processes_are_never_inside_together(format_: str, root: Path, start_child: StartChild) -> None:
    lock = root / "alice.json.lock"
    children = [start_child("our_child.py", "lock", format_, lock, 100) for _ in range(16)]
    for _ in range(100):
        leave_lock(format_, lock)
        for child in children:
            go(child)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "done\n"
    for child in children:
        child.communicate("\n", timeout=30)
        assert child.returncode == 0


async def test_a_lock_of_ours_keeps_the_other_program_out(format_: str, root: Path) -> None:
    path = root / "alice.json.lock"
    kind = FileLock if format_ == "box" else FolderLock
    hold = Waiter(kind(System(), str(path), stale_after=10, unchanged_for=0.25)).attempt()
    assert hold is not None
    with pytest.raises(FileExistsError):
        path.mkdir()
    with pytest.raises(FileExistsError):
        os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    assert Waiter(kind(System(), str(path), stale_after=10, unchanged_for=0.25)).attempt() is None
    hold.release()
    hold.release()
    assert not path.exists()


async def test_a_lock_that_was_taken_from_us_is_not_removed(format_: str, root: Path) -> None:
    path = root / "alice.json.lock"
    kind = FileLock if format_ == "box" else FolderLock
    hold = kind(System(), str(path), stale_after=10, unchanged_for=0.25).take()
    assert hold is not None
    path.rename(root / "moved")
    leave_lock(format_, path)
    assert not hold.is_ours()
    hold.release()
    assert path.exists()


# -- what is planted there


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    path.write_text("precious")
    yield
    assert path.read_text() == "precious"


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("plant", ["link", "dangling", "fifo", "other"])
async def test_what_is_no_lock_is_named_at_once_and_left(
    format_: str, root: Path, tmp_path: Path, open_store: OpenStore, plant: str, old: bool
) -> None:
    lock = root / "alice.json.lock"
    victim = tmp_path / "victim"
    with unchanged(victim):
        if plant == "link":
            lock.symlink_to(victim)
        elif plant == "dangling":
            lock.symlink_to(tmp_path / "nowhere")
        elif plant == "fifo":
            os.mkfifo(lock)
        elif format_ == "box":
            lock.mkdir()
        else:
            lock.write_text("2026-11-30T12:00:00Z")
        if old:
            os.utime(lock, (1, 1), follow_symlinks=False)
        before = lock.lstat()
        with anyio.fail_after(10), pytest.raises(StorageError, match=r"alice\.json\.lock: there is a") as caught:
            await open_store(lock_wait=60).write(ALICE, letter())
        assert caught.value.remedy
        assert lock.lstat() == before
    assert not (tmp_path / "nowhere").exists()
    assert os.listdir(root) == [lock.name]


async def test_an_old_folder_that_is_not_empty_is_never_emptied(root: Path, open_store: OpenStore) -> None:
    lock = root / "alice.json.lock"
    lock.mkdir()
    (lock / "inside").write_text("")
    os.utime(lock, (1, 1))
    store = open_store(lock_wait=60)
    with anyio.fail_after(10), pytest.raises(StorageError, match=r"alice\.json\.lock") as caught:
        await store.write(ALICE, letter())
    assert caught.value.remedy
    assert (lock / "inside").exists()


@pytest.mark.parametrize("plant", ["link", "dangling", "fifo"])
async def test_what_is_planted_at_the_temporary_file_is_not_followed(
    format_: str, root: Path, tmp_path: Path, open_store: OpenStore, plant: str
) -> None:
    victim = tmp_path / "victim"

    class PlantingSystem(System):
        planted: str = ""

        def open(self, path: str, flags: int) -> OpenFile:
            if "tmp" in os.path.basename(path) and not self.planted:
                self.planted = path
                if plant == "fifo":
                    os.mkfifo(path)
                else:
                    os.symlink(victim if plant == "link" else tmp_path / "nowhere", path)
            return super().open(path, flags)

    system = PlantingSystem()
    with unchanged(victim), anyio.fail_after(10):
        await open_store(system=system).write(ALICE, letter())
    assert system.planted
    assert texts_in(format_, root / "alice.json") == ["hello"]
    assert not (tmp_path / "nowhere").exists()


# -- another program that ignores the lock, or takes it away


class RudeSystem(System):
    """Puts another file in the place of the mailbox right after each of our writes, so many times."""

    def __init__(self, path: Path, data: bytes, times: int) -> None:
        self.path, self.data, self.times = path, data, times

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if self.times:
            self.times -= 1
            self.path.write_bytes(self.data)


async def test_what_is_overwritten_is_written_again_once(format_: str, root: Path, open_store: OpenStore) -> None:
    path = root / "alice.json"
    rude = file_of(format_, entry_of(format_, "rude"))
    store = open_store(system=RudeSystem(path, rude, 1))
    assert await store.write(ALICE, letter("kept")) == 1
    assert texts_in(format_, path) == ["rude", "kept"]


async def test_what_is_overwritten_twice_is_told(format_: str, root: Path, open_store: OpenStore) -> None:
    path = root / "alice.json"
    rude = file_of(format_, entry_of(format_, "rude"))
    with pytest.raises(MessageLostError, match=r"alice\.json") as caught:
        await open_store(system=RudeSystem(path, rude, 2)).write(ALICE, letter("lost"))
    assert "again" in caught.value.remedy
    assert texts_in(format_, path) == ["rude"]
    assert os.listdir(root) == ["alice.json"]


class ThiefSystem(System):
    """Takes the lock away before or after a rename, and writes what it had read before, with a message of its own."""

    def __init__(self, format_: str, path: Path, when: str) -> None:
        self.format, self.path, self.when = format_, path, when
        self.lock_path = path.with_name(f"{path.name}.lock")
        self.data = file_of(format_, entry_of(format_, "first"), entry_of(format_, "theirs"))

    def chmod(self, path: str, mode: int) -> None:
        super().chmod(path, mode)
        if self.when == "before":
            self._steal()
            self._write()

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if self.when == "after":
            self._steal()
            threading.Timer(0.05, self._write).start()

    def _steal(self) -> None:
        self.when = ""
        self.lock_path.rename(self.lock_path.with_name("stolen"))
        leave_lock(self.format, self.lock_path, age=0)

    def _write(self) -> None:
        self.path.write_bytes(self.data)
        if self.format == "claude":
            self.lock_path.rmdir()
        else:
            self.lock_path.unlink()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_writer_whose_lock_is_taken_loses_nothing_and_stores_once(
    format_: str, root: Path, open_store: OpenStore, when: str
) -> None:
    path = root / "alice.json"
    path.write_bytes(file_of(format_, entry_of(format_, "first")))
    system = ThiefSystem(format_, path, when)
    store = open_store(system=system)
    index = await store.write(ALICE, letter("second"))
    assert system.when == ""
    assert texts_in(format_, path) == ["first", "theirs", "second"]
    assert (await store.read(ALICE, start=index))[0].message.content == "second"


# -- what the disk says


class RefusingSystem(System):
    """A disk that says no to one kind of call."""

    def __init__(self, call: str, code: int) -> None:
        def refuse(*_: Any) -> Any:
            raise OSError(code, os.strerror(code))

        setattr(self, call, refuse)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["open", "write", "rename", "fdatasync"])
async def test_what_the_disk_says_is_raised_at_once_and_the_mailbox_is_as_it_was(
    format_: str, root: Path, open_store: OpenStore, call: str, code: int
) -> None:
    await open_store().write(ALICE, letter("kept"))
    before = (root / "alice.json").read_bytes()
    store = open_store(system=RefusingSystem(call, code), durability="disk", lock_wait=60)
    with anyio.fail_after(10), pytest.raises(StorageError, match=r"alice\.json") as caught:
        await store.write(ALICE, letter("refused"))
    assert caught.value.remedy
    assert (root / "alice.json").read_bytes() == before
    assert os.listdir(root) == ["alice.json"]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everywhere; for a moment this process is somebody else."""
    if os.geteuid():
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_folder_that_is_missing_or_forbidden_or_a_file_is_told_at_once(
    format_: str, tmp_path: Path, root: Path, open_store: OpenStore
) -> None:
    (tmp_path / "file").write_text("")
    places = [tmp_path / "no" / "inboxes", tmp_path / "file" / "inboxes", tmp_path / "file", tmp_path / ("x" * 300)]
    with anyio.fail_after(20):
        for place in places:
            store = open_store(root=place, lock_wait=60)
            for attempt in (store.create(ALICE), store.write(ALICE, letter()), store.read_unread(ALICE)):
                with pytest.raises(StorageError) as caught:
                    await attempt
                assert str(tmp_path) in str(caught.value)
                assert caught.value.remedy
        for folder in (root, tmp_path, *tmp_path.parents[:2]):
            os.chmod(folder, 0o555 if folder == root else 0o755)
        with unprivileged(), pytest.raises(StorageError, match="permission denied") as caught:
            await open_store(lock_wait=60).write(ALICE, letter())
    assert "permissions" in caught.value.remedy
