"""The two formats, and other processes at work on them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore

HERE = Path(__file__).parent
ALICE, LEAD = AgentId("alice"), AgentId("lead")

Child = subprocess.Popen[str]
StartChild = Callable[..., Child]
Store = BoxStore | ClaudeInboxStore
OpenStore = Callable[..., Store]


def letter(content: str = "hello", *, to: AgentId = ALICE, **fields: object) -> Message:
    """A message from the lead."""
    return Message.model_validate({"from": LEAD, "to": to, "summary": content[:40], "content": content, **fields})


def texts_in(format_: str, path: Path) -> list[str]:
    """What stands in a mailbox file, read as plain JSON."""
    data = json.loads(path.read_bytes())
    return [entry["content"] for entry in data["messages"]] if format_ == "box" else [entry["text"] for entry in data]


def file_of(format_: str, *entries: dict[str, Any]) -> bytes:
    """A mailbox file as the other program writes it."""
    if format_ == "box":
        return (json.dumps({"messages": list(entries)}, indent=2) + "\n").encode()
    return json.dumps(list(entries), indent=2).encode()


def entry_of(format_: str, text: str, **more: Any) -> dict[str, Any]:
    """An entry as the other program writes it."""
    if format_ == "box":
        entry = {"from": "bob", "to": "alice", "type": "text", "summary": "", "content": text}
    else:
        entry = {"from": "bob", "text": text}
    return {**entry, "timestamp": "2026-11-30T19:15:41.727Z", "read": False, **more}


@pytest.fixture(params=["box", "claude"])
def format_(request: pytest.FixtureRequest) -> str:
    """Both formats."""
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the mailboxes."""
    root = tmp_path / "inboxes"
    root.mkdir()
    return root


@pytest.fixture
def open_store(format_: str, root: Path) -> OpenStore:
    """Open the mailboxes anew, as another process would, with short waits."""

    def open_it(**options: Any) -> Store:
        kind = BoxStore if format_ == "box" else ClaudeInboxStore
        short = {"durability": "os", "lock_wait": 5, "unchanged_for": 0.02, "torn_wait": 0.05}
        return kind(options.pop("root", root), **{**short, **options})

    return open_it


@pytest.fixture
def start_child() -> Iterator[StartChild]:
    """Start a script of this folder; it is ready when this returns, and waits for a line."""
    children: list[Child] = []

    def start(script: str, *arguments: object, env: dict[str, str] | None = None, program: Path | None = None) -> Child:
        command = [str(program)] if program else [sys.executable, str(HERE / script)]
        child = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def go(child: Child) -> None:
    """Let a child that waits go on."""
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def finish(children: list[Child]) -> tuple[list[str], list[str]]:
    """Wait for the children; what they say they stored, and what they say they did not."""
    stored: list[str] = []
    refused: list[str] = []
    for child in children:
        out, _ = child.communicate(timeout=110)
        assert child.returncode == 0, out
        for line in out.splitlines():
            verb, _, text = line.partition(" ")
            (stored if verb == "stored" else refused).append(text)
    return stored, refused
