"""A conversation: an append-only transcript, and the message history that follows from it.

Whoever appends holds the lease of the transcript.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import anyio
from pydantic_core import PydanticSerializationError

from ..chat import Block, ChatMessage, ModelReply, ToolCall, ToolResult, Usage
from ..ids import AgentId, MessageId
from ..mail import IdleStatus, clean_text
from ..storage.base import Log
from .history import History, PendingCall, spoken
from .records import Answer, Ended, Input, Result, Source, decode

MAIL_TOOLS = frozenset({"SendMessage", "ReadMessage"})
"""Using only these leaves a run a run that talks: its mail counts hops on."""


class Conversation:
    """The transcript of one agent, loaded. Every ``add_*`` returns when the line is durable.

    A line that is being written is written to its end even when the run is cancelled: what is held here and what a
    reader of the transcript finds are the same.
    """

    def __init__(self, log: Log, agent_id: AgentId) -> None:
        self._log = log
        self._writing = anyio.Lock()
        self._history = History()
        self._largest_hops = -1
        self._used_tools = False
        self.agent_id = agent_id
        self.is_empty = True
        """Whether nothing was ever said."""
        self.delivered: set[MessageId] = set()
        """Ids of all mail that ever entered this conversation."""
        self.ended: Ended | None = None
        """How the last run ended, while nothing has come after it."""
        self.ended_place = -1
        """The place of that line in the transcript; it identifies the notice about it."""
        self.runs_ended = 0
        self.turns = 0
        self.usage = Usage()
        self.last_text = ""
        """The last text of the present run, or of the last one while nothing has come after it."""
        self.sent_mail = False
        """Whether the present run has sent mail."""

    @classmethod
    async def open(cls, log: Log, agent_id: AgentId) -> Conversation:
        """Read a transcript; an absent one is an empty conversation.

        :raises TranscriptError: when a line cannot be understood.
        """
        conversation = cls(log, agent_id)
        await log.create()
        for record in await log.read():
            conversation._take(record.index, decode(record.data, f"transcript of {agent_id}, line {record.index}"))
        return conversation

    @property
    def is_open(self) -> bool:
        """Whether a run is under way or was cut off: the transcript has lines behind the last end of a run."""
        return not self.is_empty and self.ended is None

    @property
    def run_id(self) -> str:
        """The id of the run under way, or of the next one."""
        return f"{self.agent_id}.{self.runs_ended + 1}"

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The history as it can be sent, once no call is pending."""
        return self._history.messages

    @property
    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Tool calls without a result, in order."""
        return self._history.pending

    @property
    def awaits_model(self) -> bool:
        """Whether the history ends in input that the model has not answered; an empty answer is one, too."""
        return self._history.awaits_model

    @property
    def hops(self) -> int:
        """What mail of this run carries: 0 once it has used a tool other than mail, or if no mail began it."""
        return 0 if self._used_tools or self._largest_hops < 0 else self._largest_hops + 1

    @property
    def unreported(self) -> str | None:
        """The last text of the present run, if it sent no mail: its result would be lost otherwise."""
        text = self.last_text.strip()
        return text if text and self.is_open and not self.sent_mail else None

    async def add_input(self, source: Source, text: str, *, mail: Iterable[MessageId] = (), hops: int = 0) -> None:
        """Something for the model to answer. Blank text is not stored: the API refuses it."""
        if text.strip():
            await self._append(Input(source=source, text=text, mail=tuple(mail), hops=hops))

    async def add_reply(self, reply: ModelReply) -> tuple[PendingCall, ...]:
        """The model's answer; the calls that now wait for a result.

        A call whose id the API would not take back, because another one has it, gets one of ours.
        """
        await self._append(
            Answer(
                content=self._with_own_ids(spoken(reply.content)),
                stop_reason=reply.stop_reason,
                usage=reply.usage,
                model=reply.model,
                request_id=reply.request_id,
            )
        )
        return self.pending_calls

    async def add_result(self, result: ToolResult, *, tool: str, sent_mail: bool = False) -> None:
        """The result of one pending call."""
        await self._append(Result(result=result, tool=tool, sent_mail=sent_mail))

    async def end_run(
        self,
        status: IdleStatus,
        *,
        result: str | None = None,
        error: str | None = None,
        passing: bool = False,
        mail_end: int = 0,
    ) -> Ended:
        """Close the run: the conversation owes nothing until something new comes."""
        ended = Ended(run_id=self.run_id, status=status, result=result, error=error, passing=passing, mail_end=mail_end)
        await self._append(ended)
        return ended

    async def _append(self, line: Input | Answer | Result | Ended) -> None:
        data = _encode(line)
        with anyio.CancelScope(shield=True):
            async with self._writing:
                place = await self._log.append(data)
                self._take(place, decode(data, "a line just written"))

    def _take(self, place: int, line: Input | Answer | Result | Ended) -> None:
        self.is_empty = False
        if isinstance(line, Ended):
            self.ended, self.ended_place = line, place
            self.runs_ended += 1
            self.sent_mail = self._used_tools = False
            if not self.awaits_model:  # else the next run answers what this one was delivered
                self._largest_hops = -1
            return
        if self.ended is not None:
            self.ended, self.last_text = None, ""
        match line:
            case Input():
                self.delivered.update(line.mail)
                if line.mail:
                    self._largest_hops = max(self._largest_hops, line.hops)
                self._history.add_text(line.text)
            case Answer():
                self.turns += 1
                self.usage += line.usage
                self.last_text = self._history.add_answer(place, line) or self.last_text
            case Result():
                if self._history.add_result(line.result):
                    self.sent_mail = self.sent_mail or line.sent_mail
                    self._used_tools = self._used_tools or line.tool not in MAIL_TOOLS

    def _with_own_ids(self, content: tuple[Block, ...]) -> tuple[Block, ...]:
        taken: set[str] = set()
        blocks: list[Block] = []
        for block in content:
            if isinstance(block, ToolCall):
                if block.id in taken or not self._history.is_new_call(block.id):
                    block = block.model_copy(update={"id": f"toolu_{MessageId.new()}"})
                taken.add(block.id)
            blocks.append(block)
        return tuple(blocks)


def _encode(line: Input | Answer | Result | Ended) -> bytes:
    try:
        return line.model_dump_json().encode()
    except PydanticSerializationError:  # half a surrogate pair, which cannot be written
        return clean_text(json.dumps(line.model_dump(), ensure_ascii=False, default=str)).encode()
