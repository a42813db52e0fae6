"""Working step by step without a memory: what a step gave is looked up in the conversation, or asked for now."""

from __future__ import annotations

import re
from typing import Any

from ...chat import TextBlock, ToolCall
from .reading import Attempt, History, Mail, page, slice_of, undo

PAGE = 5_000
"""Lines asked for at once."""
TRIES = 2
"""How often a step is tried when nobody knows what became of it."""
_PIECE = 16_000
_MOST_PIECES = 200

Reply = list[str | TextBlock | ToolCall]
"""What a provider may answer with."""


class Desk:
    """The conversation so far, the tool calls that its next turn makes, and what could not be done.

    A method that gives None has either put calls on the list :attr:`calls`, and is asked again when they are
    answered, or has written into :attr:`troubles` why it never will give anything.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.calls: list[ToolCall] = []
        self.troubles: list[str] = []

    def reply(self, text: str) -> Reply:
        """The turn: this text, then the calls on the list."""
        return [text, *self.calls]

    def use(self, tool: str, *, missing: str = "", **input: Any) -> str | None:
        """The result of a step. An interrupted one is repeated once, an error is final.

        :param missing: what is not done when this fails, for :attr:`troubles`.
        """
        attempts = self.history.attempts(tool, input)
        last = attempts[-1] if attempts else None
        if last is not None and not last.is_error:
            return last.text
        if last is None or (last.interrupted and len(attempts) < TRIES):
            self.ask(tool, **input)
        else:
            self.troubles.append(f"{missing or tool}: {_short(last.text)}")
        return None

    def ask(self, tool: str, **input: Any) -> None:
        """Put a call on the list."""
        number = self.history.calls + len(self.calls) + 1
        self.calls.append(ToolCall(id=f"call_{number:04}", name=tool, input=input))

    def last(self, tool: str, **input: Any) -> Attempt | None:
        """The newest try of a step, if there is one."""
        attempts = self.history.attempts(tool, input)
        return attempts[-1] if attempts else None

    def pages(self, tool: str, *, missing: str = "", **input: Any) -> tuple[str, ...]:
        """All pages of a long answer; when one cannot be had, those before it."""
        pages: list[str] = []
        offset: int | None = 0
        while offset is not None:
            where = {"offset": offset} if offset else {}
            text = self.use(tool, missing=missing, **input, limit=PAGE, **where)
            if text is None:
                break
            body, following = page(text)
            pages.append(body)
            offset = following if following is None or following > offset else None
        return tuple(pages)

    def whole(self, mail: Mail, *, missing: str = "") -> str | None:
        """The content of a message, with the parts that its reminder left out."""
        if not mail.shortened:
            return mail.content
        first = self._slice(mail, 0, missing)
        if first is None:
            return None
        text, length = first
        offsets = range(len(text), length, _PIECE) if text else range(0)
        if len(offsets) > _MOST_PIECES:
            self.troubles.append(f"{missing}: the message has {length:,} characters")
            return None
        pieces = [self._slice(mail, offset, missing) for offset in offsets]
        if any(piece is None for piece in pieces):
            return None
        return text + "".join(piece[0] for piece in pieces if piece)

    def _slice(self, mail: Mail, offset: int, missing: str) -> tuple[str, int] | None:
        result = self.use("ReadMessage", missing=missing, id=mail.id, offset=offset, limit=_PIECE)
        return None if result is None else slice_of(result)

    def create_task(self, subject: str, **input: Any) -> str | None:
        """The id of a task. Before an interrupted creation is repeated, the board is asked whether it succeeded."""
        attempt = self.last("TaskCreate", subject=subject, **input)
        if attempt is not None and attempt.interrupted:
            looks = self.history.uses("TaskList", after=attempt.place)
            if not looks or (looks[-1].interrupted and len(looks) < TRIES):
                if not any(call.name == "TaskList" for call in self.calls):
                    self.ask("TaskList")
                return None
            for line in undo(looks[-1].text).split("\n"):
                if not looks[-1].is_error and f"] {subject}" in line:
                    return _task_id(line)
        result = self.use("TaskCreate", missing=f'the task "{subject}" is not on the board', subject=subject, **input)
        return None if result is None else _task_id(result)

    def move_task(self, task: str | None, status: str) -> None:
        """Set the status of a task, if there is one. A refusal is tried once more: what blocks it may just end."""
        if not task:
            return
        input = {"task_id": task, "status": status}
        attempts = self.history.attempts("TaskUpdate", input)
        if len(attempts) < TRIES and (not attempts or attempts[-1].is_error):
            self.ask("TaskUpdate", **input)
        else:
            self.use("TaskUpdate", missing=f"task {task} is not {status} on the board", **input)


def _task_id(text: str) -> str | None:
    found = re.search(r"\bt\d+\b", text)
    return found[0] if found else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."
