"""The text of a mailbox file and the entries in it; changed by splicing. Pure.

What is not changed stays byte for byte: unknown keys and their order, forms of numbers, escapes, indentation, and
bytes that are no UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .scanning import JsonFault, members, space, value

_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Entry:
    """One element of the list: its value, and where its text begins and ends."""

    value: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A mailbox file. With a ``fault`` its owner cannot read it, and ``entries`` are those before the fault."""

    text: str
    entries: tuple[Entry, ...] = ()
    start: int = 0
    """Where the list begins, or the ``null`` that stands for it."""
    end: int = 0
    fault: str = ""

    def encode(self) -> bytes:
        """The bytes of the file."""
        return self.text.encode("utf-8", "surrogateescape")

    def raw(self, entry: Entry) -> str:
        """The text of an entry, as it stands in the file."""
        return self.text[entry.start : entry.end]


def parse(data: bytes, key: str | None) -> Document:
    """The document in the bytes of a file.

    :param key: the name under which an object holds the list; None when the file is the list.
    """
    text = data.decode("utf-8", "surrogateescape")
    entries: list[Entry] = []
    first = 1 if text[:1] == "\ufeff" else 0
    fault = "it begins with a byte order mark, which its owner cannot read" if first else ""
    span = (0, 0)
    try:
        at = space(text, first)
        if key is None:
            span = (at, _list(text, at, entries))
            at = span[1]
        else:
            span, at = _object(text, at, key, entries)
        if (rest := space(text, at)) != len(text):
            raise JsonFault("the end", rest)
    except JsonFault as error:
        fault = f"{_nature(data)}: {error}"
    return Document(text, tuple(entries), *span, fault)


def _list(text: str, at: int, entries: list[Entry]) -> int:
    """Where the list ends; its elements go into ``entries`` as they are met."""
    if text[at : at + 1] != "[":
        raise JsonFault("a list of messages", at)
    at = space(text, at + 1)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        start = space(text, at)
        found, at = value(text, start)
        entries.append(Entry(found, start, at))
        at = space(text, at)
        if text[at : at + 1] == "]":
            return at + 1
        if text[at : at + 1] != ",":
            raise JsonFault("',' or ']'", at)
        at += 1


def _object(text: str, at: int, key: str, entries: list[Entry]) -> tuple[tuple[int, int], int]:
    """Where the list under a name begins and ends, and where the object around it ends. ``null`` is an empty list."""
    span: tuple[int, int] | None = None
    if text[at : at + 1] != "{":
        raise JsonFault(f"an object with {key!r}", at)
    at = space(text, at + 1)
    if text[at : at + 1] == "}":
        raise JsonFault(f"{key!r}", at)
    while True:
        name, at = value(text, space(text, at)) if text[space(text, at) :][:1] == '"' else (None, at)
        at = space(text, at)
        if not isinstance(name, str) or text[at : at + 1] != ":":
            raise JsonFault("a name in quotes and ':'", at)
        start = space(text, at + 1)
        if name != key:
            at = value(text, start)[1]
        else:
            entries.clear()
            at = start + 4 if text.startswith("null", start) else _list(text, start, entries)
            span = (start, at)
        at = space(text, at)
        mark, at = text[at : at + 1], at + 1
        if mark == "}" and span is not None:
            return span, at
        if mark != ",":
            raise JsonFault(f"{key!r}" if mark == "}" else "',' or '}'", at - 1)


def _nature(data: bytes) -> str:
    if not data:
        return "it is empty"
    if not data.strip(b"\0"):
        return "it holds nothing but zero bytes"
    return "it is not what its owner writes"


def _render(entry: dict[str, Any], before: str) -> str:
    """The text of an entry that follows this white space: indented where it starts on a line of its own."""
    if "\n" not in before:
        return json.dumps(entry, ensure_ascii=False, allow_nan=False)
    text = json.dumps(entry, ensure_ascii=False, allow_nan=False, indent=2)
    return text.replace("\n", "\n" + before.rpartition("\n")[2])


def append(document: Document, entry: dict[str, Any], *, nested: bool) -> Document:
    """The document with one more entry at its end, in the layout of the one before it.

    :param nested: whether the list stands inside an object, which decides how deep a first entry is indented.
    """
    text = document.text
    if document.entries:
        last = document.entries[-1]
        before = text[text.rindex("," if len(document.entries) > 1 else "[", 0, last.start) + 1 : last.start]
        rendered = _render(entry, before)
        at = last.end
        opening, closing, resume = "," + before, "", last.end
        shift = len(opening) + len(rendered)
        end = document.end + shift
    else:
        outer = "\n" + (_INDENT if nested else "")
        rendered = _render(entry, outer + _INDENT)
        at, opening, closing, resume = document.start, "[" + outer + _INDENT, outer + "]", document.end
        end = at + len(opening) + len(rendered) + len(closing)
    start = at + len(opening)
    new = Entry(entry, start, start + len(rendered))
    changed = text[:at] + opening + rendered + closing + text[resume:]
    return Document(changed, (*document.entries, new), document.start, end)


def mark_read(document: Document, positions: Iterable[int], key: str | None) -> Document:
    """The document with ``"read": true`` in the entries at these positions, and nothing else changed."""
    text = document.text
    for position in sorted(set(positions), reverse=True):
        entry = document.entries[position]
        found = list(members(text, entry.start))
        if present := [member for member in found if member.name == "read"]:
            # Of two members with one name, readers take the last.
            text = text[: present[-1].start] + "true" + text[present[-1].end :]
        elif found:
            last = found[-1]
            before = text[found[-2].end if len(found) > 1 else entry.start + 1 : last.at].rpartition(",")[2]
            colon = ": " if text[last.at : last.start].endswith(" ") else ":"
            text = text[: last.end] + f',{before}"read"{colon}true' + text[last.end :]
        else:
            text = text[: entry.start] + '{"read": true}' + text[entry.end :]
    return parse(text.encode("utf-8", "surrogateescape"), key)
