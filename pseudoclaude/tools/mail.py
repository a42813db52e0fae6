"""Mail, as agents use it: ``SendMessage`` and ``ReadMessage``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from ..errors import InvalidMessageError, ToolError
from ..ids import MessageId
from ..mail import SENDABLE, MessageType, Priority
from ..mailbox.reminder import inert
from ..post import Draft
from .base import ToolContext
from .decorator import tool

_TO = WithJsonSchema(
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, mode="validation"
)
_MESSAGE = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}, mode="validation")


@tool(name="SendMessage", repeatable=True)
async def send_message(
    ctx: ToolContext,
    to: Annotated[Any, _TO] = None,
    summary: str = "",
    content: str = "",
    type: str = MessageType.TEXT,
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
        payload: What a control type needs: request_id, and approve for an answer.
        in_reply_to: The id of the message you answer.
        priority: "interrupt" (lead only) stops what the recipient is doing.
        team_name: Your team; it may be left out.
        message: Another spelling of content; an object with a type is a control message.
    """
    if team_name is not None and team_name.strip().casefold() not in ("", ctx.team.key()):
        raise ToolError(f"you belong to the team {ctx.team}, not to {team_name!r}; leave team_name out")
    if message is not None:
        type, content, payload = _from_message(message, type, content, payload)
    if type and type not in SENDABLE and type in MessageType.__members__.values():
        raise InvalidMessageError(
            f"a {type} is made by the runtime only", remedy=f"You can send: {', '.join(SENDABLE)}."
        )
    draft = Draft(
        to=to,
        summary=summary,
        content=content,
        type=type,
        payload=payload,
        in_reply_to=in_reply_to,
        priority=Priority(priority),
    )
    return (await ctx.send_draft(draft, ctx.call_id)).explain()


@tool(name="ReadMessage", read_only=True)
async def read_message(
    ctx: ToolContext,
    id: str,
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=50_000)] = 16_000,
) -> str:
    """Read the content of a message in your mailbox, a part at a time. For messages that were shown shortened.

    Args:
        id: The id of the message, as shown with it.
        offset: The first character to show, counted from 0.
        limit: How many characters to show.
    """
    index = await ctx.services.store.find(ctx.agent_id, MessageId(id.strip()), since=0)
    if index is None:
        raise ToolError(f"there is no message {id!r} in your mailbox; ids are shown with each message")
    (item,) = await ctx.services.store.read(ctx.agent_id, start=index, limit=1)
    content = item.message.content
    end = min(len(content), offset + limit)
    return f"characters {min(offset, end)} to {end} of {len(content)}\n{inert(content[offset:end])}"


def _from_message(
    message: object, type: str, content: str, payload: dict[str, Any] | None
) -> tuple[str, str, dict[str, Any] | None]:
    """What ``message`` says in our fields: text is content, an object is a typed message."""
    if isinstance(message, str):
        return type, content or message, payload
    if not isinstance(message, dict):
        raise ToolError("message must be text or an object with a type")
    rest = {key: value for key, value in message.items() if key not in ("type", "content", "text")}
    text = message.get("content") or message.get("text") or ""
    return str(message.get("type") or type), content or str(text), {**rest, **(payload or {})} or None
