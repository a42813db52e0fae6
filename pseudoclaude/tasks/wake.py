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

    ``mail_end`` is the index its next message would have got then; mail from there on is something new. ``retries``
    tells that a timer will start it again.
    """

    why: str
    mail_end: int
    failed: bool = False
    retries: bool = False

    def is_lifted_by(self, peek: Peek) -> bool:
        """Whether mail that wakes has come since."""
        return peek.newest_waking >= self.mail_end


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything the wake rule looks at."""

    peek: Peek
    open_transcript: bool = False
    """Its transcript ends in something that is to be carried on."""
    waiting_input: bool = False
    """The person has said something that is not in the conversation yet."""
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
    if halt is not None and not situation.waiting_input and not halt.is_lifted_by(situation.peek):
        return halt.why
    return None
