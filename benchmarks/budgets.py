"""The speed that is asked of the mailbox, held against the rows of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .table import Rows, duration, times

OS, DISK = "ours (os)", "ours (disk)"
NORMAL, FULL = "SQLite WAL, NORMAL", "SQLite WAL, FULL"
BARE, SYNCED, ORIGINAL = "limit: flock + write", "limit: write + fdatasync", "original design"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One budget; ``holds`` is None where this run did not measure what it needs."""

    what: str
    budget: str
    measured: str
    holds: bool | None


_REASONS = (
    ("append, os", "a third of it is encoding a checked, typed message; SQLite's row is written by C code"),
    ("append, disk", "the sync runs in a thread, so that the event loop goes on: two switches of thread beside it"),
    ("take 10", "half of it is decoding into checked messages, as for SQLite; the marks are a line of their own"),
    ("peek, 1,000 mailboxes: ours, warm", "two looks of the system at each mailbox take most of it"),
    ("peek, 1,000 mailboxes: ours, cold", "each mailbox is opened anew: its marks and its end are found and decoded"),
    ("mail ", "importing pydantic and the message models is most of it"),
)
_WRITERS = "after another process has written, a writer looks at the end of the file again, under the lock"


def reasons(judged: Sequence[Verdict]) -> list[str]:
    """For each budget that does not hold, what takes the time."""
    found = []
    for verdict in judged:
        if verdict.holds is False:
            known = next((why for start, why in _REASONS if verdict.what.startswith(start)), "")
            why = known or (_WRITERS if " writers, " in verdict.what else "not looked into yet")
            found.append(f"- {verdict.what} ({verdict.measured}): {why}.")
    return found


def verdicts(rows: Rows, sizes: Sequence[int]) -> list[Verdict]:
    """Every budget whose part was run."""
    parts = {row.part for row in rows}
    found: list[Verdict] = []
    for part, judge in (("append", _append), ("take", _take)):
        if part in parts:
            found += judge(rows, sizes)
    for part, judged in (("writers", _writers), ("peek", _peek), ("awake", _awake), ("start", _start)):
        if part in parts:
            found += judged(rows)
    return found


def _append(rows: Rows, sizes: Sequence[int]) -> Iterator[Verdict]:
    what = "append, os, any N"
    for peer, most in ((NORMAL, 0.7), (BARE, 8.0)):
        yield _at_most(what, f"at most {most:g} x {peer}", _worst(rows, "append", "os", sizes, OS, peer), most)
    yield _flat(rows, "append", sizes, 1.2)
    what = "append, disk, any N"
    for peer, most in ((SYNCED, 1.3), (FULL, 1.4)):
        yield _at_most(what, f"at most {most:g} x {peer}", _worst(rows, "append", "disk", sizes, DISK, peer), most)
    for size, least in ((1_000, 300), (10_000, 3_000)):
        if size in sizes:
            slower = rows.ratio("append", f"os, N={size:,}", ORIGINAL, OS)
            what = f"append against the original design, N={size:,}"
            yield _at_least(what, f"at least {least:,} x faster", slower, least)


def _take(rows: Rows, sizes: Sequence[int]) -> Iterator[Verdict]:
    worst = _worst(rows, "take", "os", sizes, OS, NORMAL)
    yield _at_most("take 10 of N, os, any N", f"at most {NORMAL}", worst, 1.0)
    yield _flat(rows, "take", sizes, 1.2)


def _writers(rows: Rows) -> Iterator[Verdict]:
    for case in dict.fromkeys(row.case for row in rows if row.part == "writers"):
        for ours, theirs in ((OS, NORMAL), (DISK, FULL)):
            own = rows.find("writers", case, ours)
            if own is None:
                continue
            bad = ", ".join(f"{own.figures[name]:.0f} {name}" for name in ("lost", "failed", "doubled"))
            none = not any(own.figures[name] for name in ("lost", "failed", "doubled"))
            yield Verdict(f"{case} writers, {ours}", "none lost, failed or doubled", bad, none)
            rate = rows.ratio("writers", case, theirs, ours, "each")
            yield _at_least(f"{case} writers, {ours}", f"at least 2 x the rate of {theirs}", rate, 2)
            for figure in ("p99.9", "worst"):
                below = rows.ratio("writers", case, ours, theirs, figure)
                yield _at_most(f"{case} writers, {ours}, {figure}", f"below that of {theirs}", below, 1.0)


def _peek(rows: Rows) -> Iterator[Verdict]:
    case = next(row.case for row in rows if row.part == "peek")
    for system, most in (("ours, warm", 0.005), ("ours, cold (a new store)", 0.015)):
        yield _below(rows, "peek", case, system, "median", most)
    for system in ("ours, watching", "ours, polling only"):
        row = rows.find("idle", case, system)
        if row is not None:
            share = row.figures["share"]
            yield Verdict(f"idle, {system}", "under 0.2 % of a core", f"{share:.3%}", share < 0.002)


def _awake(rows: Rows) -> Iterator[Verdict]:
    yield _below(rows, "awake", "another process", OS, "median", 0.005)
    yield _below(rows, "awake", "another process", DISK, "median", 0.005)
    yield _below(rows, "awake", "the same process", OS, "median", 0.0003)


def _start(rows: Rows) -> Iterator[Verdict]:
    for command, most in (("--version", 6), ("mail check", 8), ("mail send", 20)):
        row = rows.find("start", "command", command)
        if row is not None:
            multiple = row.figures["multiple"]
            yield Verdict(command, f"at most {most} x python -c pass", times(multiple), multiple <= most)


def _worst(rows: Rows, part: str, durability: str, sizes: Sequence[int], ours: str, theirs: str) -> float | None:
    ratios = [rows.ratio(part, f"{durability}, N={size:,}", ours, theirs) for size in sizes]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _flat(rows: Rows, part: str, sizes: Sequence[int], most: float) -> Verdict:
    small, large = (rows.find(part, f"os, N={size:,}", OS) for size in (sizes[0], sizes[-1]))
    ratio = large.figures["median"] / small.figures["median"] if small and large else None
    return _at_most(f"{part}, os, N={sizes[-1]:,}", f"within {most:g} x N={sizes[0]:,}", ratio, most)


def _below(rows: Rows, part: str, case: str, system: str, figure: str, most: float) -> Verdict:
    row = rows.find(part, case, system)
    value = row.figures[figure] if row else None
    measured = "not measured" if value is None else duration(value)
    what = f"{part}, {case}: {system}"
    return Verdict(what, f"{figure} under {duration(most)}", measured, None if value is None else value < most)


def _at_most(what: str, budget: str, ratio: float | None, most: float) -> Verdict:
    return Verdict(what, budget, _ratio(ratio), None if ratio is None else ratio <= most)


def _at_least(what: str, budget: str, ratio: float | None, least: float) -> Verdict:
    return Verdict(what, budget, _ratio(ratio), None if ratio is None else ratio >= least)


def _ratio(ratio: float | None) -> str:
    return "not measured" if ratio is None else times(ratio)
