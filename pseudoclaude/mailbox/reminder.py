"""Unread messages become the text that a model reads before its next answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .. import prompts
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message, MessageType, Priority

SHOWN_WHOLE = 16 * 1024
"""Characters of content up to which a message is shown whole; of a longer one, head and tail."""

_HEAD, _TAIL = 6_000, 2_000
_CONTROL_TYPES = frozenset(
    {
        MessageType.SHUTDOWN_REQUEST,
        MessageType.PLAN_APPROVAL_RESPONSE,
        MessageType.PERMISSION_RESPONSE,
    }
)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True)
class Reminder:
    """The text, and what to do with it once it is in the conversation.

    ``indices`` and ``message_ids`` are those that the text settles: shown, or superseded by a newer notice that is.
    ``left`` messages did not fit and stay unread.
    """

    text: str
    indices: tuple[int, ...]
    message_ids: tuple[MessageId, ...]
    hops: int
    left: int


def render(
    unread: Sequence[IndexedMessage],
    *,
    name_of: Callable[[AgentId], str],
    now: datetime,
    budget_tokens: int,
    trouble: str = "",
) -> Reminder:
    """The ``<incoming-messages>`` block for these messages.

    Interrupts and control come first, then the oldest. Of several idle notices of one member the newest is shown.
    Messages are shown whole while the budget lasts (four characters count as a token), the first one in any case.

    :param name_of: the registry's name of an agent; what a message claims about its sender is never shown.
    :param trouble: what kept other mail from being read; shown in the block.
    """
    newest = {item.message.sender: item.index for item in unread if item.message.notice}
    settled: list[IndexedMessage] = []
    shown: list[str] = []
    left = 0
    budget = budget_tokens * 4
    for item in sorted(unread, key=lambda item: (not _is_urgent(item.message), item.index)):
        if item.message.notice and newest[item.message.sender] != item.index:
            settled.append(item)
            continue
        text = _show(item, name_of, now)
        if shown and len(text) > budget:
            left += 1
            continue
        budget -= len(text)
        shown.append(text)
        settled.append(item)
    if left:
        # a superseded notice may only be settled together with the one that supersedes it
        shown_indices = {item.index for item in settled}
        settled = [
            item for item in settled if not item.message.notice or newest[item.message.sender] in shown_indices
        ]
    parts = [prompts.render("reminder")]
    if trouble:
        parts.append(f"Some of your mail could not be read: {inert(trouble)}")
    parts += shown
    if left:
        parts.append(f"{left} more unread message{'s' if left > 1 else ''} will be shown with your next turn.")
    settled.sort(key=lambda item: item.index)
    return Reminder(
        text="<incoming-messages>\n" + "\n\n".join(parts) + "\n</incoming-messages>",
        indices=tuple(item.index for item in settled),
        message_ids=tuple(item.message.id for item in settled),
        hops=max((item.message.hops for item in settled), default=0),
        left=left,
    )


def _is_urgent(message: Message) -> bool:
    return message.priority is Priority.INTERRUPT or message.type in _CONTROL_TYPES


def _show(item: IndexedMessage, name_of: Callable[[AgentId], str], now: datetime) -> str:
    message = item.message
    head = (
        f'<message id="{_attribute(message.id)}" from="{_attribute(name_of(message.sender))}" '
        f'to="{_attribute(name_of(message.recipient))}" type="{_attribute(message.type)}" '
        f'age="{_age(now - message.timestamp)}">'
    )
    lines = [head, f"summary: {inert(_one_line(message.summary)) or '(none)'}"]
    if content := _shorten(message):
        lines.append(inert(content))
    if details := _details(message):
        lines.append(inert(details))
    lines.append("</message>")
    return "\n".join(lines)


def _details(message: Message) -> str:
    """The parts of a request or an answer that its reader must repeat or act upon."""
    payload = message.payload or {}
    keys = [key for key in ("request_id", "approve", "reason", "task_id") if key in payload]
    return "\n".join(f"{key}: {_one_line(str(payload[key]))}" for key in keys)


def _shorten(message: Message) -> str:
    content = message.content
    if len(content) <= SHOWN_WHOLE:
        return content
    gap = len(content) - _HEAD - _TAIL
    note = f"[{gap:,} characters left out here; read them with ReadMessage(id={str(message.id)!r}, offset={_HEAD})]"
    return f"{content[:_HEAD]}\n{note}\n{content[-_TAIL:]}"


def inert(text: str) -> str:
    """This text from a message so that a model can read it, no tag opens or closes in it, and nothing is invisible."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n")).replace("<", "&lt;")


def _attribute(text: str) -> str:
    return inert(_one_line(text)).replace('"', "&quot;")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _age(delta: timedelta) -> str:
    seconds = max(0, int(delta.total_seconds()))
    if seconds < 90:
        return f"{seconds} s"
    if seconds < 90 * 60:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 48 * 3600 else f"{seconds // 86400} d"
