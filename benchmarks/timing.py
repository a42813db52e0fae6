"""Taking times: in turn, so that a noisy second meets all alike, and with medians, since one slow call is no rule."""

from __future__ import annotations

import gc
import math
import os
import platform
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import Message
from pseudoclaude.storage.system import System

_TEXT = (
    'Looked at the module "storage" as you asked; it holds 12 files, and two of them open for writing.\n'
    "- `system.py` makes all calls, one method each; nothing else may.\n"
    '- `lines.py` knows what a line is: {"i": 7} at its start, a newline at its end, caf\u00e9 and \u2192 as UTF-8.\n'
    "The rest reads. I found no contradiction with the page, but one sentence that says less than the code does.\n"
)
_RECORD = 2_400


def messages(count: int, *, start: int = 0) -> Iterator[Message]:
    """Messages of 2.4 KB as records, each with its own id and its own content."""
    body = _TEXT * (_RECORD // len(_TEXT) + 1)
    for number in range(start, start + count):
        yield Message(
            id=MessageId.new(),
            sender=AgentId("writer"),
            recipient=AgentId("reader"),
            summary=f"what I found, part {number}",
            content=f"{number}\n{body}"[:2_080],
        )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@dataclass(slots=True)
class Cell:
    """One figure of a table: a call that is made again and again, and the seconds each took."""

    call: Callable[[], Awaitable[float]]
    most: int = 1 << 30
    """How often it may be made at most."""
    seconds: list[float] = field(default_factory=list)
    spent: float = 0.0

    def figures(self) -> dict[str, float]:
        """What a row keeps of it, in seconds."""
        return {
            "median": percentile(self.seconds, 0.5),
            "p99": percentile(self.seconds, 0.99),
            "worst": max(self.seconds),
            "samples": len(self.seconds),
        }


async def in_turn(cells: Sequence[Cell], *, rounds: int, batch: int, budget: float) -> None:
    """Call each cell some times, then the next: A B A B.

    :param batch: calls in a row; only the first of them meets the caches as another system left them.
    :param budget: seconds for each cell: one that is ahead of its share of them sits a round out, after its third.
    """
    gc.collect()
    gc.freeze()  # collections go on, but look only at what the calls themselves leave behind
    try:
        for number in range(rounds):
            share = budget * (number + 1) / rounds
            # Another order each round: whoever always came after the same system would pay for what that left to do.
            for cell in random.Random(number).sample(cells, len(cells)):
                began = time.perf_counter()
                for _ in range(min(batch, cell.most - len(cell.seconds))):
                    if cell.spent + time.perf_counter() - began > share and len(cell.seconds) >= 3:
                        break
                    cell.seconds.append(await cell.call())
                cell.spent += time.perf_counter() - began
    finally:
        gc.unfreeze()


def machine(folder: Path) -> dict[str, str]:
    """What the figures were measured on; nothing that names it."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "file system": System().kind(str(folder)) or "unknown",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "load over the last 5 minutes, this run in it": f"{os.getloadavg()[1]:.1f}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
