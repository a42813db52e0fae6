"""Rings arrive: at once where the kernel tells, soon where it does not, whatever happens to the file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from pseudoclaude.storage.base import Storage
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.memory import MemoryStorage

StartChild = Callable[..., "subprocess.Popen[str]"]
NEVER = 3_600.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops."""
    return str(request.param)


@pytest.fixture(params=["notify", "poll", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "poll" or sys.platform != "linux":
        return FileStorage(tmp_path, notify=False, poll=0.005)
    return FileStorage(tmp_path, poll=NEVER)


async def quiet(rings: AsyncIterator[None]) -> bool:
    with anyio.move_on_after(0.05):
        await anext(rings)
        return False
    return True


async def test_the_first_comes_at_once_and_then_one_for_each_ring(storage: Storage) -> None:
    with anyio.fail_after(10):
        async with storage.rung() as rings:
            await anext(rings)
            for _ in range(5):
                storage.ring()
                await anext(rings)
            assert await quiet(rings)


async def test_every_listener_hears_it(storage: Storage) -> None:
    with anyio.fail_after(10):
        async with storage.rung() as one, storage.rung() as other:
            await anext(one)
            await anext(other)
            storage.ring()
            await anext(one)
            await anext(other)


async def test_a_ring_before_the_first_wait_is_heard(storage: Storage) -> None:
    with anyio.fail_after(10):
        async with storage.rung() as rings:
            await anext(rings)
            storage.ring()
            storage.ring()
            await anext(rings)


async def test_rings_within_one_tick_of_the_clock_differ(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    seen = set()
    for _ in range(200):
        storage.ring()
        seen.add((tmp_path / "doorbell").stat().st_mtime_ns)
    assert len(seen) == 200
    assert (tmp_path / "doorbell").read_bytes() == b""


@pytest.mark.parametrize("poll", [NEVER, 0.005])
async def test_a_ring_of_another_process_is_heard(tmp_path: Path, start_child: StartChild, poll: float) -> None:
    storage = FileStorage(tmp_path, poll=poll, notify=poll == NEVER)
    child = start_child("ring")
    with anyio.fail_after(10):
        async with storage.rung() as rings:
            await anext(rings)
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
            await anext(rings)


@pytest.mark.parametrize("notify", [True, False])
async def test_a_bell_that_was_removed_rings_again(tmp_path: Path, notify: bool) -> None:
    storage = FileStorage(tmp_path, notify=notify, poll=0.005)
    with anyio.fail_after(10):
        async with storage.rung() as rings:
            await anext(rings)
            storage.ring()
            await anext(rings)
            (tmp_path / "doorbell").unlink()
            storage.ring()
            await anext(rings)
            storage.ring()
            await anext(rings)


async def test_ringing_never_raises(tmp_path: Path) -> None:
    (tmp_path / "doorbell").mkdir()
    FileStorage(tmp_path).ring()
    FileStorage(tmp_path / "missing").ring()
    (tmp_path / "target").write_text("")
    (tmp_path / "bell").symlink_to(tmp_path / "target")
    FileStorage(tmp_path, doorbell="bell").ring()
    assert (tmp_path / "target").read_text() == ""
    with anyio.fail_after(10):
        async with FileStorage(tmp_path / "missing", poll=0.005).rung() as rings:
            await anext(rings)
            (tmp_path / "missing").mkdir()
            FileStorage(tmp_path / "missing").ring()
            await anext(rings)
