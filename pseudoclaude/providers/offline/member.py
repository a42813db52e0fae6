"""The rules of a member: survey its part with real tools, report by mail, answer questions about single files."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache

from . import languages
from .briefing import Briefing, read_briefing, read_question, write_answer
from .desk import Desk, Reply
from .escaping import show
from .parts import Part, Selection
from .reading import Mail, counts, listing, names, places
from .report import Report, count, one_line, write

MARKS = r"\b(TODO|FIXME)\b"
"""What counts as a TODO, as a regular expression."""
BIGGEST = 10
"""How many of the biggest files a report names."""

_LOOKED_AT = 30
_QUOTED = 8
_LONGEST_QUOTE = 140
_COMMENT = re.compile(r"^[\s#/*;%<>!\-\"'`=~{(\[]+|[\s*/\->\"'`=~})\]]+$")
_SAYS_NOTHING = re.compile(r"^(#!|.*-\*-|.*coding[:=]|<\?|<!doctype)|copyright|licen[sc]e|spdx", re.IGNORECASE)


def answer(desk: Desk) -> Reply:
    """A member's next turn."""
    briefing = read_briefing([*desk.history.said, *(mail.content for mail in desk.history.mail)])
    ending = "My part is surveyed and reported."
    if briefing is not None:
        desk.move_task(briefing.task, "in_progress")
        if desk.calls:
            return desk.reply("I begin with my part.")
        report = _survey(desk, briefing)
        if desk.calls:
            return desk.reply(f"I survey {report.part}.")
        # done comes before the report: who has all the reports can rely on the board
        desk.move_task(briefing.task, "done")
        sent = _send(desk, report)
        if desk.calls:
            return desk.reply(f"{report.files:,} files looked through; reporting to lead.")
        if not sent:
            ending = write(report)
    return _answer_mail(desk) or [ending if briefing else "I was given no part to survey, and have nothing to do."]


def _survey(desk: Desk, briefing: Briefing) -> Report:
    """What the tools found; it is whole when no call is on the list."""
    pages: dict[str, list[str]] = {"sizes": [], "lines": [], "marks": [], "tests": []}
    for root in Selection(briefing.items).roots():
        missing = f"{show(root)} was not looked through"
        pages["sizes"] += desk.pages("Glob", missing=missing, pattern="**/*", path=root, sizes=True)
        pages["lines"] += desk.pages("Grep", missing=missing, pattern="^", path=root, mode="count")
        pages["marks"] += desk.pages("Grep", missing=missing, pattern=MARKS, path=root, mode="content")
    for pattern in languages.TEST_GLOBS:
        pages["tests"] += desk.pages("Glob", missing="not all tests were found", pattern=pattern, path=".")
    if desk.calls:
        return Report(desk.history.name, Part(briefing.items, 0).describe(), files=0, text_files=0)
    found = _found(briefing.items, *(tuple(pages[kind]) for kind in ("sizes", "lines", "marks", "tests")))
    return replace(found, member=desk.history.name, troubles=tuple(desk.troubles))


@lru_cache(maxsize=16)
def _found(
    items: tuple[str, ...],
    size_pages: tuple[str, ...],
    line_pages: tuple[str, ...],
    mark_pages: tuple[str, ...],
    test_pages: tuple[str, ...],
) -> Report:
    """What answers of tools say about a part; kept, since each later turn needs it again."""
    selection = Selection(items)
    sizes = {path: size for path, size in listing(size_pages).items() if path in selection}
    lines = counts(line_pages)
    text = {path: lines.get(path, 0) for path, size in sizes.items() if path in lines or size == 0}
    files_by, lines_by = Counter[str](), Counter[str]()
    for path, number in text.items():
        files_by[languages.extension(path)] += 1
        lines_by[languages.extension(path)] += number
    biggest = sorted(text, key=lambda path: (-sizes[path], path))[:BIGGEST]
    longest = min(text, key=lambda path: (-text[path], path), default="")
    modules = sorted(path for path in text if languages.is_module(path, sizes[path]))
    return Report(
        member="",
        part=Part(items, len(sizes)).describe(),
        files=len(sizes),
        text_files=len(text),
        extensions=tuple((name, files_by[name], lines_by[name]) for name in sorted(files_by)),
        biggest=tuple((sizes[path], text[path], path) for path in biggest),
        longest=(text[longest], longest) if text.get(longest) else None,
        marks=tuple((path, number, one_line(said)) for path, number, said in places(mark_pages, text)),
        modules=len(modules),
        untested=tuple(languages.untested(modules, names(test_pages))),
    )


def _send(desk: Desk, report: Report) -> bool:
    """Report to the lead; whether that is done."""
    summary = (
        f"survey of {count(report.files, 'file')}: {len(report.marks):,} TODO or FIXME, "
        f"{count(len(report.untested), 'module')} without a test"
    )
    return desk.use("SendMessage", to="lead", summary=summary, content=write(report)) is not None


def _answer_mail(desk: Desk) -> Reply:
    """Answers to all letters that want one; nothing when they have been given."""
    for mail in desk.history.mail:
        if mail.type == "shutdown_request":
            _agree_to_end(desk, mail)
        elif mail.type == "text" and mail.sender in ("lead", "user"):
            _answer_letter(desk, mail)
    return desk.reply("Answering my mail.") if desk.calls else []


def _answer_letter(desk: Desk, mail: Mail) -> None:
    path = read_question(mail.content) or read_question(mail.summary)
    if path is None:
        if read_briefing([mail.content]) is None:
            _send_answer(desk, mail, "what I can answer", 'I follow offline rules. Ask me: "What is PATH about?"')
        return
    known = len(desk.troubles)
    text = desk.use("Read", missing="It could not be read", path=path, limit=_LOOKED_AT)
    if text is not None:
        _send_answer(desk, mail, f"about {show(path)}", write_answer(path, _described(text)))
    elif troubles := desk.troubles[known:]:
        _send_answer(desk, mail, f"{show(path)} could not be read", write_answer(path, troubles))


def _send_answer(desk: Desk, mail: Mail, summary: str, content: str) -> None:
    desk.use("SendMessage", to=mail.sender, summary=one_line(summary, 200), content=content, in_reply_to=mail.id)


def _agree_to_end(desk: Desk, mail: Mail) -> None:
    if found := re.search(r"^request_id: (\S+)$", mail.content, re.MULTILINE):
        payload = {"request_id": found[1], "approve": True}
        desk.use("SendMessage", to=mail.sender, type="shutdown_response", payload=payload)


def _described(numbered: str) -> list[str]:
    """What a file is about, as far as its beginning says so in words, and its first lines."""
    shown = [row for row in (re.match(r" *(\d+)\t(.*)", line) for line in numbered.split("\n")) if row]
    if not shown:
        return ["It is empty."]
    plain = [_COMMENT.sub("", row[2]) for row in shown if not _SAYS_NOTHING.search(row[2])]
    words = next((line for line in plain if len(re.findall(r"[^\W\d_]{2,}", line)) >= 3), "")
    says = f"It begins with the words: {one_line(words, _LONGEST_QUOTE)}" if words else "Its beginning is not in words."
    return [says, "First lines:", *(f"{row[1]:>6}  {row[2][:_LONGEST_QUOTE]}".rstrip() for row in shown[:_QUOTED])]
