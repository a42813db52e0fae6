"""The benchmark runs to its end on any machine. What it measures is asserted nowhere: times depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="not part of what is installed")

ALWAYS = {
    "os": ("ours (os)", "SQLite WAL, NORMAL", "original design", "limit: flock + write"),
    "disk": ("ours (disk)", "SQLite WAL, FULL", "Maildir", "limit: write + fdatasync"),
}
"""What is measured without anything that is to be installed."""

PACKAGES = {"os": ("litequeue", "diskcache"), "disk": ("persist-queue",)}


def test_a_quick_run_prints_and_writes_a_row_for_every_system(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.mail", "--quick", "--only", "append,take"]
    done = subprocess.run(
        [*command, "--json", str(written), "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    rows = json.loads(written.read_text())["rows"]
    for part in ("append", "take"):
        for durability in ("os", "disk"):
            found = {
                row["system"]: row for row in rows if row["part"] == part and row["case"].startswith(f"{durability}, ")
            }
            assert set(found) == {*ALWAYS[durability], *PACKAGES[durability]}
            assert all(found[system]["figures"]["median"] > 0 for system in ALWAYS[durability])
            assert all(bool(row["figures"]) != bool(row["absent"]) for row in found.values())
            assert all(f"| {system} " in done.stdout for system in found)
    assert not list(tmp_path.glob("benchmark-*"))


def test_every_budget_of_what_was_run_is_judged(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.mail", "--quick", "--only", "append"]
    done = subprocess.run(
        [*command, "--json", str(written), "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    budgets = json.loads(written.read_text())["budgets"]
    assert {budget["what"] for budget in budgets} == {"append, os, any N", "append, os, N=200", "append, disk, any N"}
    assert all(isinstance(budget["holds"], bool) for budget in budgets)


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "benchmarks.mail", "--only", "appending"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 2
    assert "unknown: appending; there are append, take" in done.stderr
