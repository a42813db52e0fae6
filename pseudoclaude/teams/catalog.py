"""Which teams there are on this machine: reads their folders, changes nothing."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from ..errors import InvalidNameError, StorageError, TeamError
from ..ids import TeamName
from .foreign import CONFIG, ForeignTeam, Program
from .registry import parse_team


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """What a list of teams shows of one. ``members`` are the names of those that have not ended.

    Where ``error`` is not empty, the team cannot be read, and ``workspace`` and ``created_at`` are None.
    """

    name: TeamName
    path: Path
    workspace: Path | None = None
    created_at: datetime | None = None
    members: tuple[str, ...] = ()
    error: str = ""


class TeamCatalog:
    """The teams below a root folder. Its methods read the disk, and so belong in a thread where a loop runs.

    :param root: the folder that holds ``teams``; it need not be there.
    :param claude_root: where Claude Code keeps its data, to find its teams as well.
    """

    def __init__(self, root: Path, claude_root: Path | None = None) -> None:
        self._teams = root / "teams"
        self._claude_teams = claude_root / "teams" if claude_root else None

    def names(self) -> list[TeamName]:
        """The teams of this program, in alphabetical order, whether or not they can be read."""
        return sorted(name for entry in _entries(self._teams) if (name := _team_name(entry)))

    def foreign(self) -> list[ForeignTeam]:
        """Teams of other programs: the Go program's beside ours, then Claude Code's."""
        found = [
            ForeignTeam(entry.name, entry, Program.GO)
            for entry in sorted(_entries(self._teams))
            if (entry / CONFIG).is_file() and not (entry / "team.json").exists()
        ]
        if self._claude_teams is not None:
            found += [
                ForeignTeam(entry.name, entry, Program.CLAUDE_CODE)
                for entry in sorted(_entries(self._claude_teams))
                if (entry / CONFIG).is_file()
            ]
        return found

    def is_taken(self, name: TeamName) -> bool:
        """Whether a folder has this name, in any case: a team of ours, of the Go program's, or anything else.

        One that holds nothing but hidden files is what a process left that was killed while it made a team: free.
        """
        return name.key() in self._taken()

    def free_name(self, base: TeamName) -> TeamName:
        """``base`` if it is free, or the first free one of ``base-2``, ``base-3`` and so on."""
        taken = self._taken()
        if base.key() not in taken:
            return base
        return next(name for n in count(2) if (name := _numbered(base, n)).key() not in taken)

    def summaries(self) -> list[TeamSummary]:
        """Every team of this program in alphabetical order. One that cannot be read says so in its ``error``."""
        return [self._summary(name) for name in self.names()]

    def newest_for(self, workspace: Path) -> TeamName | None:
        """The team created last of those that work on this folder; None where there is none."""
        wanted = _resolved(workspace)
        found = [
            (summary.created_at, summary.name)
            for summary in self.summaries()
            if summary.created_at and summary.workspace and _resolved(summary.workspace) == wanted
        ]
        return max(found)[1] if found else None

    def _taken(self) -> set[str]:
        return {_key(entry.name) for entry in _entries(self._teams) if not _is_remnant(entry)}

    def _summary(self, name: TeamName) -> TeamSummary:
        path = self._teams / name
        file = path / "team.json"
        try:
            team = parse_team(json.loads(file.read_bytes()), name, file)
        except OSError as error:
            return TeamSummary(name, path, error=f"{file}: {error.strerror or error}")
        except (ValueError, RecursionError) as error:
            return TeamSummary(name, path, error=f"{file}: not JSON: {error}")
        except TeamError as error:
            return TeamSummary(name, path, error=str(error))
        created_at = team.created_at if team.created_at.tzinfo else team.created_at.replace(tzinfo=UTC)
        return TeamSummary(name, path, team.workspace, created_at, tuple(str(member.name) for member in team.present))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(folder, error.strerror or str(error)) from error


def _is_remnant(folder: Path) -> bool:
    try:
        return folder.is_dir() and not folder.is_symlink() and all(e.name.startswith(".") for e in folder.iterdir())
    except OSError:
        return False


def _team_name(folder: Path) -> TeamName | None:
    """The team in a folder of this program; None for any other folder."""
    try:
        name = TeamName(folder.name)
        # A folder's name that only becomes legal by normalizing would not be found under the legal one.
        return name if name == folder.name and (folder / "team.json").is_file() else None
    except (InvalidNameError, OSError):
        return None


def _numbered(base: TeamName, n: int) -> TeamName:
    """``base-n``, with as much of ``base`` as a name has room for."""
    stem: str = base
    while True:
        try:
            return TeamName(f"{stem}-{n}")
        except InvalidNameError:
            stem = stem[:-1].rstrip("-_.")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # a link that leads to itself, or a character no path can hold
        return path


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
