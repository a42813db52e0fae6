"""Unread messages become the text that a model reads before its next answer. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from .. import prompts
from ..ids import AgentId, MessageId
from ..mail import RULES, IndexedMessage, Message, MessageType, Priority

SHOWN_WHOLE = 16 * 1024
"""Bytes of UTF-8 up to which what a message says is shown whole; of a longer one, head and tail."""

_HEAD, _TAIL = 6_000, 2_000
_CONTROL_TYPES = frozenset(
    {
        MessageType.SHUTDOWN_REQUEST,
        MessageType.SHUTDOWN_RESPONSE,
        MessageType.PLAN_APPROVAL_REQUEST,
        MessageType.PLAN_APPROVAL_RESPONSE,
        MessageType.PERMISSION_REQUEST,
        MessageType.PERMISSION_RESPONSE,
        MessageType.CONTROL_REQUEST,
        MessageType.CONTROL_RESPONSE,
    }
)
_NEWS = frozenset(
    {
        MessageType.TASK_ASSIGNMENT,
        MessageType.TASK_UNBLOCKED,
        MessageType.TASK_COMPLETED,
        MessageType.IDLE_NOTIFICATION,
    }
)
"""The runtime says in the summary and the content of these what stands in their payload."""

_DETAILS = ("request_id", "approve", "reason", "task_id")
_LONGEST_DETAIL = 1_000
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
    # Persian and Indian words and joined emoji need these two; beside ASCII they only hide.
    r"|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)


@dataclass(frozen=True, slots=True)
class Reminder:
    """The text, and what to do with it once it is in the conversation.

    ``indices`` and ``message_ids`` are those that the text settles: shown, or superseded by a newer notice that is.
    ``left`` messages did not fit and stay unread, notices that wait for a newer one among them.
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
    Messages are shown whole while the budget lasts (four characters count as a token), the first one in any case,
    and none is shown before one that does not fit any more.

    :param name_of: the registry's name of an agent; what a message claims about its sender is never shown.
    :param trouble: what kept other mail from being read; shown in the block.
    """
    newest: dict[AgentId, int] = {}
    for item in unread:
        if item.message.notice:
            newest[item.message.sender] = max(item.index, newest.get(item.message.sender, item.index))
    current = [item for item in unread if not item.message.notice or newest[item.message.sender] == item.index]
    shown: dict[int, str] = {}
    budget = budget_tokens * 4
    for item in sorted(current, key=lambda item: (not _is_urgent(item.message), item.index)):
        text = _show(item, name_of, now)
        if shown and len(text) > budget:
            break  # what is smaller but later has to wait, too: an answer must not overtake its question
        budget -= len(text)
        shown[item.index] = text
    settled = [
        item for item in unread if item.index in shown or (item.message.notice and newest[item.message.sender] in shown)
    ]
    left = len(unread) - len(settled)
    parts = [prompts.render("reminder")]
    if trouble:
        parts.append(f"Some of your mail could not be read: {inert(_one_line(trouble))}")
    parts += shown.values()
    if left:
        parts.append(f"{left} more unread message{'s' if left > 1 else ''} will be shown with your next turns.")
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
    if text := _shorten(message):
        lines.append(inert(text))
    lines += _details(message)
    lines.append("</message>")
    return "\n".join(lines)


def body(message: Message) -> str:
    """What a message says to its reader beside its summary: its content, then the data that came with it."""
    hidden = _DETAILS if _is_typed(message) else ()
    data = {key: value for key, value in (message.payload or {}).items() if key not in hidden}
    if message.notice and not message.content and message.notice.result:
        return message.notice.result
    if not data or message.type in _NEWS:
        return message.content
    text = f"payload: {json.dumps(data, ensure_ascii=False)}"
    return f"{message.content}\n{text}" if message.content else text


def _details(message: Message) -> list[str]:
    """The parts of a request or an answer that its reader must repeat or act upon."""
    payload = (message.payload or {}) if _is_typed(message) else {}
    given = [(key, payload[key]) for key in _DETAILS if key in payload]
    lines = [(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for key, value in given]
    return [f"{key}: {inert(_one_line(text[:_LONGEST_DETAIL]))}" for key, text in lines]


def _is_typed(message: Message) -> bool:
    return isinstance(message.type, MessageType) and RULES[message.type].payload is not None


def _shorten(message: Message) -> str:
    text = body(message)
    if len(text) * 4 <= SHOWN_WHOLE or len(data := text.encode("utf-8", "replace")) <= SHOWN_WHOLE:
        return text
    head = data[:_HEAD].decode("utf-8", "ignore")
    tail = data[-_TAIL:].decode("utf-8", "ignore")
    gap = len(text) - len(head) - len(tail)
    note = f"[{gap:,} characters left out here; read them with ReadMessage(id={str(message.id)!r}, offset={len(head)})]"
    return f"{head}\n{note}\n{tail}"


def inert(text: str) -> str:
    """This text from a message so that a model can read it, no tag opens or closes in it, and nothing is invisible."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", lines).replace("<", "&lt;")


def _attribute(text: str) -> str:
    return inert(_one_line(text)).replace('"', "&quot;").replace(">", "&gt;")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _age(delta: timedelta) -> str:
    seconds = max(0, int(delta.total_seconds()))
    if seconds < 90:
        return f"{seconds} s"
    if seconds < 90 * 60:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 48 * 3600 else f"{seconds // 86400} d"
