"""One state of a mailbox file: its messages, their ids, which are read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...mail import Message
from .dialect import Dialect
from .document import Document, append, mark_read, parse


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a file said when it was read. ``ids`` are those of its entries, empty for one that is no message."""

    dialect: Dialect
    document: Document
    ids: tuple[str, ...]
    faults: Mapping[int, str]
    """Positions of entries that are no messages, and why."""
    equals: Counter[str] = field(repr=False)
    """The ids given out, and how many entries have each, but for the number that tells them apart."""

    @classmethod
    def of(cls, data: bytes, dialect: Dialect) -> Snapshot:
        """What the bytes of a file say."""
        return cls._of(parse(data, dialect.key), dialect)

    @classmethod
    def _of(cls, document: Document, dialect: Dialect) -> Snapshot:
        ids: list[str] = []
        faults: dict[int, str] = {}
        equals: Counter[str] = Counter()
        for position, entry in enumerate(document.entries):
            if why := dialect.check(entry.value):
                faults[position] = why
                ids.append("")
            else:
                ids.append(_count(equals, seen_id(dialect, entry.value)))
        return cls(dialect, document, tuple(ids), faults, equals)

    @property
    def fault(self) -> str:
        """Why the other program cannot read this file; empty if it can."""
        return self.document.fault

    def is_read(self, position: int) -> bool:
        """Whether the entry at a position is marked as read; only ``true`` is a mark."""
        return self.document.entries[position].value.get("read") is True

    def with_entry(self, entry: dict[str, Any]) -> Snapshot:
        """The state with one more entry."""
        equals = self.equals.copy()
        new = _count(equals, seen_id(self.dialect, entry))
        document = append(self.document, entry, nested=self.dialect.key is not None)
        return Snapshot(self.dialect, document, (*self.ids, new), self.faults, equals)

    def with_marks(self, positions: Iterable[int]) -> Snapshot:
        """The state with some entries marked as read."""
        return self._of(mark_read(self.document, positions, self.dialect.key), self.dialect)

    def copies(self, message: Message, entry: dict[str, Any]) -> list[int]:
        """Where this very message stands: by the id of ours, or by what it says where such ids are dropped."""
        derived = "" if self.dialect.keeps_ids else self.dialect.derived_id(entry)
        found = []
        for position, candidate in self._messages():
            own = self.dialect.own_ids(candidate)
            if message.id in own or (not own and derived and self.ids[position].partition("#")[0] == derived):
                found.append(position)
        return found

    def named(self, message_id: str) -> list[int]:
        """Where messages of this id stand: the id that readers see, or one of ours."""
        return [
            position
            for position, candidate in self._messages()
            if self.ids[position] == message_id or message_id in self.dialect.own_ids(candidate)
        ]

    def _messages(self) -> Iterable[tuple[int, dict[str, Any]]]:
        return (
            (position, entry.value)
            for position, entry in enumerate(self.document.entries)
            if position not in self.faults
        )


def seen_id(dialect: Dialect, value: dict[str, Any]) -> str:
    """The id by which readers know an entry, but for the number that tells equal ones apart."""
    own = dialect.own_ids(value) if dialect.keeps_ids else ()
    return own[0] if own else dialect.derived_id(value)


def _count(equals: Counter[str], text: str) -> str:
    """The id itself the first time, then with a number; never one that was given out before."""
    equals[text] += 1
    if equals[text] == 1:
        return text
    # What others write may look like one of ours with its number, or be the same for as long as we take of it.
    while equals[numbered := f"{text[:180]}#{equals[text]}"]:
        equals[text] += 1
    equals[numbered] = 1
    return numbered
