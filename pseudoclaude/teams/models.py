"""The roster of a team: frozen records, stored in ``team.json``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..ids import USER, AgentId, AgentName, MessageId, TeamName
from ..mail import Role, Timestamp


class _Record(BaseModel):
    """Unknown keys are kept, so that an older program does not drop what a newer one wrote."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class LeadRecord(_Record):
    """The lead; its conversation begins with what the person says."""

    agent_id: AgentId
    model: str = ""

    @property
    def name(self) -> str:
        """Every lead is called so."""
        return "lead"


class MemberRecord(_Record):
    """One member. ``prompt`` opens its conversation; ``spawned_by`` is the derived id of the call that made it."""

    name: AgentName
    agent_id: AgentId
    prompt: str
    description: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    """The only tools it may use, beside mail and tasks; None for all."""
    spawned_by: MessageId | None = None
    joined_at: Timestamp = Field(default_factory=lambda: datetime.now(UTC))
    ended_at: Timestamp | None = None


Agent = LeadRecord | MemberRecord
"""Whoever has a conversation in a team."""


class TeamRecord(_Record):
    """A team: what ``team.json`` holds. It changes when a member joins or ends, and at no other time."""

    name: TeamName
    workspace: Path
    """The folder the team works on, absolute."""
    lead: LeadRecord
    members: tuple[MemberRecord, ...] = ()
    provider: str = ""
    """The name of the provider it was created with."""
    format: Literal["log", "box"] = "log"
    """How its mail is stored: in our logs, or in the boxes of the Go program."""
    created_at: Timestamp = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def present(self) -> tuple[MemberRecord, ...]:
        """The members that have not ended."""
        return tuple(member for member in self.members if member.ended_at is None)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The lead, then the members that have not ended."""
        return (self.lead, *self.present)

    def find(self, agent_id: AgentId) -> Agent | None:
        """The lead or member with this id, ended ones included."""
        everybody: tuple[Agent, ...] = (self.lead, *self.members)
        return next((agent for agent in everybody if agent.agent_id == agent_id), None)

    def role_of(self, agent_id: AgentId) -> Role:
        """In which capacity this id acts here; whoever is not the lead or the person is a member."""
        if agent_id == self.lead.agent_id:
            return Role.LEAD
        return Role.USER if agent_id == USER else Role.MEMBER

    def display_name(self, agent_id: AgentId) -> str:
        """What people call this agent; the id itself where the roster does not know it."""
        agent = self.find(agent_id)
        return agent.name if agent else str(agent_id)
