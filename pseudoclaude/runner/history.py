"""The message history that follows from a transcript: always one the Messages API accepts. Pure.

Roles alternate, nothing is empty, and every tool call is answered in the next user message, the results first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..chat import Block, ChatMessage, TextBlock, ToolCall, ToolResult
from ..ids import AgentId, MessageId
from .records import Answer

CUT_SHORT = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})
"""Stop reasons of an answer that may break off in the middle of a tool call."""

LOST = "(A part of this conversation was lost here.)"
LOST_RESULT = "the result of this call was lost"

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A tool call without a result: the place of its answer in the transcript, its position there, and itself.

    ``cut`` is why its answer broke off, if it did: then the call may be incomplete and must not run.
    """

    place: int
    position: int
    call: ToolCall
    cut: str = ""

    def derived_id(self, agent_id: AgentId) -> MessageId:
        """The id of everything this call makes; the same when it is run again."""
        return MessageId.derived(agent_id, self.place, self.position)


class History:
    """What a model is sent, built from what was said, line by line."""

    def __init__(self) -> None:
        self._messages: list[ChatMessage] = []
        self._pending: dict[str, PendingCall] = {}
        self._call_ids: set[str] = set()
        self._answered = True

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The history as it can be sent, once no call is pending."""
        return tuple(self._messages)

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """Tool calls without a result, in order."""
        return tuple(self._pending.values())

    @property
    def awaits_model(self) -> bool:
        """Whether it ends in input that the model has not answered; an empty answer is one, too."""
        return not self._answered

    def is_new_call(self, call_id: str) -> bool:
        """Whether the API takes this id for another tool call."""
        return call_id not in self._call_ids and _CALL_ID.fullmatch(call_id) is not None

    def add_text(self, text: str) -> None:
        """Something for the model to answer; blank text is nothing."""
        if text.strip():
            self._add_to_user(TextBlock(text=text))

    def add_answer(self, place: int, answer: Answer) -> str:
        """The model's answer, at this place of the transcript; its text."""
        self._answered = True
        content = _sendable(answer.content)
        if not content:
            return ""
        self._mend()
        message = ChatMessage(role="assistant", content=content)
        self._messages.append(message)
        cut = answer.stop_reason if answer.stop_reason in CUT_SHORT else ""
        for position, block in enumerate(answer.content):
            if isinstance(block, ToolCall):
                self._pending[block.id] = PendingCall(place, position, block, cut)
                self._call_ids.add(block.id)
        return message.text

    def add_result(self, result: ToolResult) -> bool:
        """The result of a pending call; False, and nothing is changed, when it is not pending."""
        if self._pending.pop(result.tool_use_id, None) is None:
            return False
        self._add_to_user(result)
        return True

    def _mend(self) -> None:
        """Before an answer: make good for lines of a damaged transcript that are gone."""
        for pending in self.pending:
            self.add_result(ToolResult(tool_use_id=pending.call.id, content=LOST_RESULT, is_error=True))
        if not self._messages or self._messages[-1].role == "assistant":
            self._add_to_user(TextBlock(text=LOST))
        self._answered = True

    def _add_to_user(self, block: Block) -> None:
        self._answered = False
        if not self._messages or self._messages[-1].role == "assistant":
            self._messages.append(ChatMessage(role="user", content=(block,)))
            return
        content = (*self._messages[-1].content, block)
        if isinstance(block, ToolResult):  # results come first, in the order of their calls
            order = {call_id: position for position, call_id in enumerate(self._last_asked())}
            results = [item for item in content if isinstance(item, ToolResult)]
            results.sort(key=lambda item: order.get(item.tool_use_id, len(order)))
            content = (*results, *(item for item in content if not isinstance(item, ToolResult)))
        self._messages[-1] = ChatMessage(role="user", content=content)

    def _last_asked(self) -> list[str]:
        asked = self._messages[-2].content if len(self._messages) > 1 else ()
        return [block.id for block in asked if isinstance(block, ToolCall)]


def spoken(content: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks of an answer without blank texts, which the API refuses to take back."""
    return tuple(block for block in content if not (isinstance(block, TextBlock) and not block.text.strip()))


def _sendable(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """What can be sent back of an answer: no blank text, and no thinking behind which nothing came.

    An answer cut off while the model was thinking ends in a block without its signature.
    """
    blocks = list(spoken(content))
    while blocks and blocks[-1].type in ("thinking", "redacted_thinking"):
        blocks.pop()
    return tuple(blocks)
