"""Other processes, and logs whose files the tests tamper with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pseudoclaude.storage.base import Damage
from pseudoclaude.storage.files import FileStorage

Child = subprocess.Popen[str]
StartChild = Callable[..., Child]
KEY = "inboxes/alice"


@pytest.fixture
def start_child(tmp_path: Path) -> Iterator[StartChild]:
    """Start another process at work on ``tmp_path``; it has begun when this returns, and waits for a line."""
    children: list[Child] = []

    def start(what: str, *arguments: object) -> Child:
        command = [sys.executable, str(Path(__file__).with_name("writer_child.py")), what, str(tmp_path)]
        child = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture
def run_children(start_child: StartChild) -> Callable[[list[tuple[object, ...]]], None]:
    """Run several at once, from one signal on, to their end."""

    def run(all_arguments: list[tuple[object, ...]]) -> None:
        children = [start_child(*arguments) for arguments in all_arguments]
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        for child in children:
            child.communicate(timeout=60)
            assert child.returncode == 0

    return run


@pytest.fixture
def damages() -> list[Damage]:
    """What :func:`open_storage` reported."""
    return []


@pytest.fixture
def open_storage(tmp_path: Path, damages: list[Damage]) -> Callable[..., FileStorage]:
    """Open the files of ``tmp_path`` anew, as another process would."""

    def open_it(**options: object) -> FileStorage:
        storage = FileStorage(tmp_path, **{"durability": "os", **options})  # type: ignore[arg-type]
        storage.on_damage(damages.append)
        return storage

    return open_it
