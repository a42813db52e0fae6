"""A conversation: an append-only transcript, and the message history that follows from it.

The history is always one the Messages API accepts: roles alternate, nothing is empty, every tool call is answered in
the next user message with the results first. Whoever appends holds the lease of the transcript.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..chat import Block, ChatMessage, ModelReply, TextBlock, ToolCall, ToolResult, Usage
from ..ids import AgentId, MessageId
from ..mail import IdleStatus
from ..storage.base import Log
from .records import Answer, Ended, Input, Result, Source, decode

MAIL_TOOLS = frozenset({"SendMessage", "ReadMessage"})
"""Using only these leaves a run a run that talks: its mail counts hops on."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call without a result: the place of its answer in the transcript, its position there, and itself."""

    place: int
    position: int
    call: ToolCall

    def derived_id(self, agent_id: AgentId) -> MessageId:
        """The id of everything this call makes; the same when it is run again."""
        return MessageId.derived(agent_id, self.place, self.position)


class Conversation:
    """The transcript of one agent, loaded. Every ``add_*`` returns when the line is durable."""

    def __init__(self, log: Log, agent_id: AgentId) -> None:
        self._log = log
        self.agent_id = agent_id
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
        self._messages: list[ChatMessage] = []
        self._pending: dict[str, PendingCall] = {}
        self._answered = True
        self._used_tools = False
        self._largest_hops = -1
        self._length = 0

    @classmethod
    async def open(cls, log: Log, agent_id: AgentId) -> Conversation:
        """Read a transcript; an absent one is an empty conversation, and is made by the first line.

        :raises TranscriptError: when a line cannot be understood.
        """
        conversation = cls(log, agent_id)
        await log.create()
        for record in await log.read():
            conversation._take(record.index, decode(record.data, f"transcript of {agent_id}, line {record.index}"))
        return conversation

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever said."""
        return self._length == 0

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
        return tuple(self._messages)

    @property
    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Tool calls without a result, in order."""
        return tuple(self._pending.values())

    @property
    def awaits_model(self) -> bool:
        """Whether the history ends in input that the model has not answered; an empty answer is one, too."""
        return not self._answered

    @property
    def hops(self) -> int:
        """What mail of this run carries: 0 once it has used a tool other than mail, or if no mail began it."""
        return 0 if self._used_tools or self._largest_hops < 0 else self._largest_hops + 1

    async def add_input(
        self, source: Source, text: str, *, mail: Iterable[MessageId] = (), hops: int = 0
    ) -> None:
        """Something for the model to answer. Blank text is not stored: the API refuses it."""
        if text.strip():
            await self._append(Input(source=source, text=text, mail=tuple(mail), hops=hops))

    async def add_reply(self, reply: ModelReply) -> tuple[PendingCall, ...]:
        """The model's answer; the calls that now wait for a result."""
        content = tuple(b for b in reply.content if not (isinstance(b, TextBlock) and not b.text.strip()))
        await self._append(
            Answer(
                content=content,
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
        ended = Ended(
            run_id=self.run_id, status=status, result=result, error=error, passing=passing, mail_end=mail_end
        )
        await self._append(ended)
        return ended

    async def _append(self, line: Input | Answer | Result | Ended) -> None:
        place = await self._log.append(line.model_dump_json(exclude_none=True).encode())
        self._take(place, line)

    def _take(self, place: int, line: Input | Answer | Result | Ended) -> None:
        self._length = place + 1
        if isinstance(line, Ended):
            self.ended, self.ended_place = line, place
            self.runs_ended += 1
            self.sent_mail = self._used_tools = False
            self._largest_hops = -1
            return
        if self.ended is not None:
            self.ended, self.last_text = None, ""
        match line:
            case Input():
                self.delivered.update(line.mail)
                if line.mail:
                    self._largest_hops = max(self._largest_hops, line.hops)
                self._add_user(TextBlock(text=line.text))
            case Answer():
                self._answered = True
                self.turns += 1
                self.usage += line.usage
                self._take_answer(place, line)
            case Result():
                self.sent_mail = self.sent_mail or line.sent_mail
                self._used_tools = self._used_tools or line.tool not in MAIL_TOOLS
                self._pending.pop(line.result.tool_use_id, None)
                self._add_user(line.result)

    def _take_answer(self, place: int, line: Answer) -> None:
        if not line.content:
            return
        message = ChatMessage(role="assistant", content=line.content)
        self._messages.append(message)
        self.last_text = message.text or self.last_text
        for position, block in enumerate(line.content):
            if isinstance(block, ToolCall):
                self._pending[block.id] = PendingCall(place, position, block)

    def _add_user(self, block: Block) -> None:
        self._answered = False
        if not self._messages or self._messages[-1].role == "assistant":
            self._messages.append(ChatMessage(role="user", content=(block,)))
            return
        content = self._messages[-1].content
        if isinstance(block, ToolResult):  # results come first, in the order of their calls
            results = [*(b for b in content if isinstance(b, ToolResult)), block]
            order = self._call_order()
            results.sort(key=lambda item: order.get(item.tool_use_id, len(order)))
            content = (*results, *(b for b in content if not isinstance(b, ToolResult)))
        else:
            content = (*content, block)
        self._messages[-1] = ChatMessage(role="user", content=content)

    def _call_order(self) -> dict[str, int]:
        asked = self._messages[-2].content if len(self._messages) > 1 else ()
        calls = [block.id for block in asked if isinstance(block, ToolCall)]
        return {call_id: position for position, call_id in enumerate(calls)}
