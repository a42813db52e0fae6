"""The registry: the one place that reads and writes who is in a team."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from ..errors import (
    ConflictError,
    MemberExistsError,
    TeamError,
    TeamExistsError,
    TooManyMembersError,
    UnknownMemberError,
    UnknownTeamError,
)
from ..ids import RESERVED_AGENT_NAMES, AgentId, TeamName
from ..storage.base import Document, update
from .addressing import LEAD_NAMES
from .models import MemberRecord, TeamRecord


class Roster(Protocol):
    """Who is in a team, for whoever only looks."""

    @property
    def team(self) -> TeamRecord:
        """The team as it was when it was last read."""
        ...

    async def load(self) -> TeamRecord:
        """Read the team."""
        ...


class Registry:
    """The roster of one team, in one document.

    Every change is one compare-and-set step, so that it holds against other processes too. What the document holds
    beside the records' own fields stays in it.

    :param where: what errors call the document; by default ``team.json`` of the team.
    """

    def __init__(self, document: Document, team: TeamName, *, where: Path | str = "") -> None:
        self._document = document
        self._name = team
        self._where = str(where) or f"team.json of team {team}"
        self._team: TeamRecord | None = None

    @property
    def team(self) -> TeamRecord:
        """The team as it was when a method of this registry last read or changed it.

        :raises TeamError: when none has yet.
        """
        if self._team is None:
            raise TeamError(f"team {self._name} has not been loaded", remedy="Load it first.")
        return self._team

    async def load(self) -> TeamRecord:
        """Read the team.

        :raises UnknownTeamError: when there is none.
        :raises TeamError: when what is stored is no team, or holds names that are not allowed.
        """
        current = await self._document.read()
        if current is None:
            raise self._unknown()
        return self._remember(current.value)

    async def create(self, record: TeamRecord) -> TeamRecord:
        """Store a new team.

        :raises TeamExistsError: when there is one already.
        """
        value = record.model_dump(mode="json", exclude_none=True)
        team = parse_team(value, self._name, self._where)
        try:
            await self._document.replace(value, expected=None)
        except ConflictError as error:
            raise TeamExistsError(self._where) from error
        self._team = team
        return team

    async def add(self, member: MemberRecord, *, limit: int) -> MemberRecord:
        """Add a member, or find the one that the same call, ``spawned_by``, has added before; the member.

        A name is free again when its member has ended.

        :param limit: how many members may be present.
        :raises MemberExistsError: when a present member has this name, in any case, or any has this agent id.
        :raises TooManyMembersError: when the team is full.
        """

        def change(team: TeamRecord, value: dict[str, Any]) -> dict[str, Any]:
            if _made_before(team, member):
                return value
            if any(other.name.key() == member.name.key() for other in team.present) or team.find(member.agent_id):
                raise MemberExistsError(member.name)
            if len(team.present) >= limit:
                raise TooManyMembersError(limit)
            return {**value, "members": [*value.get("members", []), member.model_dump(mode="json", exclude_none=True)]}

        team = await self._change(change)
        return _made_before(team, member) or _member(team, member.agent_id)

    async def end(self, agent_id: AgentId) -> MemberRecord:
        """Record that a member has ended, if it has not yet; the member.

        :raises UnknownMemberError: when no member has this agent id.
        """

        def change(team: TeamRecord, value: dict[str, Any]) -> dict[str, Any]:
            if _member(team, agent_id).ended_at is not None:
                return value
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            members = [
                {**entry, "ended_at": now} if entry["agent_id"] == agent_id else entry for entry in value["members"]
            ]
            return {**value, "members": members}

        return _member(await self._change(change), agent_id)

    async def _change(self, change: Callable[[TeamRecord, dict[str, Any]], dict[str, Any]]) -> TeamRecord:
        def step(value: Any) -> Any:
            if value is None:
                raise self._unknown()
            return change(parse_team(value, self._name, self._where), value)

        return self._remember(await update(self._document, step))

    def _remember(self, value: Any) -> TeamRecord:
        self._team = parse_team(value, self._name, self._where)
        return self._team

    def _unknown(self) -> UnknownTeamError:
        error = UnknownTeamError(self._name, ())
        error.remedy = "Teams are listed by: pseudoclaude team list."
        return error


def parse_team(value: object, name: TeamName, where: Path | str) -> TeamRecord:
    """The team in a stored value, if everything in it is fit to be used for paths and addresses.

    :param name: the team's folder; the value must agree.
    :param where: what an error calls the place the value came from.
    :raises TeamError: naming the field and what is wrong with it.
    """
    remedy = "Mend that field by hand, or move the team's folder away; nothing was changed."
    try:
        team = TeamRecord.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise TeamError(f"{where}: {place}: {first['msg']}", remedy=remedy) from error
    if wrong := _disagreement(team, name):
        raise TeamError(f"{where}: {wrong}", remedy=remedy)
    return team


def _disagreement(team: TeamRecord, name: TeamName) -> str:
    """What is wrong with a team whose fields are each right; empty if nothing is."""
    if team.name.key() != name.key():
        return f"name: it says {str(team.name)!r}, and the folder is {str(name)!r}"
    if team.lead.agent_id.key() in RESERVED_AGENT_NAMES - LEAD_NAMES:
        return f"lead.agent_id: {str(team.lead.agent_id)!r} is reserved"
    ids = {*RESERVED_AGENT_NAMES, team.lead.agent_id.key()}
    names: set[str] = set()
    for place, member in enumerate(team.members):
        if member.agent_id.key() in ids:
            return f"members.{place}.agent_id: {str(member.agent_id)!r} is reserved or somebody else's"
        ids.add(member.agent_id.key())
        if member.ended_at is None:
            if member.name.key() in names:
                return f"members.{place}.name: another member is called {str(member.name)!r} too"
            names.add(member.name.key())
    return ""


def _made_before(team: TeamRecord, member: MemberRecord) -> MemberRecord | None:
    """The present member that the same call has made, if one has."""
    if member.spawned_by is None:
        return None
    return next((other for other in team.present if other.spawned_by == member.spawned_by), None)


def _member(team: TeamRecord, agent_id: AgentId) -> MemberRecord:
    found = next((member for member in team.members if member.agent_id == agent_id), None)
    if found is None:
        raise UnknownMemberError(agent_id, (member.name for member in team.present))
    return found
