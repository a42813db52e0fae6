"""Rows of figures, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one system in one case. Figures that are times are in seconds."""

    part: str
    case: str
    system: str
    figures: Mapping[str, float] = field(default_factory=dict)
    absent: str = ""
    """Why there are no figures."""


class Rows(list[Row]):
    """All rows of a run."""

    def find(self, part: str, case: str, system: str) -> Row | None:
        """The row with figures, if there is one."""
        wanted = (row for row in self if (row.part, row.case, row.system) == (part, case, system))
        return next((row for row in wanted if row.figures), None)

    def ratio(self, part: str, case: str, ours: str, theirs: str, figure: str = "median") -> float | None:
        """How many times theirs ours is; None where one of them was not measured."""
        a, b = self.find(part, case, ours), self.find(part, case, theirs)
        if a is None or b is None:
            return None
        return a.figures[figure] / b.figures[figure] if b.figures[figure] else None


def duration(seconds: float) -> str:
    """A time with three digits that count."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            value = seconds / size
            return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def times(ratio: float) -> str:
    """A ratio, with as many digits as say something."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table whose columns are also aligned for those who read it as text."""
    lines = [list(head), *(list(row) for row in body)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    texts = [f"| {' | '.join(line)} |" for line in padded]
    return "\n".join([texts[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *texts[1:]])


def by_case(rows: Rows, part: str, group: str, baseline: str) -> str:
    """Systems down, cases of one group across; each cell median / p99, and the median as a multiple of ours."""
    chosen = [row for row in rows if row.part == part and row.case.startswith(group)]
    cases = list(dict.fromkeys(row.case for row in chosen))
    body: list[list[str]] = []
    for system in dict.fromkeys(row.system for row in chosen):
        line = [system]
        for case in cases:
            row = next((row for row in chosen if (row.case, row.system) == (case, system)), None)
            if row is None or not row.figures:
                line.append(row.absent if row is not None else "")
                continue
            text = f"{duration(row.figures['median'])} / {duration(row.figures['p99'])}"
            ratio = rows.ratio(part, case, system, baseline)
            line.append(text if ratio is None else f"{text} ({times(ratio)})")
        body.append(line)
    return markdown(["median / p99 (x ours)", *(case.removeprefix(group).lstrip(", ") for case in cases)], body)


def by_figure(rows: Rows, part: str, columns: Mapping[str, str]) -> str:
    """One line a row; columns are heading -> figure."""
    body: list[list[str]] = []
    for row in (row for row in rows if row.part == part):
        if not row.figures:
            body.append([row.case, row.system, row.absent, *[""] * (len(columns) - 1)])
            continue
        cells = [_figure(name, row.figures.get(name)) for name in columns.values()]
        body.append([row.case, row.system, *cells])
    return markdown(["case", "system", *columns], body)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    if name in ("lost", "failed", "doubled", "samples"):
        return f"{value:,.0f}"
    if name == "share":
        return f"{value:.3%}"
    if name == "multiple":
        return times(value)
    return duration(value)
