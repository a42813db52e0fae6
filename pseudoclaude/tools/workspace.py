"""Paths of the workspace: where they really lead, and that they lead nowhere else."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from ..errors import ToolError
from ..paths import root


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
    check_usable(path)
    try:
        base = workspace.resolve()
        real = (base / path).resolve()
    except (OSError, RuntimeError) as fault:
        raise ToolError(f"{path!r} cannot be resolved: {fault}") from None
    if not real.is_relative_to(base):
        raise ToolError(f"{path!r} is outside the workspace", remedy=f"Only paths in {base} can be used.")
    data = identity(root())
    if data and any(identity(folder) == data for folder in (real, *real.parents)):
        raise ToolError(f"{path!r} belongs to the data of pseudoclaude itself, which tools cannot read")
    if not os.path.lexists(real):
        near = ", ".join(repr(name) for name in _nearest(base, real))
        raise ToolError(f"there is no {path!r}", remedy=f"Near it: {near}." if near else "")
    return Place(base, real)


def check_usable(text: str) -> None:
    """Refuse what neither a path nor a pattern can hold.

    :raises ToolError: for such a text.
    """
    try:
        usable = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise ToolError(f"{text!r} holds a character that no path or pattern can have")


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode, by which a folder is known under any spelling; None where there is nothing."""
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
