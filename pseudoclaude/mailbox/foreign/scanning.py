"""JSON with places: where in a text each value begins and ends. Pure.

A file of another program is changed by splicing its text, so one has to know where its values stand, and to leave
alone what one does not understand, however deep it is nested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CLOSING = {"{": "}", "[": "]"}
_MOST_DIGITS = 4_000
"""Python converts no integer much longer than this."""


class JsonFault(ValueError):
    """Raised where a text is not JSON; the text of the exception says what was expected and where."""

    def __init__(self, expected: str, at: int) -> None:
        super().__init__(f"{expected} expected at character {at}")
        self.at = at


class TooDeep:
    """Stands for a value that is nested too deeply to be built; its text is well-formed."""


TOO_DEEP: Final = TooDeep()


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: its name, and where the name begins and the value begins and ends."""

    name: str
    at: int
    start: int
    end: int


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON value")


def _long_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


_decoder = json.JSONDecoder(parse_constant=_refuse)
_patient_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=_long_integer)


def space(text: str, at: int) -> int:
    """The place behind the white space that begins at a place."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at a place, and where it ends; :data:`TOO_DEEP` if it is nested too deeply to be built.

    :raises JsonFault: when there is none.
    """
    try:
        try:
            return _decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise JsonFault(error.msg.lower(), error.pos) from error
        except ValueError:
            return _patient_decoder.raw_decode(text, at)
    except RecursionError:
        return TOO_DEEP, skip(text, at)
    except JsonFault:
        raise
    except ValueError as error:
        raise JsonFault("a JSON value", at) from error


def skip(text: str, at: int) -> int:
    """Where the value that begins at a place ends; it may be nested to any depth.

    :raises JsonFault: when there is none.
    """
    closing: list[str] = []
    while True:
        at = space(text, at)
        mark = text[at : at + 1]
        if mark in _CLOSING and mark:
            inside = space(text, at + 1)
            if text[inside : inside + 1] != _CLOSING[mark]:
                closing.append(_CLOSING[mark])
                at = _behind_name(text, inside) if mark == "{" else inside
                continue
            at = inside + 1
        else:
            match = _STRING.match(text, at) or _ATOM.match(text, at)
            if match is None:
                raise JsonFault("a JSON value", at)
            at = match.end()
        while closing:
            at = space(text, at)
            mark = text[at : at + 1]
            if mark == ",":
                at += 1
                if closing[-1] == "}":
                    at = _behind_name(text, at)
                break
            if mark != closing[-1]:
                raise JsonFault(f"',' or {closing[-1]!r}", at)
            closing.pop()
            at += 1
        else:
            return at


def _behind_name(text: str, at: int) -> int:
    match = _STRING.match(text, space(text, at))
    if match is None:
        raise JsonFault("a name in quotes", at)
    at = space(text, match.end())
    if text[at : at + 1] != ":":
        raise JsonFault("':'", at)
    return at + 1


def members(text: str, at: int) -> Iterator[Member]:
    """The members of the object that begins at a place, in order, one name perhaps more than once.

    :raises JsonFault: where it stops being an object.
    """
    at = space(text, at + 1)
    if text[at : at + 1] == "}":
        return
    while True:
        at = space(text, at)
        if text[at : at + 1] != '"':
            raise JsonFault("a name in quotes", at)
        name = value(text, at)[0]
        start = space(text, _behind_name(text, at))
        end = value(text, start)[1]
        yield Member(name, at, start, end)
        at = space(text, end)
        if text[at : at + 1] == "}":
            return
        if text[at : at + 1] != ",":
            raise JsonFault("',' or '}'", at)
        at += 1
