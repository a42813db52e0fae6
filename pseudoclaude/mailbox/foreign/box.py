"""The dialect of PseudoClaude, the Go program: ``{"messages": [...]}``, nothing ever removed. Pure.

When that program rewrites a file it drops the keys it does not know. So a reader of such a box knows each message by
the id derived from what it says, never by one that could vanish; an id of ours is only looked for.
"""

from __future__ import annotations

import json
from typing import Any

from ...ids import AgentId, MessageId
from ...mail import Message, rfc3339
from .dialect import Dialect, correspondent, extras_in, extras_of, is_id, payload_in, text_in, time_in


class BoxDialect(Dialect):
    """Entries of ``from``, ``to``, ``type``, ``summary``, ``content``, ``payload``, ``timestamp`` and ``read``."""

    program = "PseudoClaude"
    key = "messages"
    empty = b'{\n  "messages": []\n}\n'
    keeps_ids = False
    prunes = False
    text = "content"

    def temporary(self, name: str, token: str) -> str:
        """See :meth:`.Dialect.temporary`; that program names its own ``.tmp-….json``."""
        return f".tmp-{name.removesuffix('.json')}-{token}.json"

    def entry(self, message: Message) -> dict[str, Any]:
        """See :meth:`.Dialect.entry`."""
        entry: dict[str, Any] = {
            "from": message.sender,
            "to": message.recipient,
            "type": str(message.type),
            "summary": message.summary,
        }
        if message.content:
            entry["content"] = message.content
        if message.payload:
            entry["payload"] = payload_in(message.payload)
        # That program writes no trailing zeros, and the derived id must be the same after it rewrote the file.
        whole, _, fraction = rfc3339(message.timestamp).rstrip("Z").partition(".")
        fraction = fraction.rstrip("0")
        entry["timestamp"] = f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
        entry["read"] = False
        return {**entry, "id": message.id, **extras_of(message)}

    def fault(self, value: dict[str, Any]) -> str:
        """See :meth:`.Dialect.fault`: one value of a wrong type, and that program reads nothing of the file."""
        wrong = [
            name
            for name in ("from", "to", "type", "summary", "content", "timestamp")
            if not isinstance(value.get(name, ""), str | None)
        ]
        if wrong:
            return f"its {wrong[0]!r} is not a text: {json.dumps(value[wrong[0]])[:60]}"
        return "" if value.get("from") else "it has no 'from'"

    def own_ids(self, value: dict[str, Any]) -> tuple[str, ...]:
        """See :meth:`.Dialect.own_ids`."""
        own = value.get("id")
        return (str(own),) if is_id(own) else ()

    def message(self, value: dict[str, Any], message_id: MessageId, recipient: AgentId) -> Message:
        """See :meth:`.Dialect.message`."""
        return Message.model_validate(
            {
                **extras_in(value),
                "id": message_id,
                "from": correspondent(text_in(value, "from")),
                "to": recipient,
                "type": text_in(value, "type"),
                "summary": text_in(value, "summary"),
                "content": text_in(value, "content"),
                "payload": payload_in(value.get("payload")),
                "timestamp": time_in(text_in(value, "timestamp")),
            }
        )
