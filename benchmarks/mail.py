"""The mailbox beside what a user would pick instead: ``python -m benchmarks.mail``.

All systems take turns in one run, so ratios within a run mean something, and times of two runs do not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

if not __package__:  # run by its path, and not with -m
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks import awake, peek, start, storing, writers
from benchmarks.budgets import DISK, OS, Verdict, reasons, verdicts
from benchmarks.peers import PEERS
from benchmarks.peers.redis_server import RedisServer
from benchmarks.table import Rows, by_case, by_figure, markdown
from benchmarks.timing import machine

PARTS = ("append", "take", "writers", "peek", "awake", "start")
RESULTS = Path(__file__).resolve().parent / "results" / "mail.md"
SIZES, QUICK_SIZES = (10, 1_000, 10_000, 100_000), (10, 200)

_NOTES = """\
Times are median / p99, or as the column says; in brackets the median as a multiple of ours of the same durability.
Messages of 2.4 KB, each with an id of its own. All systems keep their handles open, encode and decode with the same
code (the original design and the limit apart), and are called in turn: some calls of one, some of the next. Python's
garbage collector is on. `os` outlives a killed process, `disk` a power cut as well; only equals are compared.
A send to another process comes 10 ms after the one before, so that its reader sleeps and the caches are cold."""


async def measure(folder: Path, parts: Sequence[str], *, quick: bool) -> Rows:
    """Run the parts that are wanted."""
    rows = Rows()

    def place(name: str) -> Path:
        made = folder / name
        made.mkdir()
        return made

    if {"append", "take"} & set(parts):
        print("append, take …", file=sys.stderr)
        rows += await storing.run(place("storing"), parts, QUICK_SIZES if quick else SIZES, quick=quick)
    if "writers" in parts:
        print("writers …", file=sys.stderr)
        counts, each, rounds = ((4,), 10, 1) if quick else ((8, 32), 200, 3)
        rows += await writers.run(place("writers"), counts, each, rounds=rounds)
    if "peek" in parts:
        print("peek …", file=sys.stderr)
        boxes, rounds, idle = (50, 3, 0.5) if quick else (1_000, 15, 10.0)
        rows += await peek.run(place("peek"), boxes, rounds=rounds, idle=idle)
    if "awake" in parts:
        print("awake …", file=sys.stderr)
        rows += await awake.run(place("awake"), 10 if quick else 300)
    if "start" in parts:
        print("start …", file=sys.stderr)
        rows += await start.run(place("start"), 1 if quick else 20)
    return rows


def report(rows: Rows, judged: Sequence[Verdict], where: dict[str, str]) -> str:
    """Everything as Markdown."""
    parts = {row.part for row in rows}
    texts = ["# Mail: ours beside its peers", _NOTES, "; ".join(f"{name}: {value}" for name, value in where.items())]
    for part, title in (("append", "Append one message to N"), ("take", "Take 10 unread of N: read, decode, mark")):
        if part in parts:
            texts += [f"## {title}", by_case(rows, part, "os", OS), by_case(rows, part, "disk", DISK)]
    if "writers" in parts:
        quantiles = {name: name for name in ("p50", "p99", "p99.9", "worst", "lost", "failed", "doubled")}
        texts += ["## Many writers, one mailbox", by_figure(rows, "writers", {"a message": "each", **quantiles})]
    if "peek" in parts:
        texts += ["## Peek", by_figure(rows, "peek", {"median": "median", "p99": "p99"})]
        texts += ["## Idle, share of one core", by_figure(rows, "idle", {"share": "share"})]
    if "awake" in parts:
        texts += ["## From send to awake", by_figure(rows, "awake", {"median": "median", "p99": "p99"})]
    if "start" in parts:
        columns = {"median": "median", "p99": "p99", "x python -c pass": "multiple"}
        texts += ["## Start of commands", by_figure(rows, "start", columns)]
    words = {True: "holds", False: "**does not hold**", None: "not measured"}
    lines = [(one.what, one.budget, one.measured, words[one.holds]) for one in judged]
    texts += ["## Budgets", markdown(["what", "budget", "measured", "verdict"], lines)]
    if missed := reasons(judged):
        texts += ["What takes the time where a budget does not hold:", "\n".join(missed)]
    notes = [f"- {peer.name}: {_with_version(peer.note, peer.version(), peer.missing())}" for peer in PEERS]
    notes.append(f"- Redis: {RedisServer.missing() or 'XADD and XREAD BLOCK on a Unix socket, kept in memory'}")
    texts += ["## The systems", "\n".join(notes)]
    return "\n\n".join(texts) + "\n"


def _with_version(note: str, version: str, missing: str) -> str:
    return f"{missing}; {note}" if missing else f"{version}; {note}" if version else note


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and keep what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small and few: shows that it runs, measures nothing")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,…", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there, times in seconds")
    parser.add_argument("--save", action="store_true", help=f"keep the table in benchmarks/results/{RESULTS.name}")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: the folder for temporary files)")
    options = parser.parse_args(arguments)
    parts = [part.strip() for part in options.only.split(",") if part.strip()]
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.folder) as folder:
        rows: Rows = anyio.run(lambda: measure(Path(folder), parts, quick=options.quick))
        where = machine(Path(folder))
    judged = verdicts(rows, QUICK_SIZES if options.quick else SIZES)
    text = report(rows, judged, where)
    print(text)
    if options.json:
        found = {"machine": where, "rows": [asdict(row) for row in rows], "budgets": [asdict(one) for one in judged]}
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if options.save:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
