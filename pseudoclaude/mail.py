"""Messages: what passes between agents, of which types, who may send them and whom they wake."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .errors import InvalidMessageError, NotAllowedError
from .ids import AgentId, MessageId

DEEPEST_PAYLOAD = 100
"""Levels of objects and lists in a payload; JSON readers give up at about twice that."""

_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Role(StrEnum):
    """In which capacity somebody sends."""

    LEAD = "lead"
    MEMBER = "member"
    USER = "user"
    RUNTIME = "runtime"


class Priority(StrEnum):
    """``interrupt`` ends the recipient's running request or tool; only the lead and the user may use it."""

    NORMAL = "normal"
    INTERRUPT = "interrupt"


class MessageType(StrEnum):
    """The kinds of message; :data:`RULES` says who sends which and what it wakes."""

    TEXT = "text"
    NOTE = "note"
    SHUTDOWN_REQUEST = "shutdown_request"
    SHUTDOWN_RESPONSE = "shutdown_response"
    PLAN_APPROVAL_REQUEST = "plan_approval_request"
    PLAN_APPROVAL_RESPONSE = "plan_approval_response"
    PERMISSION_REQUEST = "permission_request"
    PERMISSION_RESPONSE = "permission_response"
    TASK_ASSIGNMENT = "task_assignment"
    TASK_UNBLOCKED = "task_unblocked"
    TASK_COMPLETED = "task_completed"
    IDLE_NOTIFICATION = "idle_notification"
    CONTROL_REQUEST = "control_request"
    CONTROL_RESPONSE = "control_response"


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", use_enum_values=True, defer_build=True)


class Request(_Payload):
    """What every request carries; its answer repeats ``request_id``."""

    request_id: str
    reason: str = ""


class Response(_Payload):
    """What every answer to a request carries."""

    request_id: str
    approve: bool
    reason: str = ""


class PlanRequest(Request):
    """A plan that waits for the lead."""

    plan: str = ""


class PermissionRequest(Request):
    """A tool call that waits for the person."""

    tool: str = ""
    input: dict[str, Any] = {}


class TaskNews(_Payload):
    """What happened to a task of the board."""

    task_id: str
    subject: str = ""


