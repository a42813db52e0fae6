"""Stand-ins for a model: one plays a script, one asks a function."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from anyio.lowlevel import checkpoint

from ..chat import Block, ModelReply, ModelRequest, OtherBlock, TextBlock, ToolCall, ToolResult
from ..errors import ScriptExhaustedError
from .base import Provider, ReplyEvent, TextDelta

Answer = str | Block | Sequence[str | Block] | ModelReply | Exception
"""What stands for a reply: text, a tool call, a list of these and other blocks, a whole reply, or an error to raise."""

AnswerFunction = Callable[[ModelRequest], Answer | Awaitable[Answer]]
"""Gives the answer to a request, at once or when awaited."""

Turn = Answer | AnswerFunction
"""An entry of a script."""

_WORD = re.compile(r"\S+\s*|\s+")


def call(name: str, /, **input: Any) -> ToolCall:
    """A tool call with an id of its own, for scripts: ``call("Read", file_path="a.py")``."""
    return ToolCall(id=f"toolu_{uuid4().hex}", name=name, input=input)


def words(text: str) -> list[str]:
    """``text`` in pieces of one word, each with the white space behind it; joined they give ``text`` again."""
    return _WORD.findall(text)


def reply_of(answer: Answer, model: str) -> ModelReply:
    """The reply that ``answer`` stands for. It ends with ``tool_use`` when it holds a tool call, else ``end_turn``.

    An empty text becomes no block. Usage is zero except in an answer that is a :class:`ModelReply`, kept as it is.

    :raises Exception: the answer itself, when it is one.
    """
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ModelReply):
        return answer
    parts = [answer] if isinstance(answer, str | TextBlock | ToolCall | ToolResult | OtherBlock) else answer
    blocks = tuple(TextBlock(text=part) if isinstance(part, str) else part for part in parts if part != "")
    calls = any(isinstance(block, ToolCall) for block in blocks)
    return ModelReply(content=blocks, stop_reason="tool_use" if calls else "end_turn", model=model)


async def play(reply: ModelReply) -> AsyncGenerator[ReplyEvent]:
    """The events of a stream that ends in ``reply``: its prose word by word, then itself."""
    for block in reply.content:
        if isinstance(block, TextBlock):
            for word in words(block.text):
                await checkpoint()
                yield TextDelta(word)
    await checkpoint()
    yield reply


class FunctionProvider:
    """Answers with what ``fn`` returns for the request: text, tool calls, a reply, or an error to raise.

    ``fn`` may be async; a sync one is called in the event loop and must not block. What it raises propagates unchanged.
    """

    def __init__(self, fn: AnswerFunction, *, name: str = "function", default_model: str = "function") -> None:
        self.name = name
        self.default_model = default_model
        self._fn = fn

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
        """Ask the function, and yield its answer word by word."""
        answer = self._fn(request)
        if inspect.isawaitable(answer):
            answer = await answer
        async with aclosing(play(reply_of(answer, request.model))) as events:
            yield events


class ScriptedProvider:
    """Answers with the turns of a script, in order; ``requests`` holds every request it got.

    :param turns: one list for whoever asks, or a list for each agent by the request's ``agent``. A turn may also be a
        function of the request, sync or async: one that waits for an event holds the answer back until a test is ready.
    """

    def __init__(
        self,
        turns: Sequence[Turn] | Mapping[str, Sequence[Turn]],
        *,
        name: str = "scripted",
        default_model: str = "scripted",
    ) -> None:
        self.name = name
        self.default_model = default_model
        self.requests: list[ModelRequest] = []
        self._shared = None if isinstance(turns, Mapping) else tuple(turns)
        self._by_agent = {agent: tuple(own) for agent, own in turns.items()} if isinstance(turns, Mapping) else {}
        self._used: dict[str, int] = {}

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ReplyEvent]]:
        """Take the next turn, and yield it word by word.

        :raises ScriptExhaustedError: when no turn is left for this agent.
        :raises Exception: whatever error the script holds for this turn.
        """
        self.requests.append(request)
        turn = self._next(request.agent)
        provider = FunctionProvider(turn if callable(turn) else lambda _: turn)
        async with provider.stream(request) as events:
            yield events

    def _next(self, agent: str) -> Turn:
        turns = self._by_agent.get(agent, ()) if self._shared is None else self._shared
        key = agent if self._shared is None else ""
        used = self._used.get(key, 0)
        if used >= len(turns):
            raise ScriptExhaustedError(agent, len(turns))
        self._used[key] = used + 1
        return turns[used]


if TYPE_CHECKING:

    def _are_providers(scripted: ScriptedProvider, function: FunctionProvider) -> tuple[Provider, ...]:
        return scripted, function
