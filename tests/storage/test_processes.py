"""Several real processes on the same files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pseudoclaude.errors import LeaseHeldError
from pseudoclaude.storage.base import Damage
from pseudoclaude.storage.files import FileStorage

OpenStorage = Callable[..., FileStorage]
StartChild = Callable[..., "subprocess.Popen[str]"]
RunChildren = Callable[[list[tuple[object, ...]]], None]
KEY = "inboxes/alice"


@pytest.mark.parametrize("sizes", [[1 << 20] * 8, [1, 500, 3_000, 1 << 20] * 2])
async def test_eight_writers_lose_and_double_nothing(
    open_storage: OpenStorage, run_children: RunChildren, damages: list[Damage], sizes: list[int]
) -> None:
    await open_storage().marked_log(KEY).create()
    run_children([("append", f"w{n}", 50, size) for n, size in enumerate(sizes)])
    records = await open_storage().marked_log(KEY).read()
    assert [r.index for r in records] == list(range(400))
    ids = [r.data.split(b'"')[3].decode() for r in records]
    for n in range(8):
        assert [i for i in ids if i.startswith(f"w{n}-")] == [f"w{n}-{k}" for k in range(50)]
    assert damages == []


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["os", "disk"])
async def test_thirty_two_writers_lose_and_double_nothing(
    open_storage: OpenStorage, run_children: RunChildren, damages: list[Damage], durability: str
) -> None:
    await open_storage().marked_log(KEY).create()
    run_children([("append", f"w{n}", 200, 20_000, durability) for n in range(32)])
    records = await open_storage().marked_log(KEY).read()
    assert [r.index for r in records] == list(range(6_400))
    ids = [r.data.split(b'"')[3].decode() for r in records]
    for n in range(32):
        assert [i for i in ids if i.startswith(f"w{n}-")] == [f"w{n}-{k}" for k in range(200)]
    assert damages == []


async def test_marks_of_several_processes_merge(open_storage: OpenStorage, run_children: RunChildren) -> None:
    log = open_storage().marked_log(KEY)
    await log.create()
    for number in range(120):
        await log.append(b'{"id":"%d"}' % number)
    run_children([("mark", start, 120, 4) for start in range(3)])
    assert [r.index for r in await log.unmarked()] == list(range(3, 120, 4))


async def test_a_locked_log_is_waited_for_and_then_names_its_holder(
    open_storage: OpenStorage, start_child: StartChild
) -> None:
    storage = open_storage(lock_wait=0.05)
    log = storage.marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"0"}')
    child = start_child("lock")
    with pytest.raises(TimeoutError) as caught:
        await log.append(b'{"id":"1"}')
    assert caught.value.args[0] in ("", str(child.pid))
    with pytest.raises(TimeoutError):
        await log.mark([0])
    assert len(await log.read()) == 1
    child.kill()
    child.wait()
    assert await log.append(b'{"id":"1"}') == 1


async def test_a_waiting_writer_can_be_cancelled_and_goes_on_when_it_is_free(
    open_storage: OpenStorage, start_child: StartChild
) -> None:
    log = open_storage().marked_log(KEY)
    await log.create()
    child = start_child("lock")
    with anyio.move_on_after(0.02) as scope:
        await log.append(b'{"id":"cancelled"}')
    assert scope.cancelled_caught
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(log.append, b'{"id":"patient"}')
            await anyio.lowlevel.checkpoint()
            child.kill()
    assert [r.data for r in await log.read()] == [b'{"id":"patient"}']


@pytest.mark.parametrize("key", ["lead.lock", "sessions/alice.jsonl"])
async def test_the_lease_of_a_killed_process_is_free(
    open_storage: OpenStorage, start_child: StartChild, key: str
) -> None:
    lease = open_storage().lease(key)
    assert await lease.holder() is None
    child = start_child("hold", key)
    held_by = await lease.holder()
    assert held_by is not None
    assert held_by in (("the child",) if key.endswith(".lock") else ("", f"process {child.pid}"))
    with pytest.raises(LeaseHeldError), lease.hold("me"):
        pass
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert await lease.holder() is None
    with lease.hold("me"):
        assert await open_storage().lease(key).holder() in ("me", "", f"process {os.getpid()}")
    assert await lease.holder() is None


async def test_the_lease_on_a_transcript_leaves_it_alone(tmp_path: Path, open_storage: OpenStorage) -> None:
    storage = open_storage()
    log = storage.owned_log("sessions/alice.jsonl")
    await log.create()
    with storage.lease("sessions/alice.jsonl").hold("me"):
        assert await log.append(b'{"id":"0"}') == 0
    assert (tmp_path / "sessions/alice.jsonl").read_bytes() == b'{"i":0,"id":"0"}\n'


async def test_documents_count_right_between_processes(open_storage: OpenStorage, run_children: RunChildren) -> None:
    run_children([("count", 15)] * 4)
    current = await open_storage().document("counter.json").read()
    assert current is not None
    assert current.value == {"count": 60}


def end_of(child: int) -> int:
    """How a forked child ended."""
    return os.waitpid(child, 0)[1]


async def test_a_fork_neither_unlocks_nor_writes_with_what_it_inherited(open_storage: OpenStorage) -> None:
    storage = open_storage()
    log = storage.marked_log(KEY)
    await log.create()
    await log.append(b'{"id":"parent"}')
    with storage.lease("lead.lock").hold("parent"):
        child = os.fork()
        if not child:
            # Leaving the parent's block here must not take its lease away.
            code = 1
            try:
                append = log.append(b'{"id":"child"}')
                try:
                    append.send(None)
                except StopIteration as stopped:
                    code = 0 if stopped.value == 1 else 2
            finally:
                os._exit(code)
        assert end_of(child) == 0
        assert await open_storage().lease("lead.lock").holder() == "parent"
    assert await log.append(b'{"id":"parent again"}') == 2
    assert [r.data for r in await log.read()] == [
        b'{"id":"parent"}',
        b'{"id":"child"}',
        b'{"id":"parent again"}',
    ]


ORPHANING = """
import os, sys
from pseudoclaude.storage.files import FileStorage
lease = FileStorage(sys.argv[1]).lease("lead.lock").hold("parent")
lease.__enter__()
if os.fork():
    os.kill(os.getpid(), 9)
print("orphan", flush=True)
sys.stdin.readline()
os._exit(0)
"""


def start_orphaning(root: Path) -> subprocess.Popen[bytes]:
    """A process that forked and was killed, whose child lives until it reads a line."""
    command = [sys.executable, "-c", ORPHANING, str(root)]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"orphan\n"
    parent.wait()
    return parent


async def test_a_killed_parent_frees_its_lease_though_a_forked_child_lives(
    tmp_path: Path, open_storage: OpenStorage
) -> None:
    parent = start_orphaning(tmp_path)
    assert await open_storage().lease("lead.lock").holder() is None
    parent.communicate(b"\n")
