"""Where things are on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .errors import SettingsError
from .ids import AgentId, TeamName


def root() -> Path:
    """The data root: ``$PSEUDOCLAUDE_HOME``, else ``~/.PseudoClaude``. It need not exist yet.

    :raises SettingsError: when neither leads to a folder.
    """
    home = os.environ.get("PSEUDOCLAUDE_HOME")
    try:
        return (Path(home).expanduser() if home else Path.home() / ".PseudoClaude").absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"there is no home folder: {error}", remedy="Set PSEUDOCLAUDE_HOME to an absolute path."
        ) from error


def claude_root() -> Path:
    """Where Claude Code keeps its data: ``$CLAUDE_CONFIG_DIR``, else ``~/.claude``. Only mail is written there."""
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(home).expanduser() if home else Path.home() / ".claude").absolute()


@dataclass(frozen=True, slots=True)
class TeamPaths:
    """The folder of one team and the keys of what lies in it."""

    root: Path
    team: TeamName

    ROSTER: ClassVar[str] = "team.json"
    BOARD: ClassVar[str] = "board.json"
    JOURNAL: ClassVar[str] = "journal.jsonl"
    LEAD_LOCK: ClassVar[str] = "lead.lock"
    INBOXES: ClassVar[str] = "inboxes"

    @property
    def folder(self) -> Path:
        """``<root>/teams/<team>``."""
        return self.root / "teams" / TeamName(self.team)

    @staticmethod
    def session(agent_id: AgentId) -> str:
        """The key of an agent's transcript, and of the lease that is the right to run it."""
        return f"sessions/{AgentId(agent_id)}.jsonl"

    @staticmethod
    def state(agent_id: AgentId) -> str:
        """The key of an agent's state, written by whoever runs it."""
        return f"state/{AgentId(agent_id)}.json"
