"""A team as seen from another process: read and write mail, look, send commands. Starts no run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from .errors import TeamError
from .ids import RUNTIME, USER, AgentId, MessageId
from .journal import Journal
from .mail import ControlAction, ControlRequest, ControlResponse, MessageType
from .mail_client import MailClient
from .mailbox.store import MailStore
from .paths import TeamPaths
from .post import Post
from .storage.base import Storage
from .teams.models import MemberRecord
from .teams.registry import Registry

if TYPE_CHECKING:
    from .teams.board import Board


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent as others see it. ``state`` is ``stopped`` when no process runs the team."""

    name: str
    agent_id: AgentId
    state: str
    why: str
    unread: int
    description: str = ""
    model: str = ""


class TeamClient(MailClient):
    """The mail of one of our teams, its roster, states and tasks, and control of the process that leads it."""

    def __init__(self, storage: Storage, registry: Registry, store: MailStore, post: Post, journal: Journal) -> None:
        super().__init__(registry, store, post)
        self._storage = storage
        self._journal = journal

    @property
    def board(self) -> Board:
        """The team's tasks."""
        from .teams.board import Board  # most commands have nothing to do with tasks

        return Board(self._storage.document(TeamPaths.BOARD))

    async def led_by(self) -> str | None:
        """Who runs the team, in that process's own words; None when nobody does."""
        return await self._storage.lease(TeamPaths.LEAD_LOCK).holder()

    async def attention(self) -> str:
        """What becomes of mail sent now, in words that finish "stored; …"."""
        led = await self.led_by()
        return f"{led} runs this team" if led else "nothing runs this team, it is read at the next start"

    async def agents(self) -> list[AgentView]:
        """The lead and the members, with their states and their unread mail."""
        await self._roster.load()
        led = await self.led_by() is not None
        views = []
        for agent in self.team.agents:
            found = await self._storage.document(TeamPaths.state(agent.agent_id)).read()
            stored: Mapping[str, Any] = found.value if found else {}
            state = str(stored.get("state", "idle"))
            if not led and state != "failed":
                state = "stopped"
            views.append(
                AgentView(
                    name=agent.name,
                    agent_id=agent.agent_id,
                    state=state,
                    why=str(stored.get("why", "")),
                    unread=(await self.peek(agent.agent_id)).unread,
                    description=agent.description if isinstance(agent, MemberRecord) else "leads the team",
                    model=agent.model,
                )
            )
        return views

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """Mark messages as read. The agent they belong to will not be shown them, so that is written down.

        :raises UnknownIndexError: when an index is out of range; nothing was marked.
        """
        chosen = sorted(indices)
        await super().mark_read(agent, chosen)
        if agent != USER:
            await self._journal.note(USER, "mark-read", target=agent, why=f"messages {chosen}")

    async def has_begun(self) -> bool:
        """Whether the lead has ever been told anything."""
        log = self._storage.owned_log(TeamPaths.session(self.team.lead.agent_id))
        return await log.exists() and await log.end() > 0

    async def control(
        self, action: ControlAction, target: AgentId | None = None, *, reason: str = "", timeout: float = 30.0
    ) -> ControlResponse:
        """Ask the process that leads the team to do something, and wait for its answer.

        :param timeout: seconds to wait.
        :raises TeamError: when no process runs the team, or none answered in time.
        """
        if await self.led_by() is None:
            raise TeamError(f"nothing runs the team {self.team.name}", remedy="There is nothing to control.")
        request_id = MessageId.new()
        start = await self.store.end(USER)
        await self._post.notify(
            recipient=RUNTIME,
            about=USER,
            type=MessageType.CONTROL_REQUEST,
            id=request_id,
            summary=f"{action} {target or 'the team'}",
            payload=ControlRequest(request_id=request_id, action=action, target=target or "", reason=reason),
        )
        with anyio.move_on_after(timeout):
            async with self.store.watch() as agents:
                async for _ in agents:
                    for item in await self.store.read(USER, start=start):
                        answer = item.message.parsed_payload()
                        if isinstance(answer, ControlResponse) and answer.request_id == request_id:
                            await self.store.mark_read(USER, [item.index])
                            return answer
        raise TeamError(
            f"the process that runs {self.team.name} did not answer within {timeout:g} s",
            remedy="It carries the command out when it next looks at its mail.",
        )
