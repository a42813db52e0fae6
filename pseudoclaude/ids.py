"""Names and ids: validated when they are made, so that everything below may build paths from them.

One rule for all of them: letters, digits and marks of any script, with ``-``, ``_`` and ``.`` between; the first
character a letter or a digit; NFC; no ending that a lock or a data file has; no name that a system reserves for a
device. That rules out separators, ``.`` and ``..``, control characters, colons and quotes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from .errors import InvalidNameError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

RESERVED_AGENT_NAMES = frozenset(
    {"lead", "team-lead", "user", "human", "runtime", "system", "all", "broadcast", "everyone", "none"}
)
"""Names that the runtime gives a meaning; no member can take one, in any case."""

_DEVICES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)})
_ENDINGS = (".lock", ".json", ".jsonl", ".tmp", ".")
_LONGEST_NAME = 200
"""Bytes of UTF-8; file systems take 255, and lock and temporary files add to a name."""


class _Name(str):
    """A string that passed its rule. Comparing and hashing are those of ``str``; :meth:`key` ignores case."""

    __slots__ = ()
    kind: ClassVar[str] = "name"
    longest: ClassVar[int] = 64

    def __new__(cls, value: str) -> Self:
        if isinstance(value, cls):
            return value
        known: Self = _checked(cls, value)
        return known

    @classmethod
    def _checked(cls, value: str) -> Self:
        text = unicodedata.normalize("NFC", value)
        if why := cls._refusal(text):
            raise InvalidNameError(cls.kind, value, why)
        return super().__new__(cls, text)

    @classmethod
    def _refusal(cls, text: str) -> str:
        """Why this text cannot be such a name; empty if it can."""
        if not text:
            return "it is empty"
        if len(text) > cls.longest or len(text.encode("utf-8", "replace")) > _LONGEST_NAME:
            return f"it is longer than {cls.longest} characters or {_LONGEST_NAME} bytes"
        if bad := next((c for c in text if c not in "-_." and unicodedata.category(c)[0] not in "LMN"), None):
            return f"{bad!r} is not a letter, a digit, '-', '_' or '.'"
        if unicodedata.category(text[0])[0] not in "LN":
            return "it does not start with a letter or a digit"
        folded = text.casefold()
        if folded.endswith(_ENDINGS):
            return f"it ends in {next(e for e in _ENDINGS if folded.endswith(e))!r}"
        if folded.split(".")[0] in _DEVICES:
            return "that name belongs to a device"
        return ""

    def key(self) -> str:
        """What two names share when they must count as one: the same letters in any case."""
        return unicodedata.normalize("NFC", self.casefold())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # ids must stay importable without pydantic

        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema()
        )


_NameType = TypeVar("_NameType", bound=_Name)


@lru_cache(maxsize=4096)
def _checked(cls: type[_NameType], value: str) -> _NameType:
    """The few names of a team are checked once each, not with every message that carries them."""
    return cls._checked(value)


class TeamName(_Name):
    """The name of a team, and of its folder."""

    __slots__ = ()
    kind = "team name"

    @classmethod
    def from_folder(cls, name: str) -> TeamName:
        """The nearest legal team name to that of a folder: ``My Project!`` becomes ``my-project``."""
        text = unicodedata.normalize("NFC", name).casefold()
        text = "".join(c if c in "-_" or unicodedata.category(c)[0] in "LMN" else "-" for c in text)
        text = re.sub("-+", "-", text).strip("-_")
        while text and unicodedata.category(text[0])[0] == "M":
            text = text[1:]
        text = text.encode()[:120].decode(errors="ignore")[:48].rstrip("-_")
        try:
            return cls(text)
        except InvalidNameError:
            return cls(f"team-{text}" if text.isalnum() else "team")


class AgentName(_Name):
    """The name of a member: unique in its team, in any case, and none of the reserved ones."""

    __slots__ = ()
    kind = "member name"

    @classmethod
    def _refusal(cls, text: str) -> str:
        if why := super()._refusal(text):
            return why
        return "that name is reserved" if text.casefold() in RESERVED_AGENT_NAMES else ""


class AgentId(_Name):
    """The address of a mailbox and the name of a transcript; unique for ever."""

    __slots__ = ()
    kind = "agent id"
    longest = 128

    @classmethod
    def new(cls, name: str) -> AgentId:
        """A fresh id, ``<ascii slug of the name>-<ulid>``; ids of one name sort by age."""
        from ulid import ULID  # only makers of ids pay for the import

        ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        slug = re.sub("[^a-z0-9]+", "-", ascii_name).strip("-")[:32].strip("-") or "agent"
        return cls(f"{slug}-{str(ULID()).lower()}")


USER = AgentId("user")
"""The person's mailbox, in every team."""

RUNTIME = AgentId("runtime")
"""The mailbox of whichever process leads the team: commands of other processes arrive there."""


class MessageId(str):
    """The id of a message: printable, at most 200 characters, never part of a path."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if isinstance(value, cls):
            return value
        if not value or len(value) > 200 or not value.isprintable():
            raise InvalidNameError("message id", value, "it is empty, longer than 200 characters or not printable")
        return super().__new__(cls, value)

    @classmethod
    def new(cls) -> MessageId:
        """A fresh id; ids sort by the time they were made."""
        from ulid import ULID  # only makers of ids pay for the import

        return cls(str(ULID()).lower())

    @classmethod
    def derived(cls, *parts: str | int) -> MessageId:
        """The id that the same parts always give, so that whoever repeats an interrupted act finds what it did.

        A message sent by a tool derives its id from the agent, the place of the assistant record in its transcript
        and the position of the call in that record.
        """
        digest = hashlib.sha256("\0".join(str(part) for part in parts).encode("utf-8", "replace")).digest()
        return cls("d" + base64.b32encode(digest[:15]).decode().lower())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # ids must stay importable without pydantic

        return core_schema.no_info_after_validator_function(
            cls, core_schema.str_schema(), serialization=core_schema.to_string_ser_schema()
        )
