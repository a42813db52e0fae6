"""``Read``, ``Glob`` and ``Grep``: looking at files, inside the workspace only, and never at the data root."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Literal

from anyio import to_thread
from pydantic import Field

from ..errors import ToolError
from .base import ToolContext
from .decorator import tool
from .ripgrep import MOST_MATCHES, Search, by_file, matched
from .workspace import check_usable, locate

_LONGEST_LINE = 2_000
_PAGE = 90_000
"""Characters of one answer; below what a toolbox lets through, so that what is missing can be asked for."""
_COUNTED = 50 * 1024 * 1024
"""Bytes of a file up to which the lines behind a page are counted."""

Count = Annotated[int, Field(ge=1)]
Skipped = Annotated[int, Field(ge=0)]


@tool(name="Read", read_only=True)
def read(ctx: ToolContext, path: str, offset: Count = 1, limit: Count = 2_000) -> str:
    """Read a text file of the workspace, with line numbers.

    Each line is shown as its number, a tab and its text. How to go on with a long file is said at the end.

    Args:
        path: The file, absolute or relative to the workspace.
        offset: The first line to show, counted from 1.
        limit: How many lines to show at most.
    """
    place = locate(ctx.workspace, path)
    try:
        mode = place.path.lstat().st_mode
        if stat.S_ISDIR(mode):
            raise ToolError(f"{path!r} is a folder", remedy="List what is in it with Glob.")
        if not stat.S_ISREG(mode):
            raise ToolError(f"{path!r} is not a regular file")
        with place.open() as file:
            return _numbered(path, file, offset, limit)
    except OSError as fault:
        raise ToolError(f"{path!r} cannot be read: {fault.strerror}") from None


@tool(name="Glob", read_only=True)
async def glob(
    ctx: ToolContext,
    pattern: str = "**/*",
    path: str = ".",
    sizes: bool = False,
    limit: Count = 1_000,
    offset: Skipped = 0,
) -> str:
    """Find files of the workspace by name, sorted by path; files that git ignores are left out.

    Args:
        pattern: A glob as in a .gitignore file, seen from path: "*.py" matches at any depth, "src/**/*.py" below src.
        path: The folder to look in, absolute or relative to the workspace.
        sizes: Put the size in bytes and a tab before each path.
        limit: How many files to show at most.
        offset: How many files to skip.
    """
    search = await to_thread.run_sync(Search.at, ctx.workspace, path)
    if search.only:
        raise ToolError(f"{path!r} is a file", remedy="Show it with Read.")
    if pattern.startswith(f"{search.folder}/"):
        pattern = pattern.removeprefix(str(search.folder))
    names, note = await search.files(f"{pattern}**" if pattern.endswith("/") else pattern)

    def page() -> str:
        found = sorted(search.without_data(names))
        return _page(found, search.sized if sizes else search.shown, offset, limit, note) or "(no files)"

    return await to_thread.run_sync(page, abandon_on_cancel=True)


@tool(name="Grep", read_only=True)
async def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    mode: Literal["content", "files", "count"] = "content",
    ignore_case: bool = False,
    context: Annotated[int, Field(ge=0, le=100)] = 0,
    limit: Count = 1_000,
    offset: Skipped = 0,
) -> str:
    """Search the text files of the workspace for a regular expression; files that git ignores are left out.

    Args:
        pattern: A regular expression in the syntax of ripgrep.
        path: The folder or file to search, absolute or relative to the workspace.
        glob: Search only files that match this glob, seen from path, such as "*.py".
        mode: "content" shows path:line:text, "files" the paths of files with a match, "count" path:number of lines.
        ignore_case: Do not tell capital letters from small ones.
        context: How many lines to show before and after each match, as path-line-text.
        limit: How many lines of the answer to show at most.
        offset: How many lines of the answer to skip.
    """
    check_usable(pattern)
    search = await to_thread.run_sync(Search.at, ctx.workspace, path)
    options = {
        "content": ["--line-number", f"--context={context}", "--no-context-separator"],
        "files": ["--count"],  # --files-with-matches stops before it finds out that a file is binary
        "count": ["--count"],
    }[mode]
    options += ["--ignore-case", "-e", pattern] if ignore_case else ["-e", pattern]
    records, note = await search.run(options, glob or "", b"\n", MOST_MATCHES)
    wanted = (await search.files(""))[0] if glob and not search.only and records else None

    def page() -> str:
        matches = by_file(records)
        names = matches.keys() if wanted is None else matches.keys() & wanted
        lines: list[str] = []
        for name in sorted(search.without_data(names)):
            shown = search.shown(name)
            lines += [shown] if mode == "files" else matched(shown, matches[name], gaps=context > 0)
        return _page(lines, str, offset, limit, note) or "(no matches)"

    return await to_thread.run_sync(page, abandon_on_cancel=True)


def _numbered(path: str, file: io.BufferedReader, offset: int, limit: int) -> str:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path!r} is not a regular file")
    start = file.peek(8192)
    wide = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\0" in start and not wide:
        raise ToolError(f"{path!r} is a binary file of {status.st_size:,} bytes")
    # Lines end where ripgrep ends them, so that the numbers agree.
    with io.TextIOWrapper(file, "utf-16" if wide else "utf-8-sig", errors="replace", newline="\n") as text:
        lines = _lines(text)
        shown: list[str] = []
        number, room = 0, _PAGE
        for number, line in enumerate(lines, 1):
            if number < offset:
                continue
            room -= len(line) + 8
            if len(shown) == limit or (room < 0 and shown):
                more = f"{1 + sum(1 for _ in lines):,} more lines" if status.st_size <= _COUNTED else "more lines"
                return "\n".join([*shown, f"... {more}; go on with offset={number}"])
            shown.append(f"{number:6}\t{line}")
    if number and not shown:
        raise ToolError(f"{path!r} has {number:,} lines, and none from {offset:,} on")
    return "\n".join(shown) or "(empty file)"


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines without their ends; of a very long one no more is held than what is shown."""
    while line := text.readline(_LONGEST_LINE + 1):
        if line.endswith("\n") or len(line) <= _LONGEST_LINE:
            yield line.removesuffix("\n").removesuffix("\r")
            continue
        cut = 1
        while rest := text.readline(65_536):
            cut += len(rest.removesuffix("\n"))
            if rest.endswith("\n"):
                break
        yield f"{line[:_LONGEST_LINE]}... ({cut:,} more characters)"


def _page(items: Sequence[str], shown: Callable[[str], str], offset: int, limit: int, note: str) -> str:
    """A part of a list, one item a line, and how to go on; empty when the list is.

    :raises ToolError: when the part is behind the end.
    """
    if items and offset >= len(items):
        raise ToolError(f"there are {len(items):,} lines, and none from offset {offset:,} on")
    lines: list[str] = []
    room = _PAGE
    for item in islice(items, offset, offset + limit):
        line = shown(item)
        room -= len(line) + 1
        if room < 0 and lines:
            break
        lines.append(line)
    done = offset + len(lines)
    if done < len(items):
        lines.append(f"... {len(items) - done:,} more; go on with offset={done}")
    return "\n".join([*lines, note] if note else lines)