class IdleStatus(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LIMIT = "limit"


class IdleNotice(_Payload):
    """A run has ended. ``result`` is the last text of a run that sent no mail, ``error`` why it failed."""

    status: IdleStatus
    run_id: str
    result: str | None = None
    error: str | None = None


class ControlAction(StrEnum):
    """What another process may ask of the one that leads the team."""

    PAUSE = "pause"
    RESUME = "resume"
    INTERRUPT = "interrupt"
    NUDGE = "nudge"
    STOP = "stop"
    APPROVE = "approve"
    DENY = "deny"


class ControlRequest(Request):
    """A command to the process that leads the team; ``target`` is an agent id, or empty for the whole team."""

    action: ControlAction
    target: str = ""


class ControlResponse(_Payload):
    """What became of a command."""

    request_id: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may send a type, with which payload, and whether it wakes its recipient."""

    by_tool: frozenset[Role]
    """Roles that may send it with ``SendMessage`` or from the command line; empty: only the runtime makes it."""
    wakes: bool
    payload: type[_Payload] | None = None


_ANYONE = frozenset({Role.LEAD, Role.MEMBER, Role.USER})
_ABOVE = frozenset({Role.LEAD, Role.USER})
_NOBODY: frozenset[Role] = frozenset()

RULES: Mapping[MessageType, Rule] = {
    MessageType.TEXT: Rule(_ANYONE, wakes=True),
    MessageType.NOTE: Rule(_ANYONE, wakes=False),
    MessageType.SHUTDOWN_REQUEST: Rule(_ABOVE, wakes=True, payload=Request),
    MessageType.SHUTDOWN_RESPONSE: Rule(frozenset({Role.MEMBER}), wakes=True, payload=Response),
    MessageType.PLAN_APPROVAL_REQUEST: Rule(_NOBODY, wakes=True, payload=PlanRequest),
    MessageType.PLAN_APPROVAL_RESPONSE: Rule(_ABOVE, wakes=True, payload=Response),
    MessageType.PERMISSION_REQUEST: Rule(_NOBODY, wakes=False, payload=PermissionRequest),
    MessageType.PERMISSION_RESPONSE: Rule(_NOBODY, wakes=True, payload=Response),
    MessageType.TASK_ASSIGNMENT: Rule(_NOBODY, wakes=True, payload=TaskNews),
    MessageType.TASK_UNBLOCKED: Rule(_NOBODY, wakes=True, payload=TaskNews),
    MessageType.TASK_COMPLETED: Rule(_NOBODY, wakes=False, payload=TaskNews),
    MessageType.IDLE_NOTIFICATION: Rule(_NOBODY, wakes=False, payload=IdleNotice),
    MessageType.CONTROL_REQUEST: Rule(_NOBODY, wakes=False, payload=ControlRequest),
    MessageType.CONTROL_RESPONSE: Rule(_NOBODY, wakes=False, payload=ControlResponse),
}
"""The table of who may send what. An idle notice wakes by what it says: see :attr:`Message.wakes`."""

SENDABLE = tuple(kind for kind, rule in RULES.items() if rule.by_tool)
"""The types that somebody can send with ``SendMessage``."""


def clean_text(text: str) -> str:
    """The text as it can be written: halves of a surrogate pair joined, a half alone replaced by U+FFFD."""
    try:
        text.encode()  # several times faster than a search
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _clean_json(value: Any, *, finite: bool, room: int = DEEPEST_PAYLOAD) -> Any:
    """A copy of a JSON value with clean text; ``finite`` makes the numbers that JSON has no word for null."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return None if finite and not math.isfinite(value) else value
    if not isinstance(value, Mapping | list | tuple):
        return value
    if room == 0:
        raise ValueError(f"it is nested deeper than {DEEPEST_PAYLOAD} levels")
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean_json(item, finite=finite, room=room - 1) for key, item in value.items()}
    return [_clean_json(item, finite=finite, room=room - 1) for item in value]


def _utc(value: datetime) -> datetime:
    """The same instant in UTC. A time without a zone is one in UTC; what UTC cannot express is the nearest it can."""
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return _LATEST if value.year > 1 else _EARLIEST


def rfc3339(value: datetime) -> str:
    """The time as records hold it: UTC, microseconds, ``Z``."""
    return _utc(value).isoformat(timespec="microseconds").replace("+00:00", "Z")


