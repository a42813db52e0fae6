"""Who does what, line by line, for a person who watches a run; on stderr, so that results stay alone on stdout."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from ..events import (
    Event,
    MailSent,
    MemberJoined,
    Replied,
    RunEnded,
    RunStarted,
    StateChanged,
    TaskChanged,
    ToolCalled,
    ToolFinished,
    Warned,
)
from ..mail import MessageType
from .common import plain

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow")
_QUIET_TOOLS = frozenset({"SendMessage", "Agent", "TaskCreate", "TaskUpdate"})
"""Tools whose effect is an event, and a line, of its own."""
_QUIET_MAIL = frozenset({MessageType.IDLE_NOTIFICATION, MessageType.TASK_COMPLETED})
"""Mail that repeats what another line says."""
_PREFIX = 21
"""Columns before the text of a line: the time and the name."""


def _columns() -> int:
    """The width of the terminal that stderr is; wide where it is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 180


def colour_is_wanted() -> bool:
    """Colour on a terminal, unless NO_COLOR is set to something."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


class Narrator:
    """Writes a line for each event worth one."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._colours: dict[str, str] = {}
        self._colour = colour_is_wanted()
        self._width = max(40, _columns() - _PREFIX)
        self._calls: dict[tuple[str, str], str] = {}

    def __call__(self, event: Event) -> None:
        """Write about this event, if there is something to say."""
        if line := self._line(event):
            self._write(event.agent, line)

    def _write(self, agent: str, line: str) -> None:
        name = agent or "team"
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        text = " ".join(plain(line).split())
        text = text if len(text) <= self._width else text[: self._width - 1] + "…"
        shown = click.style(f"{name:<10}", fg=colour, bold=True) if self._colour else f"{name:<10}"
        click.echo(f"{time.monotonic() - self._began:7.2f}s  {shown} {text}", err=True)

    def _line(self, event: Event) -> str:
        match event:
            case MemberJoined():
                return f"joins the team: {event.description}"
            case RunStarted():
                return f"starts ({event.why})"
            case Replied(text=text) if text.strip():
                return f"says: {_first_line(text)}"
            case ToolCalled(tool=tool) if tool not in _QUIET_TOOLS:
                self._calls[event.agent_id, event.call_id] = f"{tool} {_arguments(event.input)}"
                return ""
            case ToolFinished():
                return self._finished(event)
            case MailSent() if event.type not in _QUIET_MAIL:
                kind = "" if event.type == "text" else f" [{event.type}]"
                return f"mails {event.recipient}{kind}: {event.summary}"
            case TaskChanged():
                owner = f", owner {event.owner}" if event.owner else ""
                waits = f", waits for {', '.join(event.blocked_by)}" if event.blocked_by else ""
                return f"task {event.task_id} [{event.status}] {event.subject}{owner}{waits}"
            case StateChanged(state="failed"):
                return event.why
            case RunEnded(status=status) if status != "failed":
                return "is idle" if status == "finished" else f"is idle ({status}: {event.error})"
            case Warned():
                return f"warning: {event.text}"
            case _:
                return ""

    def _finished(self, event: ToolFinished) -> str:
        call = self._calls.pop((event.agent_id, event.call_id), "")
        text = event.content if isinstance(event.content, str) else f"{len(event.content)} blocks"
        if event.is_error:
            return f"{call or event.tool} FAILED: {text}"
        if not call:
            return ""
        lines = text.count("\n") + 1
        return f"{call}: {text if lines == 1 else f'{lines:,} lines'}"


def _arguments(given: dict[str, Any]) -> str:
    """What a call is about: the text among its arguments."""
    text = " ".join(value for value in given.values() if isinstance(value, str) and value)
    return text if len(text) <= 70 else text[:69] + "…"


def _first_line(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    return f"{first} …" if rest else first
