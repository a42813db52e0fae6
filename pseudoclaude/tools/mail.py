"""Mail, as agents use it: ``SendMessage`` and ``ReadMessage``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal
from unicodedata import normalize

from pydantic import Field, WithJsonSchema

from ..errors import InvalidMessageError, ToolError
from ..ids import MessageId
from ..mail import SENDABLE, MessageType, Priority
from ..mailbox.reminder import body, inert
from ..post import Draft
from .base import ToolContext
from .decorator import tool

_TO = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, mode="validation")
_LONGEST_PAGE = 20_000
"""Characters; made inert they may be four times as many, which still is a result that nobody shortens."""

_MESSAGE = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}, mode="validation")


@tool(name="SendMessage", repeatable=True)
async def send_message(
    ctx: ToolContext,
    to: Annotated[Any, _TO] = None,
    summary: str | None = "",
    content: str | None = "",
    type: str | None = MessageType.TEXT,
    payload: dict[str, Any] | None = None,
    in_reply_to: str | None = None,
    priority: Literal["normal", "interrupt"] = "normal",
    team_name: str | None = None,
    message: Annotated[Any, _MESSAGE] = None,
) -> str:
    """Send a message to other agents of your team. It is the only way to reach them: what you write as plain text
    reaches nobody. The message is stored before this returns, is put before the recipient's next step, and wakes a
    recipient that is idle. The result says for each recipient whether it is stored and whether it was woken.

    Args:
        to: A member's name, "lead", "user" (the person), a list of these, or "broadcast" for everybody but you.
        summary: What the message is about, in one line. Required for a text.
        content: The message itself: complete, for somebody who does not see your conversation.
        type: "text" (the default), "note" (read with the next turn and wakes nobody), or a control type:
            "shutdown_request" and "plan_approval_response" (lead only), "shutdown_response" (if you were asked).
        payload: Data beside the content. An answer of a control type needs request_id and approve.
        in_reply_to: The id of the message you answer.
        priority: "interrupt" (lead only) stops what the recipient is doing.
        team_name: Your team; it may be left out.
        message: Another spelling of content; an object with a type is a control message.
    """
    if team_name and normalize("NFC", normalize("NFC", team_name.strip()).casefold()) not in ("", ctx.team.key()):
        raise ToolError(f"you belong to the team {ctx.team}, not to {team_name!r}; leave team_name out")
    draft = Draft(to, summary or "", content or "", type or MessageType.TEXT, payload, in_reply_to, Priority(priority))
    if message is not None:
        draft = _with_message(draft, message)
    if draft.type not in SENDABLE and draft.type in MessageType.__members__.values():
        raise InvalidMessageError(
            f"a {draft.type} is made by the runtime only", remedy=f"You can send: {', '.join(SENDABLE)}."
        )
    result = await ctx.send_draft(draft, ctx.call_id)
    if not any(delivery.stored for delivery in result.deliveries):
        raise ToolError(result.explain())
    return result.explain()


@tool(name="ReadMessage", read_only=True)
async def read_message(
    ctx: ToolContext,
    id: str,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1)] = 16_000,
) -> str:
    """Read a message in your mailbox, a part at a time: its content, and behind it its payload if that is shown with
    it. For messages that were shown shortened.

    Args:
        id: The id of the message, as shown with it.
        offset: The first character to show, counted from 0.
        limit: How many characters to show; at most 20000 are.
    """
    store = ctx.services.store
    index = await store.find(ctx.agent_id, MessageId(id.strip()), since=0)
    found = [] if index is None else await store.read(ctx.agent_id, start=index, limit=1)
    if not found or found[0].index != index:
        raise ToolError(f"there is no message {id!r} in your mailbox; ids are shown with each message")
    text = body(found[0].message)
    start = min(len(text), offset)
    end = min(len(text), start + min(limit, _LONGEST_PAGE))
    return f"characters {start} to {end} of {len(text)}\n{inert(text[start:end])}"


def _with_message(draft: Draft, message: object) -> Draft:
    """The draft with what ``message`` says: text is content, an object is a typed message and its payload."""
    if isinstance(message, str):
        message = {"content": message}
    if not isinstance(message, dict):
        raise ToolError(f"message must be text or an object with a type, and this is {message!r:.80}")
    data = {key: value for key, value in message.items() if key not in ("type", "summary", "content", "text")}
    text = str(message.get("content") or message.get("text") or "")
    if text and draft.content and text != draft.content:
        raise ToolError("content and message say different things; give one of them")
    return replace(
        draft,
        type=str(message.get("type") or draft.type),
        summary=draft.summary or str(message.get("summary") or ""),
        content=draft.content or text,
        payload={**data, **(draft.payload or {})} or None,
    )
