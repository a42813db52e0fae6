"""Links, FIFOs, missing and forbidden folders: the true error, at once, and nothing written elsewhere."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from pseudoclaude.errors import StorageError
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.system import OpenFile, System

OpenStorage = Callable[..., FileStorage]
KEY = "inboxes/alice"


class FailingSystem(System):
    """A disk that refuses to write, or to sync, when told to."""

    def __init__(self) -> None:
        self.refuse: int | None = None
        self.take: int | None = None
        self.refuse_sync = False

    def write(self, file: OpenFile, data: bytes) -> int:
        if self.take is not None:
            data, self.take = data[: self.take], None
            return super().write(file, data)
        if self.refuse is not None:
            raise OSError(self.refuse, os.strerror(self.refuse))
        return super().write(file, data)

    def fdatasync(self, file: OpenFile) -> None:
        if self.refuse_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().fdatasync(file)


@pytest.mark.parametrize("name", ["lock", "000000000000.jsonl", "read.jsonl"])
@pytest.mark.parametrize("plant", ["link", "fifo", "folder"])
async def test_what_was_planted_is_not_followed(
    tmp_path: Path, open_storage: OpenStorage, name: str, plant: str
) -> None:
    log = open_storage().marked_log(KEY)
    await log.create()
    path = tmp_path / KEY / name
    path.unlink(missing_ok=True)
    (tmp_path / "victim").write_text("")
    if plant == "link":
        path.symlink_to(tmp_path / "victim")
    elif plant == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()

    async def use() -> None:
        await log.append(b'{"id":"0"}')
        await log.unmarked()
        await log.mark([0])

    with anyio.fail_after(5), pytest.raises(StorageError) as caught:
        await use()
    assert name in str(caught.value)
    assert caught.value.remedy
    assert (tmp_path / "victim").read_text() == ""


async def test_a_linked_mailbox_or_document_or_lease_is_refused(tmp_path: Path, open_storage: OpenStorage) -> None:
    storage = open_storage()
    await storage.marked_log("inboxes/bob").create()
    (tmp_path / "inboxes/alice").symlink_to(tmp_path / "inboxes/bob")
    with pytest.raises(StorageError):
        await storage.marked_log(KEY).append(b'{"id":"0"}')
    (tmp_path / "victim").write_text("{}")
    for name in ("a.json", "a.lock", "a.jsonl"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError):
        await storage.document("a.json").read()
    with pytest.raises(StorageError):
        await storage.document("a.json").put({"a": 1})
    with pytest.raises(StorageError), storage.lease("a.lock").hold("me"):
        pass
    with pytest.raises(StorageError):
        await storage.log("a.jsonl").append(b'{"id":"0"}')
    assert (tmp_path / "victim").read_text() == "{}"


@pytest.mark.parametrize(
    "key", ["", "a//b", "../a", "a/../b", ".", "..", "a/.b", "/a", "a/", "a\0b", "a\nb", "a\\b", ".hidden"]
)
async def test_keys_name_nothing_outside(open_storage: OpenStorage, key: str) -> None:
    storage = open_storage()
    for make in (storage.log, storage.owned_log, storage.marked_log, storage.document, storage.lease):
        with pytest.raises(ValueError, match="no key"):
            make(key)


async def test_a_missing_log_is_missing(tmp_path: Path, open_storage: OpenStorage) -> None:
    for storage in (open_storage(), FileStorage(tmp_path / "nowhere")):
        for log in (storage.log("a.jsonl"), storage.owned_log("a.jsonl"), storage.marked_log(KEY)):
            assert not await log.exists()
            with pytest.raises(FileNotFoundError):
                await log.append(b'{"id":"0"}')
            with pytest.raises(FileNotFoundError):
                await log.read()
    assert not (tmp_path / "nowhere").exists()


async def test_a_removed_mailbox_is_missing_and_can_be_made_anew(tmp_path: Path, open_storage: OpenStorage) -> None:
    log = open_storage().marked_log(KEY)
    for _ in range(2):
        await log.create()
        assert await log.append(b'{"id":"0"}') == 0
        assert len(await log.unmarked()) == 1
        for path in (tmp_path / KEY).iterdir():
            path.unlink()
        (tmp_path / KEY).rmdir()
        with pytest.raises(FileNotFoundError):
            await log.append(b'{"id":"1"}')
        with pytest.raises(FileNotFoundError):
            await log.unmarked()


async def test_a_file_where_a_folder_is_needed_is_told_at_once(tmp_path: Path, open_storage: OpenStorage) -> None:
    (tmp_path / "inboxes").write_text("")
    storage = open_storage()
    with anyio.fail_after(2):
        for attempt in (storage.marked_log(KEY).create, lambda: storage.marked_log(KEY).append(b'{"id":"0"}')):
            with pytest.raises(StorageError, match="inboxes"):
                await attempt()
        with pytest.raises(StorageError):
            await storage.document("inboxes/a.json").replace({}, expected=None)


async def test_a_name_that_is_too_long_is_told_at_once(open_storage: OpenStorage) -> None:
    with pytest.raises(StorageError, match="name too long") as caught:
        await open_storage().marked_log("x" * 300).create()
    assert "shorter" in caught.value.remedy


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


async def test_a_forbidden_folder_is_told_at_once(tmp_path: Path, open_storage: OpenStorage) -> None:
    await open_storage().marked_log(KEY).create()
    (tmp_path / KEY).chmod(0)
    log = open_storage().marked_log(KEY)
    with unprivileged(), anyio.fail_after(2), pytest.raises(StorageError, match="permission denied") as caught:
        await log.append(b'{"id":"0"}')
    assert "permissions" in caught.value.remedy


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO])
async def test_what_the_disk_says_is_what_is_raised(open_storage: OpenStorage, code: int) -> None:
    system = FailingSystem()
    log = open_storage(system=system).marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"kept"}')
    system.refuse = code
    with anyio.fail_after(2), pytest.raises(StorageError, match=r"000000000000\.jsonl") as caught:
        await log.append(b'{"id":"refused"}')
    assert caught.value.remedy
    assert isinstance(caught.value.__cause__, OSError)
    system.refuse = None
    assert await log.append(b'{"id":"next"}') == 1
    assert len(await log.read()) == 2


async def test_a_short_write_is_continued(open_storage: OpenStorage) -> None:
    system = FailingSystem()
    log = open_storage(system=system).marked_log(KEY)
    await log.create()
    system.take = 4
    assert await log.append(b'{"id":"0"}') == 0
    assert [r.data for r in await log.read()] == [b'{"id":"0"}']


async def test_a_disk_that_fills_up_in_the_middle_tears_nothing_else(open_storage: OpenStorage) -> None:
    system = FailingSystem()
    log = open_storage(system=system).marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"0"}')
    system.take, system.refuse = 6, errno.ENOSPC
    with pytest.raises(StorageError, match="no space left"):
        await log.append(b'{"id":"torn"}')
    system.refuse = None
    assert await log.append_once(b'{"id":"torn"}', lambda data: b"torn" in data, 1) == 1
    assert [r.data for r in await open_storage().marked_log(KEY).read()] == [b'{"id":"0"}', b'{"id":"torn"}']


async def test_after_a_failed_sync_the_next_record_goes_into_another_segment(
    tmp_path: Path, open_storage: OpenStorage
) -> None:
    system = FailingSystem()
    log = open_storage(system=system, durability="disk").marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"0"}')
    system.refuse_sync = True
    with pytest.raises(StorageError, match="input/output error"):
        await log.append(b'{"id":"1"}')
    system.refuse_sync = False
    assert await log.append_once(b'{"id":"1"}', lambda data: b'"1"' in data, 0) == 1
    assert await log.append(b'{"id":"2"}') == 2
    assert (tmp_path / KEY / "000000000002.jsonl").exists()


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'{"a":1}\n', b'{"a":"\n"}', b"null", b"{ }", b'{"a":1'])
async def test_what_is_no_record_is_refused(open_storage: OpenStorage, data: bytes) -> None:
    log = open_storage().log("a.jsonl")
    await log.create()
    with pytest.raises(ValueError, match="one line"):
        await log.append(data)
    assert await log.read() == []


async def test_a_network_file_system_is_refused_with_the_reason(tmp_path: Path) -> None:
    class NetworkSystem(System):
        def kind(self, path: str) -> str:
            return "nfs4"

    with pytest.raises(StorageError, match="network file system"):
        await FileStorage(tmp_path, system=NetworkSystem()).marked_log(KEY).create()


FILLING = """
import resource, signal, sys, anyio
from pathlib import Path
from pseudoclaude.errors import StorageError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.native import LogStore

