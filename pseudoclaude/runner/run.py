"""What one run has in hand, and the ways in which it can end before the model has finished."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from ..chat import ToolCall
from ..events import Event, EventBus, ToolProgress
from ..ids import AgentId, TeamName
from ..mail import IdleStatus, Role
from ..mailbox.mailbox import Mailbox
from ..providers.base import Provider
from ..tools.base import Services, ToolContext
from ..tools.toolbox import Toolbox
from .conversation import Conversation, PendingCall


class RunCut(Exception):
    """Raised inside a run to end it on purpose, between two steps; carries how and why."""

    def __init__(self, status: IdleStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(slots=True)
class TurnLimit:
    """How many turns an agent may still take; shared by its runs in this process. None: any number."""

    left: int | None = None

    def spend(self) -> None:
        """Take one turn.

        :raises RunCut: when none is left.
        """
        if self.left is not None:
            if self.left <= 0:
                raise RunCut(IdleStatus.LIMIT, "its turns are used up (--max-turns)")
            self.left -= 1


@dataclass(frozen=True, slots=True)
class Identity:
    """Who runs, in which team, on which folder, with which words to begin with."""

    agent_id: AgentId
    name: str
    role: Role
    team: TeamName
    workspace: Path
    system: str
    opening: str
    """What opens an empty conversation; empty for a lead, who waits for the person."""
    model: str = ""


@dataclass(slots=True)
class Run:
    """One run under way."""

    identity: Identity
    conversation: Conversation
    mailbox: Mailbox
    provider: Provider
    toolbox: Toolbox
    services: Services
    bus: EventBus
    limit: TurnLimit
    max_tokens: int
    reminder_tokens: int
    inputs: deque[str]
    """What the person said, not yet in the conversation."""
    stopping: str | None = None
    """Why the run has been asked to end, or None."""
    accepted: int = 0
    """Requests of this run that the provider answered."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self.conversation.run_id

    def check_stop(self) -> None:
        """End here if that was asked for.

        :raises RunCut: when the run has been asked to end.
        """
        if self.stopping is not None:
            raise RunCut(IdleStatus.INTERRUPTED, self.stopping)

    def publish(self, kind: type[Event], **values: Any) -> None:
        """Report something about this agent."""
        self.bus.publish(kind(agent=self.identity.name, agent_id=self.identity.agent_id, **values))

    def context(self, pending: PendingCall, *, repeated: bool, on_sent: Flag) -> ToolContext:
        """What the tool of this call is given."""
        who = self.identity
        call: ToolCall = pending.call
        return ToolContext(
            team=who.team,
            agent_id=who.agent_id,
            agent_name=who.name,
            role=who.role,
            workspace=who.workspace,
            call_id=pending.derived_id(who.agent_id),
            services=self.services,
            hops=self.conversation.hops,
            repeated=repeated,
            on_progress=lambda text: self.publish(ToolProgress, tool=call.name, text=text),
            on_sent=on_sent.set,
        )


@dataclass(slots=True)
class Flag:
    """Something that happened, or has not yet."""

    raised: bool = False

    def set(self) -> None:
        self.raised = True
