"""How long commands take from their start to their end, as multiples of an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from .table import Row
from .timing import Cell, in_turn


async def run(folder: Path, count: int) -> list[Row]:
    """The rows of ``start``."""
    environment = {**os.environ, "PSEUDOCLAUDE_HOME": str(folder / "home")}
    script = Path(sys.executable).with_name("pseudoclaude")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "pseudoclaude"]
    work = folder / "work"
    work.mkdir()
    _run([*program, "team", "create", "bench"], work, environment)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "--version": [*program, "--version"],
        "mail check": [*program, "mail", "check", "--team", "bench"],
        "mail send": [*program, "mail", "send", "lead", "the text", "--team", "bench"],
    }
    for command in commands.values():
        _run(command, work, environment)  # byte code is written, and files are in the cache
    cells = {name: Cell(partial(_timed, command, work, environment)) for name, command in commands.items()}
    await in_turn(list(cells.values()), rounds=count, batch=1, budget=1e9)
    rows = []
    for name, cell in cells.items():
        figures = cell.figures()
        bare = cells["python -c pass"].figures()["median"]
        rows.append(Row("start", "command", name, {**figures, "multiple": figures["median"] / bare}))
    return rows


async def _timed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    _run(command, folder, environment)
    return time.perf_counter() - began


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, check=False)
    if done.returncode > 1:  # 1 is the answer of a check that there is no mail
        raise RuntimeError(f"{' '.join(command[1:])} failed: {done.stderr.decode(errors='replace')}")
