"""What the task manager knows about one agent of its team."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import anyio

from ..mail import IdleStatus
from ..mailbox.mailbox import Mailbox
from ..mailbox.store import Peek
from ..runner.conversation import Conversation
from ..runner.run import Identity, Inputs, Run, Stop, TurnLimit
from .wake import Halt, Situation, State


@dataclass(slots=True)
class RunInfo:
    """A run of this process: when it began and how it ended. ``text`` is the last thing its model wrote."""

    run_id: str
    agent: str
    why: str
    started_at: datetime
    status: IdleStatus | None = None
    error: str | None = None
    text: str = ""
    passing: bool = False
    said: int = 0
    """How often something had been said to the agent when the run began, or was asked to stop."""
    stop: Stop = field(default_factory=Stop)
    done: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class Entry:
    """One agent. Idle agents have no conversation in memory, only this."""

    identity: Identity
    mailbox: Mailbox
    limit: TurnLimit
    inputs: Inputs = field(default_factory=Inputs)
    state: State = State.IDLE
    busy: RunInfo | None = None
    """The run that is starting or under way."""
    run: Run | None = None
    """The run under way, once its transcript is loaded."""
    open_transcript: bool = False
    runs_ended: int = 0
    last_text: str = ""
    halt: Halt | None = None
    failures: int = 0
    """Starts in a row without one accepted request."""
    looks_again: bool = False
    """Whether its mailbox could not be read, and a look is due."""
    trouble: str = ""
    """What kept its mailbox from being read at the last look."""
    ended: bool = False
    paused: bool = False

    @property
    def in_motion(self) -> bool:
        """Whether a run is starting or under way, or a timer will start one."""
        return self.busy is not None or (self.halt is not None and self.halt.retry_in is not None)

    @property
    def next_run_id(self) -> str:
        """The id that the next run will have."""
        return f"{self.identity.agent_id}.{self.runs_ended + 1}"

    def learn(self, conversation: Conversation) -> None:
        """Take over what the conversation says about how things stand."""
        ended = conversation.ended
        self.runs_ended = conversation.runs_ended
        self.last_text = conversation.last_text
        if conversation.is_empty:
            self.open_transcript = bool(self.identity.opening)
        else:
            failed = ended is not None and ended.status is IdleStatus.FAILED
            self.open_transcript = conversation.is_open or (failed and conversation.awaits_model)

    def situation(self, peek: Peek) -> Situation:
        """What the wake rule looks at."""
        return Situation(
            peek=peek,
            open_transcript=self.open_transcript,
            waiting_input=bool(self.inputs.waiting),
            said=self.inputs.said,
            halt=self.halt,
            ended=self.ended,
            paused=self.paused,
            turns_left=self.limit.left,
        )
