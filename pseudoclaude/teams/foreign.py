"""Teams of other programs, read from their ``config.json``: PseudoClaude's, the Go program's, and Claude Code's.

They are only read here. Their mail is in :mod:`pseudoclaude.mailbox.foreign`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import anyio

from ..errors import InvalidNameError, TeamError
from ..ids import AgentId, AgentName, TeamName
from ..logs import Log
from .models import LeadRecord, MemberRecord, TeamRecord

CONFIG = "config.json"
PERSON = "human"
"""What the person is called among Claude Code's agents, which refuse mail to a ``user``."""

_TRIES, _PAUSE = 10, 0.03
"""Claude Code writes its file in place: one that does not parse is read again after so many seconds."""

_log = Log(__name__)


class Program(StrEnum):
    """Whose team it is."""

    GO = "PseudoClaude (Go)"
    CLAUDE_CODE = "Claude Code"


@dataclass(frozen=True, slots=True)
class ForeignTeam:
    """A team of another program: its folder, and whose it is."""

    name: str
    folder: Path
    program: Program


class ForeignRoster:
    """The roster of such a team. Has the methods of a registry that look, and none that change."""

    def __init__(self, place: ForeignTeam) -> None:
        self._place = place
        self._team: TeamRecord | None = None
        self.colours: dict[AgentId, str] = {}
        """The colours that the other program gave its agents."""

    @property
    def team(self) -> TeamRecord:
        """The team as it was when it was last read.

        :raises TeamError: when it has not been read yet.
        """
        if self._team is None:
            raise TeamError(f"team {self._place.name} has not been loaded", remedy="Load it first.")
        return self._team

    async def load(self) -> TeamRecord:
        """Read the team.

        :raises TeamError: when the file cannot be read, or is no roster; it is left as it is.
        """
        file = self._place.folder / CONFIG
        for attempt in range(_TRIES):
            try:
                config = json.loads(await anyio.Path(file).read_bytes())
                break
            except OSError as error:
                raise TeamError(f"{file}: {error.strerror or error}") from error
            except (ValueError, RecursionError) as error:
                if attempt == _TRIES - 1:
                    raise TeamError(
                        f"{file}: not JSON: {error}", remedy=f"It belongs to {self._place.program}; mend it there."
                    ) from error
            await anyio.sleep(_PAUSE)
        try:
            self._team = _record(config, self._place)
            self.colours = {AgentId(str(m["name"])): str(m["color"]) for m in config["members"] if "color" in m}
        except (KeyError, TypeError, AttributeError, InvalidNameError) as error:
            raise TeamError(f"{file}: no roster of {self._place.program}: {error!r}") from error
        return self._team


def _record(config: Any, place: ForeignTeam) -> TeamRecord:
    if place.program is Program.GO:
        lead_id, members = str(config["lead_agent_id"]), config.get("members") or []
        found = [(str(m["name"]), str(m["agent_id"]), m) for m in members]
        workspace = str(config.get("project_root") or place.folder)
    else:
        lead_id, members = str(config["leadAgentId"]).partition("@")[0], config.get("members") or []
        found = [(str(m["name"]), str(m["name"]), m) for m in members]
        workspace = next((str(m["cwd"]) for m in members if m.get("cwd")), str(place.folder))
    return TeamRecord(
        name=TeamName(place.folder.name),
        workspace=Path(workspace),
        lead=LeadRecord(agent_id=AgentId(lead_id)),
        members=tuple(
            member
            for name, agent_id, entry in found
            if agent_id != lead_id and name != PERSON and (member := _member(name, agent_id, entry))
        ),
    )


def _member(name: str, agent_id: str, entry: Mapping[str, Any]) -> MemberRecord | None:
    try:
        return MemberRecord(
            name=AgentName(name),
            agent_id=AgentId(agent_id),
            prompt="",
            description=str(entry.get("agent_type") or entry.get("agentType") or ""),
            model=str(entry.get("model") or ""),
        )
    except InvalidNameError as error:  # it cannot be written to; the others can
        _log.warning("a member of another program's team is left out", why=str(error))
        return None
