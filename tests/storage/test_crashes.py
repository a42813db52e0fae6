"""A process that is killed anywhere leaves every acknowledged message, and a mailbox that the next one mends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("crash_child.py")


def deaths(what: str, folder: Path, durability: str, segment_bytes: int) -> int:
    done = subprocess.run(
        [sys.executable, CHILD, what, folder, durability, str(segment_bytes)],
        capture_output=True,
        text=True,
        timeout=115,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("durability", "segment_bytes"), [("os", 1 << 20), ("os", 1), ("disk", 400)])
def test_a_writer_killed_at_any_system_call_loses_nothing(tmp_path: Path, durability: str, segment_bytes: int) -> None:
    assert deaths("log", tmp_path, durability, segment_bytes) > 60


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "segment_bytes"), [("os", 1 << 20), ("os", 1), ("disk", 700)])
def test_a_sender_killed_at_any_system_call_leaves_each_message_once(
    tmp_path: Path, durability: str, segment_bytes: int
) -> None:
    """Sending, broadcasting, reading, archiving and mending: together more than five hundred deaths."""
    assert deaths("store", tmp_path, durability, segment_bytes) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("durability", "rounds"), [("os", 25), ("disk", 15)])
def test_processes_killed_at_random_lose_and_double_nothing(tmp_path: Path, durability: str, rounds: int) -> None:
    """Senders, broadcasters, readers and an archiver on the same mailboxes, all killed at once in each round."""
    command = [sys.executable, str(CHILD.with_name("kill_child.py")), str(tmp_path), durability, str(rounds), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=115)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 8 * rounds
