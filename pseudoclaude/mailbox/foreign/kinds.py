"""Claude Code's typed messages: JSON objects inside the text of a message, and the types of ours they stand for. Pure.

Its files say ``requestId`` and ``approved``, and have a kind each for a shutdown that was approved or rejected; its
tools say ``request_id`` and ``approve``, and have one kind for both. Both spellings are read, that of the files is
written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...mail import IdleStatus, Message, MessageType, clean_text
from .dialect import payload_in, text_in

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Typed:
    """What a typed text says, in our words. A ``kind`` we do not know is kept as it is, without a payload."""

    kind: MessageType | str
    content: str
    payload: Fields | None = None


@dataclass(frozen=True, slots=True)
class _Kind:
    ours: MessageType
    names: Mapping[str, str] = field(default_factory=dict)
    """Their name of a field: ours."""
    shown: str = ""
    """Our name of the field that a reader of the message wants to see first."""


_REQUEST = {"requestId": "request_id"}
_TASK = {"taskId": "task_id"}
_ANSWER = {**_REQUEST, "approved": "approve", "feedback": "reason"}

_KINDS: Mapping[str, _Kind] = {
    "idle_notification": _Kind(MessageType.IDLE_NOTIFICATION, {"failureReason": "error"}, "result"),
    "task_assignment": _Kind(MessageType.TASK_ASSIGNMENT, _TASK, "description"),
    "task_completed": _Kind(MessageType.TASK_COMPLETED, {**_TASK, "taskSubject": "subject"}),
    "shutdown_request": _Kind(MessageType.SHUTDOWN_REQUEST, _REQUEST, "reason"),
    "shutdown_approved": _Kind(MessageType.SHUTDOWN_RESPONSE, _REQUEST, "reason"),
    "shutdown_rejected": _Kind(MessageType.SHUTDOWN_RESPONSE, _REQUEST, "reason"),
    "shutdown_response": _Kind(MessageType.SHUTDOWN_RESPONSE, _ANSWER, "reason"),
    "plan_approval_request": _Kind(
        MessageType.PLAN_APPROVAL_REQUEST, {**_REQUEST, "planContent": "plan", "planFilePath": "plan_file"}, "plan"
    ),
    "plan_approval_response": _Kind(MessageType.PLAN_APPROVAL_RESPONSE, _ANSWER, "reason"),
    "permission_request": _Kind(MessageType.PERMISSION_REQUEST, {**_REQUEST, "tool_name": "tool"}, "description"),
    "permission_response": _Kind(MessageType.PERMISSION_RESPONSE, {**_REQUEST, "error": "reason"}, "reason"),
}

_IDLE_REASONS = {
    "available": IdleStatus.FINISHED,
    "interrupted": IdleStatus.INTERRUPTED,
    "failed": IdleStatus.FAILED,
}


def read_text(text: str) -> Typed | None:
    """What a text says if it is a typed message; None if it is prose."""
    fields = _object(text)
    if fields is None:
        return None
    kind = fields.pop("type")
    known = _KINDS.get(kind)
    if known is None:
        # A text that only names a type of ours is no message of that type: nobody can write it but by hand.
        return None if kind in tuple(MessageType) or not kind else Typed(clean_text(kind), text)
    payload: Fields = {known.names.get(name, name): item for name, item in fields.items()}
    if kind in ("shutdown_approved", "shutdown_rejected"):
        payload["approve"] = kind == "shutdown_approved"
    elif kind == "permission_response":
        payload["approve"] = fields.get("subtype") == "success"
    elif kind == "idle_notification":
        payload = _idle(payload)
    if "approve" in payload:
        payload["approve"] = payload["approve"] is True
    for name in ("reason", "task_id", "request_id"):
        if name in payload and not isinstance(payload[name], str):
            payload[name] = json.dumps(payload[name])
    return Typed(known.ours, text_in(payload, known.shown), payload_in(payload))


def _idle(payload: Fields) -> Fields:
    failed = payload.get("error") or payload.get("completedStatus") == "failed"
    reason = text_in(payload, "idleReason")
    status = IdleStatus.FAILED if failed else _IDLE_REASONS.get(reason, IdleStatus.FINISHED)
    payload |= {"status": status.value, "run_id": ""}
    if "summary" in payload and "result" in payload:
        # It tried to send mail, so its last text is no result that anybody waits for.
        payload["last_text"] = payload.pop("result")
    return payload


def _object(text: str) -> Fields | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def write_text(message: Message, sender: str, timestamp: str) -> str:
    """The text of a message of ours: its kind as JSON where Claude Code has one, else what it says.

    Prose that would be taken for a typed message gets words before it: a control message is made by the runtime, and
    no model can write one into a text.

    :param sender: the name of the sender there.
    """
    write = _WRITERS.get(message.type) if isinstance(message.type, MessageType) else None
    if write is None:
        if isinstance(message.type, MessageType) and _object(message.content) is not None:
            return f"(text) {message.content}"
        return message.content
    fields = write(message.payload or {}, message, sender)
    fields.setdefault("timestamp", timestamp)
    return json.dumps({name: item for name, item in fields.items() if item is not None}, ensure_ascii=False)


def _known(payload: Fields, *names: str) -> Fields:
    """What the other program understands under the same name as ours."""
    return {name: payload[name] for name in names if name in payload}


def _write_idle(payload: Fields, message: Message, sender: str) -> Fields:
    reasons = {status.value: reason for reason, status in _IDLE_REASONS.items()}
    status = payload.get("status")
    return {
        "type": "idle_notification",
        "from": sender,
        "idleReason": "failed" if status == IdleStatus.LIMIT else reasons.get(str(status), "available"),
        "result": payload.get("result"),
        "failureReason": payload.get("error") or ("limit" if status == IdleStatus.LIMIT else None),
    }


def _write_assignment(payload: Fields, message: Message, sender: str) -> Fields:
    return {
        "type": "task_assignment",
        "taskId": payload.get("task_id"),
        "subject": payload.get("subject", ""),
        "description": payload.get("description", message.content),
        "assignedBy": sender,
    }


def _write_completed(payload: Fields, message: Message, sender: str) -> Fields:
    names = {"taskId": payload.get("task_id"), "taskSubject": payload.get("subject")}
    return {"type": "task_completed", "from": sender, **names}


def _write_shutdown(payload: Fields, message: Message, sender: str) -> Fields:
    reason = payload.get("reason") or message.content or None
    return {"type": "shutdown_request", "requestId": payload.get("request_id"), "from": sender, "reason": reason}


def _write_shutdown_answer(payload: Fields, message: Message, sender: str) -> Fields:
    if payload.get("approve") is True:
        places = _known(payload, "paneId", "backendType")
        return {"type": "shutdown_approved", "requestId": payload.get("request_id"), "from": sender, **places}
    reason = payload.get("reason") or message.content
    return {"type": "shutdown_rejected", "requestId": payload.get("request_id"), "from": sender, "reason": reason}


def _write_plan(payload: Fields, message: Message, sender: str) -> Fields:
    return {
        "type": "plan_approval_request",
        "from": sender,
        "planFilePath": payload.get("plan_file", ""),
        "planContent": payload.get("plan") or message.content,
        "requestId": payload.get("request_id"),
    }


def _write_plan_answer(payload: Fields, message: Message, sender: str) -> Fields:
    return {
        "type": "plan_approval_response",
        "requestId": payload.get("request_id"),
        "approved": payload.get("approve") is True,
        "feedback": payload.get("reason") or message.content or None,
        **_known(payload, "permissionMode"),
    }


def _write_permission(payload: Fields, message: Message, sender: str) -> Fields:
    return {
        "type": "permission_request",
        "request_id": payload.get("request_id"),
        "agent_id": sender,
        "tool_name": payload.get("tool", ""),
        "tool_use_id": payload.get("tool_use_id", ""),
        "description": payload.get("description") or payload.get("reason") or message.content,
        "input": payload.get("input", {}),
        "permission_suggestions": payload.get("permission_suggestions", []),
    }


def _write_permission_answer(payload: Fields, message: Message, sender: str) -> Fields:
    approved = payload.get("approve") is True
    return {
        "type": "permission_response",
        "request_id": payload.get("request_id"),
        "subtype": "success" if approved else "error",
        "error": None if approved else (payload.get("reason") or message.content or "denied"),
        **_known(payload, "tool_use_id", "approved_request", "response"),
    }


_WRITERS: Mapping[MessageType, Callable[[Fields, Message, str], Fields]] = {
    MessageType.IDLE_NOTIFICATION: _write_idle,
    MessageType.TASK_ASSIGNMENT: _write_assignment,
    MessageType.TASK_COMPLETED: _write_completed,
    MessageType.SHUTDOWN_REQUEST: _write_shutdown,
    MessageType.SHUTDOWN_RESPONSE: _write_shutdown_answer,
    MessageType.PLAN_APPROVAL_REQUEST: _write_plan,
    MessageType.PLAN_APPROVAL_RESPONSE: _write_plan_answer,
    MessageType.PERMISSION_REQUEST: _write_permission,
    MessageType.PERMISSION_RESPONSE: _write_permission_answer,
}
