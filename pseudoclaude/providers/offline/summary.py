"""The lead's final report: the members' findings put together, as text for a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from .escaping import show
from .languages import TEST_RULE, language
from .member import BIGGEST
from .parts import Part
from .report import Report, count

_WIDTH = 100
_EXTENSIONS = 6
_AUTHOR = "answered by the offline rules, not by a model"


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What was asked after the reports, whom, and the lines of the answer."""

    member: str
    path: str
    lines: tuple[str, ...]


def summarize(
    files: int, shares: Sequence[tuple[str, Part, Report | None]], follow_up: FollowUp | None, troubles: Iterable[str]
) -> str:
    """The whole report.

    :param files: how many files the lead saw.
    :param shares: each member with its part, and its report if it gave one.
    """
    reports = [report for _, _, report in shares if report]
    text_files = sum(report.text_files for report in reports)
    title = f"Survey of {count(files, 'file')} ({_AUTHOR})"
    sections = [
        [
            title,
            "=" * len(title),
            "",
            f"{text_files:,} text files; what git ignores and binary files are left out below.",
        ],
        _languages(reports),
        _biggest(reports),
        _marks(reports),
        _untested(reports),
        _followed_up(follow_up),
        _who(shares),
        _troubles(files, reports, troubles),
        [_wrapped(f"How modules without a test are found: {TEST_RULE}")],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _languages(reports: Iterable[Report]) -> list[str]:
    files, lines = Counter[str](), Counter[str]()
    by_extension: dict[str, Counter[str]] = defaultdict(Counter)
    for report in reports:
        for extension, number, length in report.extensions:
            name = language(extension)
            files[name] += number
            lines[name] += length
            by_extension[name][extension or "none"] += number
    order = sorted(files, key=lambda name: (-lines[name], -files[name], name))
    width = max([len(name) for name in order] + [8])
    rows = [
        f"  {name:<{width}} {files[name]:>9,} {lines[name]:>12,}  {_some(by_extension[name])}".rstrip()
        for name in order
    ]
    total = f"  {'total':<{width}} {sum(files.values()):>9,} {sum(lines.values()):>12,}"
    return [*_heading("Languages"), f"  {'':<{width}} {'files':>9} {'lines':>12}  extensions", *rows, total]


def _some(extensions: Counter[str]) -> str:
    names = [show(name) for name, _ in sorted(extensions.items(), key=lambda item: (-item[1], item[0]))]
    return " ".join(names[:_EXTENSIONS]) + (f" and {len(names) - _EXTENSIONS} more" if len(names) > _EXTENSIONS else "")


def _biggest(reports: Iterable[Report]) -> list[str]:
    rows = sorted((row for report in reports for row in report.biggest), key=lambda row: (-row[0], row[2]))[:BIGGEST]
    shown = [f"  {size:>13,} {lines:>11,}  {show(path)}" for size, lines, path in rows]
    return [*_heading("Biggest text files"), f"  {'bytes':>13} {'lines':>11}", *(shown or ["  none"])]


def _marks(reports: Iterable[Report]) -> list[str]:
    marks = sorted(mark for report in reports for mark in report.marks)
    found = len({path for path, _, _ in marks})
    lines = _heading(f"TODO and FIXME: {count(len(marks), 'line')} in {count(found, 'file')}")
    for path, group in groupby(marks, key=lambda mark: mark[0]):
        places = [(f"{show(path)}:{line}", text) for _, line, text in group]
        width = max(len(place) for place, _ in places)
        lines += [f"  {place:<{width}}  {show(text)}".rstrip() for place, text in places]
    return lines


def _untested(reports: Sequence[Report]) -> list[str]:
    paths = sorted(path for report in reports for path in report.untested)
    of = sum(report.modules for report in reports)
    lines = _heading(f"Modules without a test: {len(paths):,} of {of:,}")
    for folder, group in groupby(sorted(paths, key=_folder_first), key=lambda path: path.rpartition("/")[0]):
        inside = list(group)
        lines += [f"  {show(folder) or '.'}/ ({len(inside):,})", *(f"    {show(path)}" for path in inside)]
    return lines


def _folder_first(path: str) -> tuple[str, str]:
    return path.rpartition("/")[0], path


def _followed_up(follow_up: FollowUp | None) -> list[str]:
    if follow_up is None:
        return []
    title = f"The file with the most lines: {show(follow_up.path)}"
    said = [f"  {show(line)}".rstrip() for line in follow_up.lines]
    return [*_heading(title), f"  {follow_up.member} was asked what it is about, and answers:", *said]


def _who(shares: Iterable[tuple[str, Part, Report | None]]) -> list[str]:
    lines = _heading("Who did what")
    for name, part, report in shares:
        lines.append(f"  {name:<8} {part.describe()}")
        if report is None:
            lines.append(f"  {'':<8} {count(part.files, 'file')}, not reported")
        else:
            lines.append(
                f"  {'':<8} {count(report.files, 'file')}, {report.text_files:,} of them text; "
                f"{len(report.marks):,} TODO or FIXME, {count(len(report.untested), 'module')} without a test"
            )
    return [*lines, f"  {'lead':<8} divided the folder, asked about the longest file, wrote this report"]


def _troubles(files: int, reports: Sequence[Report], troubles: Iterable[str]) -> list[str]:
    told = [*troubles, *(f"{report.member}: {trouble}" for report in reports for trouble in report.troubles)]
    surveyed = sum(report.files for report in reports)
    if surveyed != files:
        told.append(
            f"{files:,} files were divided and {surveyed:,} surveyed; the rest was not reached, or the folder changed"
        )
    return [*_heading("What could not be done"), *(f"  {show(line)}" for line in dict.fromkeys(told))] if told else []


def _heading(title: str) -> list[str]:
    return [title, "-" * len(title)]


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