Text = Annotated[str, BeforeValidator(lambda value: clean_text(value) if isinstance(value, str) else value)]
Timestamp = Annotated[datetime, AfterValidator(_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")]


class Message(BaseModel):
    """One letter, frozen. Half a surrogate pair in any text becomes U+FFFD, so that it can always be written.

    Wire names are those of the JSON record: ``from`` and ``to`` are the attributes :attr:`sender` and
    :attr:`recipient`. Order in a mailbox is the order of indices, never of ``timestamp``.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="ignore", defer_build=True)

    id: MessageId = Field(default_factory=MessageId.new)
    sender: AgentId = Field(alias="from")
    recipient: AgentId = Field(alias="to")
    type: MessageType | Text = MessageType.TEXT
    summary: Text = ""
    content: Text = ""
    payload: dict[str, Any] | None = None
    timestamp: Timestamp = Field(default_factory=lambda: datetime.now(UTC))
    in_reply_to: MessageId | None = None
    thread: MessageId | None = None
    priority: Priority = Priority.NORMAL
    hops: int = Field(default=0, ge=0)

    @field_validator("type", mode="before")
    @classmethod
    def _known_or_kept(cls, value: Any) -> Any:
        if value is None or value == "":
            return MessageType.TEXT
        if not isinstance(value, str):
            raise ValueError("not a text")
        return MessageType(value) if value in RULES else value

    @field_validator("payload", mode="before")
    @classmethod
    def _json_only(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, BaseModel):
            value = value.model_dump(mode="json")
        cleaned = _clean_json(value, finite=info.mode == "json")
        if info.mode != "json":
            try:
                json.dumps(cleaned, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"not JSON: {error}") from error
        return cleaned

    @model_validator(mode="before")
    @classmethod
    def _missing_is_default(cls, data: Any) -> Any:
        """Readers take records of other programs, in which an absent value may be written as null."""
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data

    @cached_property
    def notice(self) -> IdleNotice | None:
        """The idle notice in this message, if it is one and can be read as one."""
        parsed = self.parsed_payload() if self.type is MessageType.IDLE_NOTIFICATION else None
        return parsed if isinstance(parsed, IdleNotice) else None

    def parsed_payload(self) -> _Payload | None:
        """The payload as the model of this message's type; None where it has none or does not fit."""
        rule = RULES.get(self.type) if isinstance(self.type, MessageType) else None
        if rule is None or rule.payload is None:
            return None
        try:
            return rule.payload.model_validate(self.payload or {})
        except ValidationError:
            return None

    @property
    def wakes(self) -> bool:
        """Whether this message makes its recipient owe a turn.

        An idle notice does when it reports a failure, a limit, or the result of a run that sent no mail. A type this
        program does not know is read with the next turn, and starts none.
        """
        if self.priority is Priority.INTERRUPT:
            return True
        if notice := self.notice:
            return notice.status in (IdleStatus.FAILED, IdleStatus.LIMIT) or bool((notice.result or "").strip())
        return isinstance(self.type, MessageType) and RULES[self.type].wakes

    def to_json(self) -> bytes:
        """The record of this message, one line of UTF-8 JSON without its newline."""
        return self.__pydantic_serializer__.to_json(self, by_alias=True, exclude_none=True)

    @classmethod
    def from_json(cls, data: bytes) -> Message:
        """The message in a record.

        :raises InvalidMessageError: when the record is no message.
        """
        try:
            try:
                return cls.model_validate_json(data)
            except ValidationError as error:
                if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
                    raise
                # The fast reader takes no half of a surrogate pair, which other programs do write.
                cleaned = _clean_json(json.loads(data), finite=True)
                return cls.model_validate_json(json.dumps(cleaned))
        except ValidationError as error:
            raise InvalidMessageError(f"not a message: {first_fault(error)}") from error
        except (ValueError, RecursionError) as error:
            raise InvalidMessageError(f"not a message: {error}") from error


@dataclass(frozen=True, slots=True)
class IndexedMessage:
    """A message in its mailbox: where it stands, and whether it was read."""

    index: int
    message: Message
    read: bool


def check_sendable(
    role: Role, kind: MessageType | str, payload: Mapping[str, Any] | None, priority: Priority = Priority.NORMAL
) -> MessageType:
    """The type to send, if this role may send it like this.

    :raises InvalidMessageError: for an unknown type or priority, or a payload that does not fit the type.
    :raises NotAllowedError: when the role may not send the type or use the priority.
    """
    known = ", ".join(SENDABLE)
    if kind not in MessageType.__members__.values():
        raise InvalidMessageError(f"unknown message type {str(kind)!r}", remedy=f"Known types: {known}.")
    kind = MessageType(kind)
    if priority not in Priority.__members__.values():
        raise InvalidMessageError(f"unknown priority {str(priority)!r}", remedy=f"Known: {', '.join(Priority)}.")
    rule = RULES[kind]
    if role is not Role.RUNTIME:
        if role not in rule.by_tool:
            who = " and the ".join(sorted(rule.by_tool)) if rule.by_tool else "runtime"
            raise NotAllowedError(f"a {kind} is sent by the {who} only, and you are a {role}", remedy="Send a text.")
        if priority == Priority.INTERRUPT and role not in _ABOVE:
            raise NotAllowedError("only the lead and the user may interrupt", remedy="Send it with normal priority.")
    if rule.payload is not None:
        try:
            rule.payload.model_validate(payload or {})
        except ValidationError as error:
            fields = ", ".join(name for name, field in rule.payload.model_fields.items() if field.is_required())
            raise InvalidMessageError(
                f"the payload of a {kind} does not fit: {first_fault(error)}", remedy=f"It needs: {fields}."
            ) from error
    return kind


def first_fault(error: ValidationError) -> str:
    """What is wrong first, in one line: the field and the fault, without the value."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
