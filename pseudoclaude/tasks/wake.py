"""The wake rule: *owes a turn, not running and wakeable implies a run starts.* Pure; the manager applies it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..mailbox.store import Peek


class State(StrEnum):
    """What an agent is doing, from its runner's own events."""

    STARTING = "starting"
    WORKING = "working"
    IDLE = "idle"
    WAITING = "waiting"
    PAUSED = "paused"
    STALLED = "stalled"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Halt:
    """Why an agent does not go on by itself: its run failed, was stopped, or met a limit.

    ``mail_end`` is the index its next message would have got then, ``said`` how often something had been said to it:
    what came later is something new.
    """

    why: str
    mail_end: int
    said: int = 0
    retry_in: float | None = None
    """Seconds until a timer starts it again; None when none does."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything the wake rule looks at."""

    peek: Peek
    open_transcript: bool = False
    """Its transcript ends in something that is to be carried on."""
    waiting_input: bool = False
    """Something was said to it that is not in the conversation yet."""
    said: int = 0
    """How often something was said to it."""
    halt: Halt | None = None
    ended: bool = False
    paused: bool = False
    turns_left: int | None = None


def owes_turn(situation: Situation) -> bool:
    """Whether there is something for the model to answer."""
    return situation.open_transcript or situation.waiting_input or situation.peek.waking > 0


def wakeable(situation: Situation) -> str | None:
    """None when a run may start; else why not, in words that finish "it does not start: …"."""
    if situation.ended:
        return "it has ended"
    if situation.paused:
        return "it is paused"
    if situation.turns_left is not None and situation.turns_left <= 0:
        return "its turns are used up"
    halt = situation.halt
    if halt is not None and not _is_lifted(halt, situation):
        return halt.why
    return None


def _is_lifted(halt: Halt, situation: Situation) -> bool:
    """Whether there is something new: mail that wakes, or something said."""
    if situation.peek.newest_waking >= halt.mail_end:
        return True
    return situation.waiting_input and situation.said > halt.said
