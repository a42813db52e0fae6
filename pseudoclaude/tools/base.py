"""What a tool is, and what it is given.

Tools reach the team's services directly, and what lies above them, spawning and control, through :class:`Crew`.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio.from_thread

from ..chat import JsonObject, ToolSpec
from ..ids import AgentId, MessageId, TeamName
from ..mail import Role
from ..mailbox.store import MailStore
from ..post import Draft, Post, Sender, SendResult
from ..teams.board import Board
from ..teams.models import MemberRecord
from ..teams.registry import Registry

ToolOutput = str | list[JsonObject]
"""What the model gets: text, or content blocks in the API's shape."""


class Crew(Protocol):
    """Spawning and control, as tools see them; the task manager implements it."""

    async def spawn(
        self,
        *,
        name: str,
        prompt: str,
        description: str,
        model: str,
        tools: Sequence[str] | None,
        spawned_by: MessageId,
    ) -> MemberRecord:
        """Add a member and start it; the member that this call made before, if it is repeated."""
        ...

    async def nudge(self, agent_id: AgentId) -> str:
        """Start a run of an idle member with the wake prompt; what happened, in words."""
        ...

    async def stop(self, agent_id: AgentId, *, reason: str = "") -> str:
        """End a member's run, orderly first, then by cancellation; what happened, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """What one team offers its tools."""

    registry: Registry
    store: MailStore
    post: Post
    board: Board
    crew: Crew


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool call knows about where it runs: who called, for which team, on which folder.

    ``call_id`` is derived from the caller, the place of the call in its transcript and its position: the same when
    an interrupted call is run again. ``repeated`` tells that this is such a second run.
    """

    team: TeamName
    agent_id: AgentId
    agent_name: str
    role: Role
    workspace: Path
    call_id: MessageId
    services: Services
    hops: int = 0
    repeated: bool = False
    on_progress: Callable[[str], None] = field(default=lambda text: None)
    on_sent: Callable[[], None] = field(default=lambda: None)
    _sent: Iterator[int] = field(default_factory=itertools.count)

    async def send(self, to: str | Sequence[str], *, summary: str, content: str) -> SendResult:
        """Send a text message from the agent that called this tool.

        :raises UnknownRecipientError: when a recipient is no agent of this team.
        """
        own_id = MessageId.derived(self.call_id, "sent", next(self._sent))
        return await self.send_draft(Draft(to=to, summary=summary, content=content), own_id)

    async def send_draft(self, draft: Draft, message_id: MessageId) -> SendResult:
        """Send any draft; ``message_id`` must be the same when this call is repeated.

        :raises MailError: when it cannot be sent; nothing was written.
        """
        sender = Sender(self.agent_id, self.role, hops=self.hops, message_id=message_id, repeated=self.repeated)
        result = await self.services.post.send(sender, draft)
        if any(delivery.stored for delivery in result.deliveries):
            self.on_sent()
        return result

    def progress(self, text: str) -> None:
        """Show a line to whoever watches; it may be dropped. May be called from the thread of a sync tool, too."""
        try:
            anyio.from_thread.run_sync(self.on_progress, text)
        except RuntimeError:  # not in a worker thread
            self.on_progress(text)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what the model is told, and what runs.

    ``run`` gets the context and the model's input, already known to be a JSON object; it raises ``ToolError`` for
    what the model should read. ``timeout`` is in seconds, None for none.
    """

    name: str
    description: str
    input_schema: JsonObject
    run: Callable[[ToolContext, JsonObject], Awaitable[ToolOutput]]
    read_only: bool = False
    """It changes nothing: calls of one turn may run at the same time, and an interrupted one may run again."""
    repeatable: bool = False
    """It finds by ``call_id`` what an interrupted run of the same call did, and completes it."""
    lead_only: bool = False
    needs_approval: bool = False
    timeout: float | None = 120.0

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(name=self.name, description=self.description, input_schema=self.input_schema)
