"""Messages as the command line gives them to programs."""

from __future__ import annotations

from typing import Any

from ..mail import IndexedMessage
from ..mail_client import MailClient


def message_object(client: MailClient, item: IndexedMessage) -> dict[str, Any]:
    """A message's record, its place, and the names behind the ids."""
    record = item.message.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "index": item.index,
        "read": item.read,
        **record,
        "from_name": client.team.display_name(item.message.sender),
        "to_name": client.team.display_name(item.message.recipient),
    }
