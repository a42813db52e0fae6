"""A member's report: what it holds, how it is written as a letter, and how the lead reads that letter. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import TypeVar

from .escaping import escape, unescape

TITLE = "Survey report of "
_END = "End of report."
_LONGEST_TEXT = 160
_ROOMY = 800_000
"""Characters of a letter up to which the text of each TODO is part of it; a message holds at most 1 MiB."""

_T = TypeVar("_T")

_NUMBER = r"([\d,]+)"


@dataclass(frozen=True, slots=True)
class Report:
    """What one member found in its part. Texts are one line each, without white space at their ends."""

    member: str
    part: str
    files: int
    text_files: int
    extensions: tuple[tuple[str, int, int], ...] = ()
    """Extension (or empty), files and lines of text files."""
    biggest: tuple[tuple[int, int, str], ...] = ()
    """Bytes, lines and path of the biggest text files."""
    longest: tuple[int, str] | None = None
    """Lines and path of the text file with the most lines."""
    marks: tuple[tuple[str, int, str], ...] = ()
    """Path, line and text of each TODO and FIXME."""
    modules: int = 0
    untested: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


def one_line(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Any text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 3].rstrip() + "..."


@lru_cache(maxsize=16)
def write(report: Report) -> str:
    """The letter. Without the texts of TODOs when it would become too long for a message."""
    text = "\n".join(_lines(report, texts=True))
    return text if len(text.encode("utf-8", "replace")) <= _ROOMY else "\n".join(_lines(report, texts=False))


@lru_cache(maxsize=16)
def read(text: str) -> Report | None:
    """The report in a letter; None when it is none, or not a whole one."""
    lines = text.strip("\n").split("\n")
    if not lines[0].startswith(TITLE) or lines[-1] != _END:
        return None
    head: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines[1:-1]:
        if line.startswith("  "):
            current.append(line)
        elif line:
            name, _, rest = line.partition(":")
            head[name] = rest.strip()
            current = sections.setdefault(name, [])
    numbers = re.match(rf"{_NUMBER}, {_NUMBER} of them text", head.get("Files", ""))
    modules = re.match(rf"{_NUMBER} of {_NUMBER}", head.get("Modules without a test", ""))
    if not numbers or not modules:
        return None
    return Report(
        member=unescape(lines[0].removeprefix(TITLE)),
        part=unescape(head.get("Part", "")),
        files=_int(numbers[1]),
        text_files=_int(numbers[2]),
        extensions=_rows(
            sections.get("Languages", ()),
            rf"  (.+?) +{_NUMBER} +{_NUMBER}",
            lambda row: (unescape(row[1]).removeprefix("(none)"), _int(row[2]), _int(row[3])),
        ),
        biggest=_rows(
            sections.get("Biggest text files", ()),
            rf" +{_NUMBER} +{_NUMBER}  (.+)",
            lambda row: (_int(row[1]), _int(row[2]), unescape(row[3])),
        ),
        longest=next(
            iter(
                _rows(
                    sections.get("Longest text file", ()),
                    rf" +{_NUMBER}  (.+)",
                    lambda row: (_int(row[1]), unescape(row[2])),
                )
            ),
            None,
        ),
        marks=tuple(_marks(sections.get("TODO and FIXME", ()))),
        modules=_int(modules[2]),
        untested=tuple(unescape(line[2:]) for line in sections.get("Modules without a test", ())),
        troubles=tuple(unescape(line[2:]) for line in sections.get("Could not be done", ())),
    )


def _lines(report: Report, *, texts: bool) -> Iterator[str]:
    yield f"{TITLE}{escape(report.member)}"
    yield f"Part: {escape(report.part)}"
    yield f"Files: {report.files:,}, {report.text_files:,} of them text"
    yield "\nLanguages: files and lines by extension"
    width = max((len(escape(name)) for name, _, _ in report.extensions), default=0) + 2
    for name, files, lines in report.extensions:
        yield f"  {escape(name) or '(none)':<{max(width, 8)}} {files:>7,} {lines:>11,}"
    yield "\nBiggest text files: bytes and lines"
    yield from (f"  {size:>13,} {lines:>11,}  {escape(path)}" for size, lines, path in report.biggest)
    yield "\nLongest text file: lines"
    if report.longest:
        yield f"  {report.longest[0]:>11,}  {escape(report.longest[1])}"
    found = len({path for path, _, _ in report.marks})
    yield f"\nTODO and FIXME: {len(report.marks):,} lines in {found:,} files"
    for path, group in groupby(report.marks, key=lambda mark: mark[0]):
        yield f"  {escape(path)}"
        yield from (f"    {line:>6}  {escape(text) if texts else ''}".rstrip(" ") for _, line, text in group)
    yield f"\nModules without a test: {len(report.untested):,} of {report.modules:,}"
    yield from (f"  {escape(path)}" for path in report.untested)
    yield f"\nCould not be done: {len(report.troubles) or 'nothing'}"
    yield from (f"  {escape(trouble)}" for trouble in report.troubles)
    yield f"\n{_END}"


def _rows(lines: Iterable[str], pattern: str, make: Callable[[re.Match[str]], _T]) -> tuple[_T, ...]:
    return tuple(make(row) for row in (re.fullmatch(pattern, line) for line in lines) if row)


def _marks(lines: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    path = ""
    for line in lines:
        if row := re.fullmatch(r"    +(\d+)(?:  (.*))?", line):
            yield path, int(row[1]), unescape(row[2] or "")
        else:
            path = unescape(line[2:])


def _int(text: str) -> int:
    return int(text.replace(",", ""))


def count(number: int, noun: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
