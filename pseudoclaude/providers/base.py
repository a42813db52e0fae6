"""The seam between the runner and whatever answers a model request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..chat import ModelReply, ModelRequest
from ..errors import ProviderError


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the text that the model is writing."""

    text: str


ReplyEvent = TextDelta | ModelReply
"""What a stream yields: any number of deltas, then the whole reply, once and last."""


class Provider(Protocol):
    """Answers model requests. One object serves all agents of a process, many requests at once.

    ``name`` identifies it in a team's settings; ``default_model`` is used where no model is asked for.
    """

    name: str
    default_model: str

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ReplyEvent]]:
        """Ask, and yield the answer as it comes; the last item is the :class:`~pseudoclaude.chat.ModelReply`.

        Leaving the ``async with`` block early, or being cancelled in it, ends the request. A stream that ends
        without a reply has failed. Must not block the event loop.

        :raises ProviderError: from entering or iterating, for every failure; nothing else.
        """
        ...


@runtime_checkable
class Closeable(Protocol):
    """A provider that holds connections; whoever made it closes it, on the event loop that used it."""

    async def aclose(self) -> None:
        """Give the connections up."""
        ...


async def complete(
    provider: Provider, request: ModelRequest, on_delta: Callable[[TextDelta], None] | None = None
) -> ModelReply:
    """Ask, pass the deltas on, and return the whole reply.

    :raises ProviderError: when the provider does, or when its stream ended without a reply.
    """
    reply: ModelReply | None = None
    async with provider.stream(request) as events:
        async for event in events:
            if isinstance(event, ModelReply):
                reply = event
            elif on_delta is not None:
                on_delta(event)
    if reply is None:
        raise ProviderError("the answer ended before it was complete", passing=True)
    return reply
