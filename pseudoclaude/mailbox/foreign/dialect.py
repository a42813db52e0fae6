"""What a dialect of mailbox files is, and what the dialects share. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import ValidationError

from ...errors import InvalidMessageError, InvalidNameError
from ...ids import AgentId, MessageId
from ...mail import DEEPEST_PAYLOAD, Message, Priority, clean_text, first_fault
from .scanning import TOO_DEEP

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_EXTRAS = ("priority", "hops", "in_reply_to", "thread")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


class Dialect(ABC):
    """How one other program writes a mailbox: which file, which entries, and what they mean."""

    program: ClassVar[str]
    key: ClassVar[str | None]
    """The name under which the file's object holds the list; None when the file is the list."""
    empty: ClassVar[bytes]
    """A mailbox without messages, as the other program writes it."""
    prunes: ClassVar[bool]
    """Whether the other program removes messages, so that a position in the file means nothing later."""
    keeps_ids: ClassVar[bool]
    """Whether the other program keeps an id that it finds in an entry, so that readers can know the message by it."""
    text: ClassVar[str]
    """The key that holds the text of a message."""

    @abstractmethod
    def temporary(self, name: str, token: str) -> str:
        """The name of the file that takes the place of the file ``name`` when it is written."""

    @abstractmethod
    def entry(self, message: Message) -> dict[str, Any]:
        """The entry of a message that is not read yet, with its keys in the other program's order."""

    @abstractmethod
    def fault(self, value: dict[str, Any]) -> str:
        """Why the other program would not deliver this entry; empty if it would."""

    @abstractmethod
    def own_ids(self, value: dict[str, Any]) -> tuple[str, ...]:
        """The ids that the entry itself carries; readers see the first, where :attr:`keeps_ids`."""

    @abstractmethod
    def message(self, value: dict[str, Any], message_id: MessageId, recipient: AgentId) -> Message:
        """The message in an entry.

        :raises InvalidMessageError, ValueError: when it is none.
        """

    def file_name(self, agent: AgentId) -> str:
        """The name of the file that holds an agent's mail."""
        return f"{agent}.json"

    def agent_of(self, stem: str) -> AgentId | None:
        """The agent whose mail a file of this name, without its ending, holds; None when it is no mailbox."""
        try:
            return AgentId(stem)
        except InvalidNameError:
            return None

    def derived_id(self, value: dict[str, Any]) -> str:
        """The id of an entry that carries none: the same whenever and by whomever it is read."""
        # Another program that rewrites the file makes half a surrogate pair U+FFFD, and the id must outlive that.
        parts = (value.get(name) for name in ("from", "timestamp", self.text))
        text = "".join(clean_text(part) for part in parts if isinstance(part, str))
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()

    def check(self, value: Any) -> str:
        """Why an element of the list is no message; empty if it is one."""
        if value is TOO_DEEP:
            return "it is nested too deeply"
        if not isinstance(value, dict):
            return "it is not an object"
        return self.fault(value)

    def read(self, value: dict[str, Any], message_id: str, recipient: AgentId) -> Message:
        """The message in an entry for which :meth:`check` found nothing.

        :raises InvalidMessageError: when it cannot be shown as a message all the same.
        """
        try:
            return self.message(value, MessageId(message_id), recipient)
        except ValidationError as error:
            raise InvalidMessageError(f"not a message: {first_fault(error)}") from error
        except InvalidMessageError:
            raise
        except (ValueError, RecursionError) as error:
            raise InvalidMessageError(f"not a message: {error}") from error


def extras_of(message: Message) -> dict[str, Any]:
    """What our records hold beyond those of the other program; it keeps these keys, or drops them."""
    extras: dict[str, Any] = {}
    if message.priority is not Priority.NORMAL:
        extras["priority"] = str(message.priority)
    if message.hops:
        extras["hops"] = message.hops
    if message.in_reply_to:
        extras["in_reply_to"] = message.in_reply_to
    if message.thread:
        extras["thread"] = message.thread
    return extras


def extras_in(value: Mapping[str, Any]) -> dict[str, Any]:
    """Those of an entry, as arguments of a message; what has a wrong shape is left out."""
    found: dict[str, Any] = {}
    for name in _EXTRAS:
        item = value.get(name)
        if name == "hops":
            if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
                found[name] = item
        elif name == "priority":
            if item in tuple(Priority):
                found[name] = item
        elif isinstance(item, str) and is_id(item):
            found[name] = item
    return found


def is_id(text: object) -> bool:
    """Whether this can be the id of a message."""
    return isinstance(text, str) and 0 < len(text) <= 200 and text.isprintable()


def text_in(value: Mapping[str, Any], key: str) -> str:
    """The text under a key; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def payload_in(found: Any) -> dict[str, Any] | None:
    """A payload as messages hold it: None if it is no object; numbers too large for a float are null."""
    return _finite(found, DEEPEST_PAYLOAD) if isinstance(found, dict) else None


def _finite(value: Any, room: int) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list):
        return value
    if room == 0:
        return "(nested too deeply to be shown)"
    if isinstance(value, dict):
        return {key: _finite(item, room - 1) for key, item in value.items()}
    return [_finite(item, room - 1) for item in value]


def time_in(text: str) -> datetime:
    """The time that a text names; the beginning of 1970 if it names none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return _NO_TIME


def correspondent(name: str) -> AgentId:
    """The agent id that stands for another program's name of a sender: the name, or one made from it.

    Two names never share one.
    """
    try:
        return AgentId(name)
    except InvalidNameError:
        slug = _NOT_IN_A_NAME.sub("-", name.lower())[:40].strip("-") or "unnamed"
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        return AgentId(f"{slug}-{digest}")
