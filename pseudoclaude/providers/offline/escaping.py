r"""Names and lines with characters that nobody sees: how they are shown, and how they survive a letter. Pure.

Such a character is written ``\u200b``, or ``\U000e0041`` where four digits are too few.
"""

from __future__ import annotations

import re

_UNSEEN = (
    "\\x00-\\x1f\\x7f-\\xa0\\xad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180b-\\u180f\\u2000-\\u200b\\u200e\\u200f"
    "\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff\\U000e0000-\\U000e0fff"
)
_INVISIBLE = re.compile(f"[{_UNSEEN}]")
# beside these: joiners, which a reminder keeps in some places only; what it writes for "<"; what looks like an escape
_UNSAFE = re.compile(rf"[{_UNSEEN}\u200c\u200d]|&(?=lt;)|\\(?=u[0-9a-f]{{4}}|U[0-9a-f]{{8}})")
_UNSAFE_ENDS = re.compile(rf"{_UNSAFE.pattern}|^ | $")
_ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8}))")
_LAST = 0x10FFFF


def show(text: str) -> str:
    """The text for people; what is invisible in it is written out."""
    return _INVISIBLE.sub(_code, text)


def escape(text: str, *, ends: bool = True) -> str:
    """The text for a letter, so that it comes through unchanged: see :func:`unescape`.

    :param ends: spaces at its ends matter.
    """
    return (_UNSAFE_ENDS if ends else _UNSAFE).sub(_code, text)


def unescape(text: str) -> str:
    """What :func:`escape` was given."""
    return _ESCAPED.sub(_character, text)


def _code(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _character(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code) if code <= _LAST else match[0]
