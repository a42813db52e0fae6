"""Letters between lead and members other than reports: a member's task, a question about a file, its answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .escaping import escape, unescape
from .parts import Part

_PART = "Your part of the folder, by paths from the workspace:"
_TASK = "Your task on the board: "
_PATTERN = re.compile(rf"^{re.escape(_PART)}\n((?:- .+(?:\n|$))+)", re.MULTILINE)
_TASK_LINE = re.compile(rf"^{re.escape(_TASK)}(t\d+)$", re.MULTILINE)
_QUESTION = re.compile(r"[Ww]hat is (.+?) about\?")
_ABOUT = "About "


@dataclass(frozen=True, slots=True)
class Briefing:
    """A member's task: the items of its part, and its task on the board, if there is one."""

    items: tuple[str, ...]
    task: str = ""


def write_briefing(part: Part, task: str | None) -> str:
    """The prompt of a member. It says everything, for a member that knows nothing else."""
    return "\n".join(
        [
            "You survey one part of a folder, and report to lead.",
            "",
            _PART,
            *(f"- {escape(item)}" for item in part.items),
            "",
            *([f"{_TASK}{task}", ""] if task else []),
            "Find out, with Glob and Grep on the real files; files that git ignores and binary files do not count:",
            "- files and lines by extension;",
            "- the ten biggest text files in bytes, and the one with the most lines;",
            r"- every line that matches \b(TODO|FIXME)\b, with its path and line number;",
            "- the source files for which the whole folder has no test by name.",
            "",
            "Set your task to in_progress when you begin and to done when you are finished. Report once, with "
            "SendMessage to lead, complete, and say what could not be done. Then end your turn; questions about single "
            "files may follow by mail, and are answered by mail.",
        ]
    )


def read_briefing(texts: Iterable[str]) -> Briefing | None:
    """The first task in these texts; None when there is none."""
    for text in texts:
        if found := _PATTERN.search(text):
            items = tuple(unescape(line[2:]) for line in found[1].rstrip("\n").split("\n"))
            task = _TASK_LINE.search(text)
            return Briefing(items, task[1] if task else "")
    return None


def write_question(path: str) -> str:
    """The question what a file is about."""
    return f"What is {escape(path)} about? Quote its first lines."


def read_question(text: str) -> str | None:
    """The file that a text asks about."""
    found = _QUESTION.search(text)
    return unescape(found[1].strip("`'\"")) if found else None


def write_answer(path: str, lines: Iterable[str]) -> str:
    """What a member found out about a file."""
    return "\n".join([f"{_ABOUT}{escape(path)}", *(escape(line.expandtabs(4), ends=False) for line in lines)])


def read_answer(text: str, path: str) -> list[str] | None:
    """The lines of an answer about this file; None when the text is something else."""
    first, _, rest = text.partition("\n")
    return [unescape(line) for line in rest.split("\n")] if first == f"{_ABOUT}{escape(path)}" else None
