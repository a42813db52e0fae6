"""Where things are on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .ids import AgentId, TeamName


def root() -> Path:
    """The data root: ``$PSEUDOCLAUDE_HOME``, else ``~/.PseudoClaude``. It need not exist yet."""
    home = os.environ.get("PSEUDOCLAUDE_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".PseudoClaude").absolute()


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
        return self.root / "teams" / self.team

    @staticmethod
    def session(agent_id: AgentId) -> str:
        """The key of an agent's transcript, and of the lease that is the right to run it."""
        return f"sessions/{agent_id}.jsonl"

    @staticmethod
    def state(agent_id: AgentId) -> str:
        """The key of an agent's state, written by whoever runs it."""
        return f"state/{agent_id}.json"
