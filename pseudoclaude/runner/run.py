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
from ..mail import IdleStatus, Role, clean_text
from ..mailbox.mailbox import Mailbox
from ..providers.base import Provider
from ..tools.base import Services, ToolContext
from ..tools.toolbox import Toolbox
from .conversation import Conversation
from .history import PendingCall
from .records import Source


class RunCut(Exception):
    """Raised inside a run to end it between two steps; carries how and why, and whether the cause may pass."""

    def __init__(self, status: IdleStatus, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.status = status
        self.passing = passing


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


@dataclass(slots=True)
class Stop:
    """How a run is asked to end: by itself between two steps (``why``), or where it stands (``scope``)."""

    why: str | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


@dataclass(slots=True)
class Inputs:
    """What was said to an agent, beside mail, and is not in its conversation yet."""

    waiting: deque[tuple[Source, str]] = field(default_factory=deque)
    said: int = 0
    """How often something was said; it only grows."""

    def add(self, source: Source, text: str) -> None:
        """Say something."""
        self.waiting.append((source, clean_text(text)))
        self.said += 1


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
    inputs: Inputs
    stop: Stop
    accepted: int = 0
    """Requests of this run that the provider answered."""
    cut_short: int = 0
    """Answers in a row that broke off."""
    started: set[str] = field(default_factory=set)
    """The calls that this run has begun."""
    looks: int = 0
    """Grows whenever mail is about to be read, and when it is in the conversation."""
    interrupted: bool = False
    """Whether mail that cannot wait has come since mail was last read."""
    _step: anyio.CancelScope | None = None

    @property
    def run_id(self) -> str:
        """The id of this run, until it is closed."""
        return self.conversation.run_id

    def check_stop(self) -> None:
        """End here if that was asked for.

        :raises RunCut: when the run has been asked to end.
        """
        if self.stop.why is not None:
            raise RunCut(IdleStatus.INTERRUPTED, self.stop.why)

    def interrupt(self) -> None:
        """End the present request or tool call, so that the next step begins with mail; the run goes on."""
        self.interrupted = True
        if self._step is not None:
            self._step.cancel()

    def look(self) -> None:
        """Note that the mail which interrupted, if any did, is read now."""
        self.looks += 1
        self.interrupted = False

    def interruptible(self) -> anyio.CancelScope:
        """A scope for a step that :meth:`interrupt` ends: its block is left there, and what follows goes on."""
        self._step = anyio.CancelScope()
        return self._step

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
        """It has happened."""
        self.raised = True
