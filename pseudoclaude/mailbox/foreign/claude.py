"""The dialect of Claude Code's inboxes: a bare list, from which newer versions remove what they delivered. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from ...ids import AgentId, MessageId
from ...mail import Message, MessageType, rfc3339
from .dialect import Dialect, correspondent, extras_in, extras_of, is_id, payload_in, text_in, time_in
from .kinds import read_text, write_text

Lookup = Mapping[AgentId, str] | Callable[[AgentId], str | None] | None
"""What belongs to an agent: a mapping, a function, or nothing for anybody."""

_IDS = uuid.UUID("0e0f3b0c-2d2c-5b1e-9a57-6f6c3d0f5a11")


def look_up(table: Lookup, agent: AgentId) -> str | None:
    """What a table says of an agent."""
    if table is None:
        return None
    return table(agent) if callable(table) else table.get(agent)


class ClaudeDialect(Dialect):
    """Entries of ``from``, ``text``, ``timestamp``, ``color``, ``summary``, ``read``, ``type``, ``msgV``, ``msg_id``.

    Our own fields stand beside them; that program keeps what it does not know.
    """

    program = "Claude Code"
    key = None
    empty = b"[]"
    keeps_ids = True
    prunes = True
    text = "text"

    def __init__(self, *, names: Mapping[AgentId, str] | None = None, colours: Lookup = None) -> None:
        """
        :param names: what our agents are called in the other program's team, where that is not their id.
        :param colours: the colours of our agents there.
        """
        self._names = names or {}
        self._colours = colours

    def temporary(self, name: str, token: str) -> str:
        """See :meth:`.Dialect.temporary`."""
        return f"{name}.tmp.{token}"

    def file_name(self, agent: AgentId) -> str:
        """See :meth:`.Dialect.file_name`: there a mailbox is named after the member.

        :raises InvalidNameError: when the name given for the agent must not become a path.
        """
        return f"{AgentId(self._name(agent))}.json"

    def agent_of(self, stem: str) -> AgentId | None:
        """See :meth:`.Dialect.agent_of`."""
        return self._agents().get(stem) or super().agent_of(stem)

    def entry(self, message: Message) -> dict[str, Any]:
        """See :meth:`.Dialect.entry`."""
        sender = self._name(message.sender)
        timestamp = rfc3339(message.timestamp)[:-4] + "Z"
        text = write_text(message, sender, timestamp)
        entry: dict[str, Any] = {"from": sender, "text": text}
        if message.summary:
            entry["summary"] = message.summary
        entry["timestamp"] = timestamp
        if colour := look_up(self._colours, message.sender):
            entry["color"] = colour
        entry |= {"msgV": 1, "msg_id": _uuid_of(message.id), "type": "message", "read": False}
        entry |= {"to": message.recipient, "messageId": message.id}
        if message.type != MessageType.TEXT or text != message.content:
            entry["messageType"] = str(message.type)
        if text != message.content:
            entry["content"] = message.content
        if message.payload is not None:
            entry["payload"] = payload_in(message.payload)
        return {**entry, **extras_of(message)}

    def fault(self, value: dict[str, Any]) -> str:
        """See :meth:`.Dialect.fault`."""
        missing = [name for name in ("from", "text", "timestamp") if not isinstance(value.get(name), str)]
        return f"its {missing[0]!r} is missing or not a text" if missing else ""

    def own_ids(self, value: dict[str, Any]) -> tuple[str, ...]:
        """See :meth:`.Dialect.own_ids`."""
        return tuple(value[name] for name in ("messageId", "msg_id") if is_id(value.get(name)))

    def message(self, value: dict[str, Any], message_id: MessageId, recipient: AgentId) -> Message:
        """See :meth:`.Dialect.message`."""
        sender = text_in(value, "from")
        text = text_in(value, "text")
        record: dict[str, Any] = {
            **extras_in(value),
            "id": message_id,
            "from": self._agents().get(sender) or correspondent(sender),
            "to": recipient,
            "summary": text_in(value, "summary"),
            "content": text,
            "timestamp": time_in(text_in(value, "timestamp")),
        }
        if isinstance(kind := value.get("messageType"), str):
            content = value.get("content")
            record |= {"type": kind, "content": content if isinstance(content, str) else text}
            record["payload"] = payload_in(value.get("payload"))
        elif typed := read_text(text):
            record |= {"type": typed.kind, "content": typed.content, "payload": typed.payload}
        else:
            record["payload"] = payload_in(value.get("payload"))
        return Message.model_validate(record)

    def _name(self, agent: AgentId) -> str:
        return self._names.get(agent) or agent

    def _agents(self) -> dict[str, AgentId]:
        return {name: agent for agent, name in self._names.items()}


def _uuid_of(message_id: str) -> str:
    """The form that ids have there."""
    try:
        return str(uuid.UUID(message_id))
    except ValueError:
        return str(uuid.uuid5(_IDS, message_id))