ALICE, BOB = AgentId("alice"), AgentId("bob")
root, limit = sys.argv[1], int(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
told = "file too large" if limit else "no space left"


def letter():
    return Message(sender=AgentId("lead"), recipient=ALICE, summary="s", content="x" * 3_000)


def free():
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        Path(root, "ballast").unlink()


async def main():
    if not limit:
        Path(root, "ballast").write_bytes(bytes(100_000))
    store = LogStore(Path(root, "inboxes"))
    await store.create(ALICE)
    await store.create(BOB)
    kept, refused = [], None
    while refused is None:
        message = letter()
        try:
            await store.write(ALICE, message)
            kept.append(message.id)
        except StorageError as error:
            refused = message
            assert told in str(error), error
            assert error.remedy
    result = None
    try:
        result = await store.broadcast([ALICE, BOB], letter())
    except StorageError as error:
        assert told in str(error), error
    assert [m.message.id for m in await store.read(ALICE)] == kept
    free()
    assert await store.write(ALICE, refused, since=len(kept)) == len(kept)
    recovered = await store.recover()
    assert all(not recovery.waiting for recovery in recovered)
    expected = [*kept, refused.id, *(recovery.message_id for recovery in recovered)]
    assert {m.message.id for m in await LogStore(Path(root, "inboxes")).read(ALICE)} == {*expected}
    assert len(await store.read(BOB)) == (result is not None)
    await store.mark_read(ALICE, range(len(kept)))
    print(len(kept))


anyio.run(main)
"""


def fill(root: Path, limit: int) -> int:
    done = subprocess.run([sys.executable, "-c", FILLING, str(root), str(limit)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_limit_for_the_size_of_files_loses_nothing(tmp_path: Path) -> None:
    assert fill(tmp_path, 50_000) > 10


Mount = Callable[..., None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mount something for the duration of a test; the last argument is the folder."""
    mounted: list[str] = []

    def mount_it(*arguments: str) -> None:
        command = ["mount", *arguments]
        if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
        mounted.append(arguments[-1])

    yield mount_it
    for folder in dict.fromkeys(mounted):
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_loses_nothing(tmp_path: Path, mount: Mount) -> None:
    mount("-t", "tmpfs", "-o", "size=256k", "pseudoclaude", str(tmp_path))
    assert fill(tmp_path, 0) > 10


async def test_a_read_only_disk_is_told_at_once_and_can_be_read(tmp_path: Path, mount: Mount) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    log = FileStorage(source).marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"0"}')
    mount("--bind", str(source), str(target))
    mount("-o", "remount,ro,bind", str(target))
    storage = FileStorage(target)
    log = storage.marked_log(KEY)
    with anyio.fail_after(5):
        assert len(await log.unmarked()) == 1
        for attempt in (lambda: log.append(b'{"id":"1"}'), lambda: log.mark([0]), storage.marked_log("x").create):
            with pytest.raises(StorageError, match="read-only"):
                await attempt()
        with pytest.raises(StorageError, match="read-only"):
            async with storage.intents().begin({"a": 1}):
                pass
        storage.ring()


async def test_after_a_failed_sync_of_a_broadcast_nobody_has_it(tmp_path: Path, open_storage: OpenStorage) -> None:
    system = FailingSystem()
    intents = open_storage(system=system, durability="disk").intents()
    system.refuse_sync = True
    with pytest.raises(StorageError, match="input/output error"):
        async with intents.begin({"a": 1}):
            pass
    assert os.listdir(tmp_path / "broadcasts") == []
