"""What a headless run writes to stdout: ``text``, ``json`` or ``stream-json``, spelt as Claude Code spells them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Protocol

import click

from .._version import __version__
from ..events import Event, MailSent, Replied, StateChanged, TaskChanged, ToolCalled, ToolFinished
from ..mail import IdleStatus
from ..team import Team, TeamResult
from .common import plain

FORMATS = ("text", "json", "stream-json")

_SUBTYPES = {
    IdleStatus.FINISHED: "success",
    IdleStatus.LIMIT: "error_max_turns",
    IdleStatus.FAILED: "error_during_execution",
    IdleStatus.INTERRUPTED: "error_during_execution",
}


class Output(Protocol):
    """Gets the team before it runs, then every event, then the result."""

    def attach(self, team: Team) -> None:
        """The team that is about to run."""
        ...

    def event(self, event: Event) -> None:
        """Something happened."""
        ...

    def end(self, result: TeamResult) -> None:
        """The run is over."""
        ...


def output_for(name: str) -> Output:
    """The output of that format."""
    outputs: dict[str, type[Output]] = {"text": TextOutput, "json": JsonOutput, "stream-json": StreamOutput}
    return outputs[name]()


class TextOutput:
    """The lead's last text, and nothing else."""

    def attach(self, team: Team) -> None:
        """Nothing of the team is needed."""

    def event(self, event: Event) -> None:
        """Only the result counts."""

    def end(self, result: TeamResult) -> None:
        """Write the text."""
        if result.text:
            click.echo(plain(result.text))


class JsonOutput:
    """One object: the result."""

    def __init__(self) -> None:
        self._team: Team | None = None

    def attach(self, team: Team) -> None:
        """Keep the team: the lines name it."""
        self._team = team

    def event(self, event: Event) -> None:
        """Only the result counts."""

    def end(self, result: TeamResult) -> None:
        """Write the result."""
        assert self._team is not None, "attach comes first"
        click.echo(json.dumps(result_object(self._team, result), ensure_ascii=False))


class StreamOutput:
    """One object a line, as things happen."""

    def __init__(self) -> None:
        self._session = ""
        self._lead = ""
        self._team: Team | None = None
        self._parents: dict[str, str] = {}
        """Member name to the id of the tool call that spawned it."""

    def attach(self, team: Team) -> None:
        """Keep the team: the lines name it."""
        self._team = team

    def _begin(self) -> None:
        assert self._team is not None, "attach comes first"
        if self._session:
            return
        team = self._team
        self._lead = self._session = team.record.lead.agent_id
        for member in team.record.members:
            self._parents[member.name] = member.spawned_by or member.agent_id
        self._line(
            {
                "type": "system",
                "subtype": "init",
                "cwd": str(team.record.workspace),
                "model": team.model,
                "permissionMode": "default",
                "tools": team.lead_tools,
                "mcp_servers": [],
                "slash_commands": [],
                "agents": [],
                "skills": [],
                "plugins": [],
                "capabilities": ["team_member", "team_mail", "team_task"],
                "pseudoclaude_version": __version__,
                "team_name": team.record.name,
            }
        )

    def event(self, event: Event) -> None:
        """Write the lines that this event is worth."""
        self._begin()
        match event:
            case Replied():
                content = list(event.content)
                message = {
                    "role": "assistant",
                    "model": event.model,
                    "content": content,
                    "stop_reason": event.stop_reason,
                    "usage": event.usage,
                }
                self._message("assistant", message, event)
            case ToolCalled(tool="Agent"):
                self._parents[str(event.input.get("name", ""))] = event.call_id
            case ToolFinished():
                block = {
                    "type": "tool_result",
                    "tool_use_id": event.call_id,
                    "content": event.content,
                    "is_error": event.is_error,
                }
                self._message("user", {"role": "user", "content": [block]}, event)
            case StateChanged():
                self._system("team_member", event, name=event.agent, state=event.state, why=event.why)
            case MailSent():
                self._system(
                    "team_mail",
                    event,
                    message_id=event.message_id,
                    **{"from": event.agent, "to": event.recipient, "state": "stored"},
                    mail_type=event.type,
                    summary=event.summary,
                )
            case TaskChanged():
                self._system(
                    "team_task",
                    event,
                    id=event.task_id,
                    status=event.status,
                    owner=event.owner,
                    blocked_by=list(event.blocked_by),
                    subject=event.subject,
                )
            case _:
                pass

    def end(self, result: TeamResult) -> None:
        """Write the result."""
        assert self._team is not None, "attach comes first"
        self._begin()
        self._line(result_object(self._team, result))

    def _message(self, kind: str, message: Mapping[str, Any], event: Event) -> None:
        parent = None if event.agent_id == self._lead else self._parents.get(event.agent, event.agent_id)
        self._line(
            {"type": kind, "message": message, "parent_tool_use_id": parent, "agent_name": event.agent}
            | self._origin(event)
        )

    def _system(self, subtype: str, event: Event, **values: Any) -> None:
        self._line({"type": "system", "subtype": subtype, **values} | self._origin(event))

    def _origin(self, event: Event) -> dict[str, Any]:
        assert self._team is not None, "attach comes first"
        return {"agent_id": event.agent_id, "team_name": self._team.record.name, "seq": event.seq}

    def _line(self, value: Mapping[str, Any]) -> None:
        line = {**value, "session_id": self._session, "uuid": value.get("uuid") or str(uuid.uuid4())}
        click.echo(json.dumps(line, ensure_ascii=False))


def result_object(team: Team, result: TeamResult) -> dict[str, Any]:
    """The result as ``json`` and ``stream-json`` spell it. Costs are unknown here, and null."""
    milliseconds = round(result.seconds * 1000)
    value: dict[str, Any] = {
        "type": "result",
        "subtype": _SUBTYPES[result.status],
        "is_error": not result.ok,
        "duration_ms": milliseconds,
        "duration_api_ms": None,
        "num_turns": result.turns,
        "session_id": team.record.lead.agent_id,
        "uuid": str(uuid.uuid4()),
        "team_name": team.record.name,
        "total_cost_usd": None,
        "usage": result.usage.model_dump(),
        "modelUsage": {},
        "permission_denials": [],
        "unfinished": result.unfinished,
    }
    if result.ok:
        return {**value, "result": result.text}
    return {**value, "result": result.text, "errors": [result.error]}
