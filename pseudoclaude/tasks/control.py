"""Commands of other processes: mail to the reserved agent ``runtime``, carried out by whoever leads the team."""

from __future__ import annotations

from typing import Protocol

import anyio

from ..errors import PseudoclaudeError
from ..ids import RUNTIME, AgentId, MessageId
from ..journal import Journal
from ..mail import ControlAction, ControlRequest, ControlResponse, IndexedMessage, Message, MessageType
from ..mailbox.store import MailStore
from ..post import Post


class Controls(Protocol):
    """What can be asked for."""

    async def nudge(self, agent_id: AgentId) -> str:
        """Start a run without mail."""
        ...

    async def stop(self, agent_id: AgentId, *, reason: str = "") -> str:
        """End a run."""
        ...

    async def stop_all(self, *, reason: str = "") -> str:
        """End every run."""
        ...


class Commands:
    """Reads the mailbox of ``runtime``, carries out each command once, answers it by mail, and writes it down."""

    def __init__(self, store: MailStore, post: Post, journal: Journal, controls: Controls) -> None:
        self._store = store
        self._post = post
        self._journal = journal
        self._controls = controls
        self._one_at_a_time = anyio.Lock()

    async def take(self) -> None:
        """Carry out what waits, in order.

        :raises MailError: when the mailbox cannot be read.
        """
        async with self._one_at_a_time:
            for item in await self._store.read_unread(RUNTIME):
                if item.message.type is MessageType.CONTROL_REQUEST:
                    await self._carry_out(item)
                await self._store.mark_read(RUNTIME, [item.index])

    async def refuse_waiting(self) -> None:
        """Answer what was asked of an earlier process, which ended before it got to it: that is over now.

        :raises MailError: when the mailbox cannot be read.
        """
        async with self._one_at_a_time:
            for item in await self._store.read_unread(RUNTIME):
                request = item.message.parsed_payload()
                if isinstance(request, ControlRequest):
                    why = "the process that was asked has ended before it could; ask again if it is still wanted"
                    await self._answer(item.message, request, False, why)
                await self._store.mark_read(RUNTIME, [item.index])

    async def _carry_out(self, item: IndexedMessage) -> None:
        message = item.message
        request = message.parsed_payload()
        if not isinstance(request, ControlRequest):
            return
        await self._journal.note(message.sender, request.action, target=request.target, why=request.reason)
        try:
            ok, detail = True, await self._act(request)
        except PseudoclaudeError as error:
            ok, detail = False, error.explain()
        await self._answer(message, request, ok, detail)

    async def _answer(self, message: Message, request: ControlRequest, ok: bool, detail: str) -> None:
        await self._post.notify(
            recipient=message.sender,
            type=MessageType.CONTROL_RESPONSE,
            id=MessageId.derived(message.id, "response"),
            summary=detail,
            payload=ControlResponse(request_id=request.request_id, ok=ok, detail=detail),
            repeated=True,
        )

    async def _act(self, request: ControlRequest) -> str:
        reason = request.reason or "stopped from the command line"
        match request.action:
            case ControlAction.STOP if not request.target:
                return await self._controls.stop_all(reason=reason)
            case ControlAction.STOP:
                return await self._controls.stop(AgentId(request.target), reason=reason)
            case ControlAction.NUDGE:
                return await self._controls.nudge(AgentId(request.target))
            case _:
                raise PseudoclaudeError(f"this version cannot {request.action}", remedy="It can nudge and stop.")
