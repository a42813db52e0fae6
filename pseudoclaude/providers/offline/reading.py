"""What a stand-in reads from a request: who it is, its mail, and what became of its tool calls. Pure."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...chat import ModelRequest, TextBlock, ToolCall, ToolResult

_NAME = re.compile(r"You are called: (\S+?)\.(?=\s|$)")
_BLOCK = re.compile(r"<incoming-messages>\n(.*?)\n</incoming-messages>", re.DOTALL)
_MESSAGE = re.compile(
    r'<message id="([^"\n]*)" from="([^"\n]*)" to="[^"\n]*" type="([^"\n]*)" age="[^"\n]*">\n'
    r"summary: ([^\n]*)\n(.*?)</message>",
    re.DOTALL,
)
_LEFT_OUT = re.compile(r"^\[[\d,]+ characters left out here; read them with ReadMessage\(", re.MULTILINE)
_PAGE_END = re.compile(r"\.\.\. [\d,]+ more; go on with offset=(\d+)")
_CHARACTERS = re.compile(r"characters ([\d,]+) to ([\d,]+) of ([\d,]+)\n")


@dataclass(frozen=True, slots=True)
class Mail:
    """A message as a reminder showed it. ``place`` is where in the conversation that was."""

    id: str
    sender: str
    type: str
    summary: str
    content: str
    place: int

    @property
    def shortened(self) -> bool:
        """Whether only its head and tail were shown."""
        return _LEFT_OUT.search(self.content) is not None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One tool call that was answered, and where in the conversation it was made."""

    text: str
    is_error: bool
    place: int

    @property
    def interrupted(self) -> bool:
        """Whether nobody knows what it did."""
        return self.is_error and self.text.lstrip().startswith("interrupted")


class History:
    """A conversation, looked through once."""

    def __init__(self, request: ModelRequest) -> None:
        found = _NAME.search(request.system)
        self.name = found[1] if found else ""
        """What the asking agent is called; empty when its system prompt does not say."""
        self.calls = 0
        self.said: list[str] = []
        """What it was told outside of mail."""
        self.mail: list[Mail] = []
        """Its mail in the order it was shown, each message once."""
        self._attempts: dict[str, list[Attempt]] = defaultdict(list)
        self._by_tool: dict[str, list[Attempt]] = defaultdict(list)
        asked: dict[str, tuple[ToolCall, int]] = {}
        known: set[str] = set()
        for place, message in enumerate(request.messages):
            for block in message.content:
                if isinstance(block, ToolCall):
                    self.calls += 1
                    asked[block.id] = (block, place)
                elif isinstance(block, ToolResult) and block.tool_use_id in asked:
                    call, made = asked.pop(block.tool_use_id)
                    attempt = Attempt(block.text, block.is_error, made)
                    self._attempts[_key(call.name, call.input)].append(attempt)
                    self._by_tool[call.name].append(attempt)
                elif isinstance(block, TextBlock) and message.role == "user":
                    self.said.append(_BLOCK.sub("", block.text))
                    for mail in _mail_in(block.text, place):
                        if mail.id not in known:
                            known.add(mail.id)
                            self.mail.append(mail)

    def attempts(self, tool: str, input: Mapping[str, Any]) -> list[Attempt]:
        """The tries of exactly this call, oldest first."""
        return self._attempts.get(_key(tool, input), [])

    def uses(self, tool: str, *, after: int) -> list[Attempt]:
        """All calls of a tool that were made behind a place of the conversation."""
        return [attempt for attempt in self._by_tool.get(tool, ()) if attempt.place > after]


def page(text: str) -> tuple[str, int | None]:
    """A page of an answer without its last line that says where to go on, and that offset; None on the last page."""
    body, _, last = text.rstrip("\n").rpartition("\n")
    end = _PAGE_END.match(last)
    return (body, int(end[1])) if end else (text, None)


def slice_of(text: str) -> tuple[str, int] | None:
    """What ``ReadMessage`` gave: a piece of the content, and how many characters the whole has."""
    head = _CHARACTERS.match(text)
    return (undo(text[head.end() :]), int(head[3].replace(",", ""))) if head else None


def undo(text: str) -> str:
    """The text of a message before it was made harmless for a reminder."""
    return text.replace("&lt;", "<")


@lru_cache(maxsize=64)
def listing(pages: tuple[str, ...]) -> dict[str, int]:
    """The files that ``Glob`` with sizes listed, each with its bytes. Not to be changed."""
    files: dict[str, int] = {}
    for line in _lines(pages):
        size, tab, path = line.partition("\t")
        if tab and size.isdecimal():
            files[path] = int(size)
    return files


@lru_cache(maxsize=64)
def counts(pages: tuple[str, ...]) -> dict[str, int]:
    """The files that ``Grep`` counted, each with its number. Not to be changed."""
    found: dict[str, int] = {}
    for line in _lines(pages):
        path, colon, number = line.rpartition(":")
        if colon and number.isdecimal():
            found[path] = int(number)
    return found


def names(pages: Iterable[str]) -> list[str]:
    """The files that ``Glob`` without sizes listed."""
    return [line for line in _lines(pages) if line and line != "(no files)"]


def places(pages: Iterable[str], known: Mapping[str, int]) -> list[tuple[str, int, str]]:
    """The matches that ``Grep`` showed in the known files: path, line and text. A path may hold colons itself."""
    found: list[tuple[str, int, str]] = []
    for line in _lines(pages):
        best: tuple[str, int, str] | None = None
        for mark in re.finditer(r":(\d+)(?=:)", line):
            if line[: mark.start()] in known:
                best = (line[: mark.start()], int(mark[1]), line[mark.end() + 1 :])
        if best:
            found.append(best)
    return found


def _lines(pages: Iterable[str]) -> Iterable[str]:
    return (line for text in pages for line in text.split("\n"))


def _key(tool: str, input: Mapping[str, Any]) -> str:
    return f"{tool} {json.dumps(input, sort_keys=True)}"


def _mail_in(text: str, place: int) -> Iterable[Mail]:
    for block in _BLOCK.finditer(text):
        for found in _MESSAGE.finditer(block[1] + "\n"):
            id, sender, type, summary, content = (undo(part) for part in found.groups())
            yield Mail(id, sender, type, summary, content.removesuffix("\n"), place)
