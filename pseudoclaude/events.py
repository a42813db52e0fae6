"""What the runtime reports upward.

Two kinds: *progress* may be dropped when a listener is slow; everything else must arrive. Every event carries a
sequence number that grows by one per event of its bus, so that a listener can tell that progress was dropped.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import anyio
from anyio import from_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .logs import Log

_log = Log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of all events: which agent it concerns (name and id; empty for the team) and when it happened."""

    droppable: ClassVar[bool] = False
    agent: str = ""
    agent_id: str = ""
    seq: int = 0
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextProgress(Event):
    """A piece of text that a model is writing; the whole text comes with :class:`Replied`."""

    droppable: ClassVar[bool] = True
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(Event):
    """What a running tool has to say."""

    droppable: ClassVar[bool] = True
    tool: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Event):
    """A member was spawned."""

    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChanged(Event):
    """An agent's state: starting, working, idle, waiting, paused, stalled, failed, ended. ``why`` says more."""

    state: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A run began; ``why`` is what it began for."""

    run_id: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailDelivered(Event):
    """Messages entered the agent's conversation."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied(Event):
    """A model answered; ``content`` holds the blocks of the answer, ``usage`` what the API counted."""

    content: tuple[dict[str, Any], ...]
    text: str
    stop_reason: str
    usage: dict[str, int]
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(Event):
    """A tool is about to run."""

    call_id: str
    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished(Event):
    """A tool call has its result."""

    call_id: str
    tool: str
    content: str | list[dict[str, Any]]
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSent(Event):
    """A message is stored. ``agent`` is the sender, ``recipient`` a display name."""

    message_id: str
    recipient: str
    type: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged(Event):
    """A task of the board was made or changed."""

    task_id: str
    subject: str
    status: str
    owner: str = ""
    blocked_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """A run is over: finished, failed, interrupted or limit; ``text`` is its last text."""

    run_id: str
    status: str
    text: str = ""
    error: str = ""
    turns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """Something the person should know and the run survives."""

    text: str


class EventBus:
    """Passes events to any number of listeners, without ever waiting for one.

    A listener's queue takes at most ``progress_limit`` waiting events before progress is dropped for it; other
    events always enter.
    """

    def __init__(self, *, progress_limit: int = 1_000) -> None:
        self._seq = 0
        self._limit = progress_limit
        self._listeners: list[MemoryObjectSendStream[Event]] = []
        self._taps: list[Callable[[Event], None]] = []
        self._thread = 0
        self._closed = False

    def publish(self, event: Event) -> None:
        """Give the event its sequence number and pass it on; waits for no listener.

        A worker thread that anyio started may call this, too: the event is passed on in the event loop. From one
        whose loop has ended, nothing arrives.
        """
        if self._thread in (0, threading.get_ident()):
            self._pass_on(event)
            return
        with suppress(RuntimeError):
            from_thread.run_sync(self._pass_on, event)

    def _pass_on(self, event: Event) -> None:
        self._seq += 1
        numbered = replace(event, seq=self._seq)
        for tap in self._taps:
            try:
                tap(numbered)
            except Exception:
                _log.exception("a listener failed", event_type=type(event).__name__)
        for listener in tuple(self._listeners):
            if event.droppable and listener.statistics().current_buffer_used >= self._limit:
                continue
            try:
                listener.send_nowait(numbered)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._drop(listener)

    def publish_for(self, agent: str, agent_id: str, event: Event) -> None:
        """Publish an event as one that concerns this agent."""
        self.publish(replace(event, agent=agent, agent_id=agent_id))

    def tap(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` with every event from now on. It must be quick.

        What it raises is logged.
        """
        self._taps.append(listener)

    def subscribe(self) -> MemoryObjectReceiveStream[Event]:
        """A stream of every event from now on; it ends when the bus is closed. Close it when done.

        To be called in the event loop.
        """
        send, receive = anyio.create_memory_object_stream[Event](math.inf)
        self._thread = threading.get_ident()
        if self._closed:
            send.close()
        else:
            self._listeners.append(send)
        return receive

    def close(self) -> None:
        """End every listener's stream, after what it already holds."""
        self._closed = True
        for listener in tuple(self._listeners):
            self._drop(listener)

    def _drop(self, listener: MemoryObjectSendStream[Event]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
        listener.close()
