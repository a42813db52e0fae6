"""A writer that is killed anywhere leaves every acknowledged message, and a mailbox that the next writer mends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("crash_child.py")


@pytest.mark.slow
def test_a_writer_killed_at_any_system_call_loses_nothing(tmp_path: Path, format_: str) -> None:
    done = subprocess.run([sys.executable, CHILD, tmp_path, format_], capture_output=True, text=True, timeout=115)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 200
