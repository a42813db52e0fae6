"""The lines of a transcript. What they say is the truth about a conversation; everything else is derived."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..chat import Block, ToolResult, Usage
from ..errors import TranscriptError
from ..ids import MessageId
from ..mail import IdleStatus, Timestamp


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    at: Timestamp = Field(default_factory=lambda: datetime.now(UTC))


class Source(StrEnum):
    """Where input comes from: the prompt an agent was made with, the person, mail, or a nudge."""

    PROMPT = "prompt"
    USER = "user"
    MAIL = "mail"
    NUDGE = "nudge"


class Input(_Line):
    """Something for the model to answer. ``mail`` holds the ids of the messages in it, ``hops`` their largest."""

    kind: Literal["input"] = "input"
    source: Source
    text: str
    mail: tuple[MessageId, ...] = ()
    hops: int = 0


class Answer(_Line):
    """A complete answer of the model."""

    kind: Literal["answer"] = "answer"
    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    request_id: str = ""


class Result(_Line):
    """The result of one tool call; ``sent_mail`` tells that the call put mail into a mailbox."""

    kind: Literal["result"] = "result"
    result: ToolResult
    tool: str
    sent_mail: bool = False


class Ended(_Line):
    """A run is over. ``result`` is the last text of a run that sent no mail; ``passing`` tells what kind of failure.

    ``mail_end`` is the index the agent's next message would have got: only mail from there on is something new for
    an agent whose run was stopped, or failed.
    """

    kind: Literal["ended"] = "ended"
    run_id: str
    status: IdleStatus
    result: str | None = None
    error: str | None = None
    passing: bool = False
    mail_end: int = 0


Line = Annotated[Input | Answer | Result | Ended, Field(discriminator="kind")]
_LINE: TypeAdapter[Input | Answer | Result | Ended] = TypeAdapter(Line)


def decode(data: bytes, where: str) -> Input | Answer | Result | Ended:
    """The line in a record.

    :raises TranscriptError: when it is none that this program knows.
    """
    try:
        return _LINE.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise TranscriptError(
            f"{where}: a line that is no part of a conversation: {first['msg']}",
            remedy="It was written by another version, or by hand: put the line back, or move the file away.",
        ) from error
