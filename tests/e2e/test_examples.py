"""The examples run as they are, without a key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import environment

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))
LAST_LINES = {
    "01_two_agents.py": "everything is in",
    "02_custom_tool.py": "In Oslo it is -4.5 °C.",
    "03_team_with_a_board.py": "It is built and tested.",
}


def test_every_example_is_listed_here() -> None:
    assert {example.name for example in EXAMPLES} == set(LAST_LINES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_runs_without_a_key(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env=environment(tmp_path / "home", PYTHONIOENCODING="utf-8"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(LAST_LINES[example.name])
