"""A writer that is killed anywhere leaves every acknowledged record, and a log that the next writer mends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("crash_child.py")


@pytest.mark.parametrize(("durability", "segment_bytes"), [("os", 1 << 20), ("os", 1), ("disk", 400)])
def test_a_writer_killed_at_any_system_call_loses_nothing(tmp_path: Path, durability: str, segment_bytes: int) -> None:
    done = subprocess.run(
        [sys.executable, CHILD, tmp_path, durability, str(segment_bytes)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 70
