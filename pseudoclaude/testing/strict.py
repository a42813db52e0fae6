"""A provider that refuses what the Messages API would refuse, for every test of a conversation."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..chat import Block, ChatMessage, JsonObject, ModelReply, ModelRequest, TextBlock, ToolCall, ToolResult
from ..errors import ProviderError
from ..providers.base import Provider, ReplyEvent

_THINKING = frozenset({"thinking", "redacted_thinking"})
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


class StrictProvider:
    """Passes requests on to ``provider`` when they keep the Messages API's rules, and refuses them otherwise.

    ``violations`` holds a line for every rule broken. Beside :func:`violations_of`, a thinking block must come back
    as ``provider`` gave it, and those of an answer that waits for its tool results must all come back.
    """

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self.default_model = provider.default_model
        self.violations: list[str] = []
        self._provider = provider
        self._thought: dict[str, list[JsonObject]] = {}
        self._thought_with_calls: dict[frozenset[str], list[JsonObject]] = {}

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
        """Check, then ask the wrapped provider.

        :raises ProviderError: not passing, with every rule that the request breaks.
        """
        broken = [*violations_of(request), *self._changed_thinking(request)]
        if broken:
            self.violations += broken
            raise ProviderError(
                f"the Messages API refuses this request: {'; '.join(broken)}", passing=False, status=400
            )
        async with self._provider.stream(request) as events, aclosing(self._watch(events)) as watched:
            yield watched

    async def _watch(self, events: AsyncIterator[ReplyEvent]) -> AsyncGenerator[ReplyEvent]:
        async for event in events:
            if isinstance(event, ModelReply):
                thinking = _thinking_of(event.content)
                for block in thinking:
                    for mark in _marks(block):
                        self._thought.setdefault(mark, []).append(block)
                if event.tool_calls:
                    self._thought_with_calls[frozenset(block.id for block in event.tool_calls)] = thinking
            yield event

    def _changed_thinking(self, request: ModelRequest) -> Iterator[str]:
        for place, message in enumerate(request.messages):
            for block in _thinking_of(message.content):
                # What an earlier process was answered is unknown here, and shares no mark with what is known.
                known = [other for mark in _marks(block) for other in self._thought.get(mark, ())]
                if known and block not in known:
                    yield f"message {place}: a thinking block was changed"
        if len(request.messages) >= 2 and request.messages[-2].role == "assistant":
            answer = request.messages[-2]
            calls = frozenset(block.id for block in answer.content if isinstance(block, ToolCall))
            given = self._thought_with_calls.get(calls) if calls else None
            if given is not None and given != _thinking_of(answer.content):
                yield f"message {len(request.messages) - 2}: its thinking blocks are not those of the answer"


def violations_of(request: ModelRequest) -> list[str]:
    """A line for each rule of the Messages API that ``request`` breaks; none when it would be accepted."""
    return [
        *_in_frame(request),
        *_in_tools(request),
        *(line for place, message in enumerate(request.messages) for line in _in_message(place, message)),
        *_in_pairs(request),
        *_in_encoding(request),
    ]


def _in_frame(request: ModelRequest) -> Iterator[str]:
    if not request.model:
        yield "no model is named"
    if request.max_tokens < 1:
        yield "max_tokens is below 1"
    if not request.messages:
        yield "there is no message"
    elif request.messages[0].role != "user":
        yield "message 0 is not the user's"
    for place in range(1, len(request.messages)):
        if request.messages[place].role == request.messages[place - 1].role:
            yield f"message {place} has the role of the one before it"


def _in_tools(request: ModelRequest) -> Iterator[str]:
    names = [tool.name for tool in request.tools]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two tools are named {name!r}"
    for tool in request.tools:
        if not _TOOL_NAME.fullmatch(tool.name):
            yield f"tool {tool.name!r}: no acceptable name"
        if tool.input_schema.get("type") != "object":
            yield f"tool {tool.name!r}: its schema is not of type object"
        if tool.input_schema.keys() & {"anyOf", "oneOf", "allOf"}:
            yield f"tool {tool.name!r}: its schema has a union at the top"


def _in_message(place: int, message: ChatMessage) -> Iterator[str]:
    if not message.content:
        yield f"message {place} is empty"
    for block in message.content:
        if isinstance(block, TextBlock) and not block.text.strip():
            yield f"message {place} has a blank text block"
        if isinstance(block, ToolResult):
            if message.role != "user":
                yield f"message {place}: a tool result in the assistant's message"
            if not isinstance(block.content, str) and any(_is_blank(part) for part in block.content):
                yield f"message {place}: the result of {block.tool_use_id} has a blank text block"
        elif message.role == "user" and (isinstance(block, ToolCall) or block.type in _THINKING):
            yield f"message {place}: a block of type {block.type} in the user's message"
        if isinstance(block, ToolCall) and not _CALL_ID.fullmatch(block.id):
            yield f"message {place}: {block.id!r} is no acceptable id of a tool call"


def _in_pairs(request: ModelRequest) -> Iterator[str]:
    seen: set[str] = set()
    asked: list[str] = []
    for place, message in enumerate(request.messages):
        answered = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        for call_id in asked:
            if call_id not in answered:
                yield f"message {place} has no result for tool call {call_id}"
        for call_id in answered:
            if call_id not in asked:
                yield f"message {place} has a result for {call_id}, which the message before it did not call"
        for call_id in sorted({call_id for call_id in answered if answered.count(call_id) > 1}):
            yield f"message {place} has two results for {call_id}"
        if any(not isinstance(block, ToolResult) for block in message.content[: len(answered)]):
            yield f"message {place} has another block before its tool results"
        asked = [block.id for block in message.content if isinstance(block, ToolCall)]
        for call_id in asked:
            if call_id in seen:
                yield f"message {place} uses the id {call_id} of another tool call"
            seen.add(call_id)
    for call_id in asked:
        yield f"tool call {call_id} has no result"


def _in_encoding(request: ModelRequest) -> Iterator[str]:
    parts: list[tuple[str, Any]] = [("system", request.system)]
    parts += [(f"message {place}", message.model_dump()) for place, message in enumerate(request.messages)]
    parts += [(f"tool {tool.name!r}", tool.model_dump()) for tool in request.tools]
    for where, value in parts:
        if any(not _encodes(text) for text in _strings(value)):
            yield f"{where} has a lone surrogate"


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_blank(part: JsonObject) -> bool:
    return part.get("type") == "text" and not str(part.get("text", "")).strip()


def _thinking_of(content: tuple[Block, ...]) -> list[JsonObject]:
    return [block.model_dump() for block in content if block.type in _THINKING]


def _marks(block: JsonObject) -> list[str]:
    """What a thinking block is recognised by, even when one part of it was changed."""
    return [f"{key} {block[key]}" for key in ("signature", "thinking", "data") if block.get(key)]


if TYPE_CHECKING:

    def _is_provider(provider: StrictProvider) -> Provider:
        return provider
