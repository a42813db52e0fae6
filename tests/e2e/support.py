"""What the end-to-end tests share: starting the command line as a person does, and reading what it left on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "pseudoclaude")


def environment(home: Path, **extra: str) -> dict[str, str]:
    """The environment of a child: a data root of its own, and no key of anybody."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "PSEUDOCLAUDE_"))}
    return {**kept, "PSEUDOCLAUDE_HOME": str(home), **extra}


def run(
    *arguments: str | Path, home: Path, cwd: Path | None = None, timeout: float = 60, stdin: str = "", **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=environment(home, **extra),
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@dataclass(frozen=True)
class Traces:
    """Everything a team left on disk, read without any code of the package."""

    folder: Path

    @property
    def roster(self) -> dict[str, Any]:
        """``team.json``."""
        value: dict[str, Any] = json.loads((self.folder / "team.json").read_text("utf-8"))
        return value

    @property
    def names(self) -> dict[str, str]:
        """Agent id to name."""
        roster = self.roster
        members = {member["agent_id"]: member["name"] for member in roster.get("members", [])}
        return {**members, roster["lead"]["agent_id"]: "lead", "user": "user", "runtime": "runtime"}

    def mailbox(self, agent_id: str) -> list[dict[str, Any]]:
        """The messages in a mailbox, oldest first."""
        lines: list[dict[str, Any]] = []
        for segment in sorted((self.folder / "inboxes" / agent_id).glob("0*.jsonl")):
            lines += [line for line in _records(segment) if "sealed" not in line]
        return lines

    def transcript(self, agent_id: str) -> list[dict[str, Any]]:
        """The lines of a transcript; none where nothing was said."""
        return list(_records(self.folder / "sessions" / f"{agent_id}.jsonl"))

    def assert_each_message_arrived_once(self) -> None:
        """Mail is stored once and is in its reader's conversation at most once; what was read is there."""
        for agent_id, name in self.names.items():
            stored = [message["id"] for message in self.mailbox(agent_id)]
            assert twice(stored) == [], f"{name} has messages twice"
            delivered = [id for line in self.transcript(agent_id) for id in line.get("mail", [])]
            assert twice(delivered) == [], f"{name} was shown messages twice"
            assert set(delivered) <= set(stored), f"{name} was shown messages that are not stored"
            if name not in ("user", "runtime"):
                waking = {m["id"] for m in self.mailbox(agent_id) if m.get("type", "text") == "text"}
                assert waking <= set(delivered), f"{name} was never shown some of its mail"

    def assert_each_call_sent_once(self) -> None:
        """Every SendMessage in a transcript that succeeded stands for one message, and each has one result."""
        for agent_id, name in self.names.items():
            lines = self.transcript(agent_id)
            calls = [block["id"] for line in lines for block in line.get("content", []) if block["type"] == "tool_use"]
            results = [line["result"]["tool_use_id"] for line in lines if line["kind"] == "result"]
            assert Counter(calls) == Counter(results), f"{name} has calls without a result, or with two"

    def mail(self) -> list[tuple[str, str, str, str, str]]:
        """All mail as (from, to, type, summary, content), with names for ids, in no order."""
        names = self.names
        found = [
            (
                names[message["from"]],
                names[message["to"]],
                message.get("type", "text"),
                message.get("summary", ""),
                message.get("content", ""),
            )
            for agent_id in names
            for message in self.mailbox(agent_id)
        ]
        return sorted(found)


def only_team(home: Path) -> Traces:
    """The one team under a data root."""
    (folder,) = (home / "teams").iterdir()
    return Traces(folder)


def twice(items: Iterable[str]) -> list[str]:
    """Whatever is there more than once."""
    return [item for item, count in Counter(items).items() if count > 1]


def _records(file: Path) -> Iterable[dict[str, Any]]:
    """Whole lines that parse; a process that was killed may leave half a line."""
    if not file.exists():
        return
    for line in file.read_bytes().split(b"\n")[:-1]:
        try:
            yield json.loads(line)
        except ValueError:
            continue
