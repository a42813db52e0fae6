"""The offline stand-in: rules that survey a folder with a team, so that everything can be tried without a key.

It has no memory. Each answer follows from the request alone: the system prompt says who asks, and what has been done is
read from the conversation. So a conversation can go on in another process, and the rules can answer behind a server.

``lead`` and ``member`` hold the rules; ``desk`` looks up or asks for the next step; ``reading`` takes requests apart;
``briefing`` and ``report`` are the letters; ``parts`` divides folders, ``languages`` knows files by their names,
``escaping`` keeps odd names whole, and ``summary`` is what the person reads at the end.
"""

from __future__ import annotations

from ...chat import ModelRequest
from ..scripted import FunctionProvider
from . import lead, member
from .desk import Desk, Reply
from .reading import History

__all__ = ["OfflineProvider", "answer"]


def answer(request: ModelRequest) -> Reply:
    """What the rules say to a request. Pure: the same request always gets the same answer."""
    history = History(request)
    desk = Desk(history)
    if not history.name:
        return ["The offline rules answer only agents of a team, whose system prompt says what they are called."]
    return lead.answer(desk) if history.name == "lead" else member.answer(desk)


class OfflineProvider(FunctionProvider):
    """Answers by :func:`answer`, without a model, a key or a network."""

    def __init__(self) -> None:
        super().__init__(answer, name="offline", default_model="offline-rules")
