"""The rules of the lead: divide the folder, spawn members, wait for their mail, ask once more, write the report."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .briefing import read_answer, write_briefing, write_question
from .desk import Desk, Reply
from .escaping import show
from .parts import Part, divide
from .reading import Mail, listing
from .report import TITLE, Report, read
from .summary import FollowUp, summarize

MEMBERS = ("alice", "bob", "carol")
"""The names of the members; fewer are spawned when there are fewer parts."""

_INTRODUCTION = (
    "The offline rules answer here, not a model: they follow one fixed plan and survey the folder. "
    "I look at what is in it."
)
_LOOKING = "All reports are in. I look at the board."
_MOST_LOOKS = 8
"""Looks at the board while the member that is to be asked may still be at work."""
_FINISHED = "is idle: finished"
_FAILED = "is idle: failed"
_DOES_NOT_START = re.compile(r"NOT stored|it does not start: (?!it is paused)")


@dataclass(frozen=True, slots=True)
class _Share:
    name: str
    part: Part
    is_spawned: bool


def answer(desk: Desk) -> Reply:
    """The lead's next turn."""
    pages = desk.pages("Glob", missing="the folder could not be listed", pattern="**/*", path=".", sizes=True)
    if desk.calls:
        return desk.reply(_INTRODUCTION if not pages else "There is more; I look on.")
    files = listing(pages)
    if not files:
        why = "; ".join(desk.troubles)
        return [
            f"Nothing could be surveyed: {why}." if why else "The folder holds no files: there is nothing to survey."
        ]
    parts = divide(tuple(files), len(MEMBERS))
    names = MEMBERS[: len(parts)]
    tasks = [
        desk.create_task(
            f"Survey part {number} of {len(parts)}: {part.describe(3)}", description=f"{part.files:,} files"
        )
        for number, part in enumerate(parts, 1)
    ]
    if desk.calls:
        return desk.reply(f"{len(files):,} files. I divide them into {len(parts)} and put the work on the board.")
    waits_for = [task for task in tasks if task]
    writing = desk.create_task("Write the report", owner="lead", blocked_by=waits_for)
    shares = [
        _Share(name, part, _spawn(desk, name, part, task)) for name, part, task in zip(names, parts, tasks, strict=True)
    ]
    if desk.calls:
        return desk.reply(f"I ask {_listed(names)} to survey a part each. The report waits for theirs.")
    return _collect(desk, len(files), shares, writing)


def _spawn(desk: Desk, name: str, part: Part, task: str | None) -> bool:
    """Whether the member is there; one that an interrupted try has made is."""
    input = {"name": name, "prompt": write_briefing(part, task), "description": f"surveys {part.describe(3)}"}
    last = desk.last("Agent", **input)
    if last and last.is_error and not last.interrupted and re.search(r"\bmember '?\"?" + re.escape(name), last.text):
        return True
    return desk.use("Agent", missing=f"{name} could not be started", **input) is not None


def _collect(desk: Desk, files: int, shares: list[_Share], writing: str | None) -> Reply:
    """Wait for the reports; when they are there, follow up and finish."""
    reports: dict[str, Report] = {}
    waiting: list[str] = []
    for share in shares:
        known = len(desk.troubles)
        if (report := _report(desk, share.name)) is not None:
            reports[share.name] = report
        elif share.is_spawned and len(desk.troubles) == known and not _is_lost(desk, share.name):
            waiting.append(share.name)
    if desk.calls:
        return desk.reply("I read on, or ask again.")
    if waiting:
        return [f"I wait for the report{'s' if len(waiting) > 1 else ''} of {_listed(waiting)}."]
    follow_up = _follow_up(desk, reports)
    if desk.calls:
        return desk.reply(_LOOKING if desk.calls[0].name == "TaskList" else "I ask about the file with the most lines.")
    if isinstance(follow_up, str):
        return [follow_up]
    desk.move_task(writing, "in_progress")
    if desk.calls:
        return desk.reply("I have all I need, and write the report.")
    desk.move_task(writing, "done")
    if desk.calls:
        return desk.reply("The report is written.")
    told = [(share.name, share.part, reports.get(share.name)) for share in shares]
    return [summarize(files, told, follow_up, desk.troubles)]


def _report(desk: Desk, name: str) -> Report | None:
    """The first whole report of a member; the same one sent twice counts once."""
    letters = [mail for mail in _from(desk, name) if TITLE in mail.content]
    known = len(desk.troubles)
    for mail in letters:
        asked = len(desk.calls)
        text = desk.whole(mail, missing=f"the report of {name} could not be read")
        if len(desk.calls) > asked:
            return None
        if text is not None and (report := read(text[text.find(TITLE) :])) is not None:
            del desk.troubles[known:]
            return report
    if letters and len(desk.troubles) == known:
        desk.troubles.append(f"the report of {name} is not whole, and was left out")
    return None


def _is_lost(desk: Desk, name: str) -> bool:
    """Whether no report will come any more. A member whose run failed is asked once to go on; one that was stopped, or
    met a limit, is left alone.
    """
    ends = _bad_ends(desk, name, after=-1)
    if not ends:
        return False
    if _FAILED in ends[-1].summary or _FINISHED in ends[-1].summary:
        reminder = {
            "to": name,
            "summary": "please go on with your survey",
            "content": "Your run ended before your report arrived. Please finish your part and report to lead.",
        }
        known = len(desk.troubles)
        sent = desk.use("SendMessage", missing=f"{name} did not report", **reminder)
        if sent is None:
            return len(desk.troubles) > known
        last = desk.last("SendMessage", **reminder)
        if not _DOES_NOT_START.search(sent) and last and not _bad_ends(desk, name, after=last.place):
            return False
    desk.troubles.append(f"{name} did not report: {_reason(ends[-1])}")
    return True


def _follow_up(desk: Desk, reports: dict[str, Report]) -> FollowUp | str | None:
    """What the member with the longest file answered; a text to end the turn with while that is not known."""
    longest = [
        (-lines, path, name) for name, report in reports.items() if report.longest for lines, path in [report.longest]
    ]
    if not longest:
        return None
    _, path, name = min(longest)
    question = {"to": name, "summary": f"a question about {show(path)}"[:250], "content": write_question(path)}
    missing = f"{name} could not be asked about {show(path)}"
    if not (desk.last("SendMessage", **question) or _is_idle(desk, name)):
        looks = desk.history.uses("TaskList", after=-1)
        if len(looks) < _MOST_LOOKS:  # its report is here, so its run is about to end
            desk.ask("TaskList")
            return None
    sent = desk.use("SendMessage", missing=missing, **question)
    if sent is None:
        return None
    for mail in _from(desk, name):
        if lines := read_answer(mail.content, path):
            return FollowUp(name, path, tuple(lines))
    last = desk.last("SendMessage", **question)
    ends = _bad_ends(desk, name, after=last.place) if last else []
    if not ends and not _DOES_NOT_START.search(sent):
        return f"I wait for {name}'s answer about {show(path)}."
    desk.troubles.append(f"{name} did not answer about {show(path)}: {_reason(ends[-1]) if ends else sent}")
    return None


def _is_idle(desk: Desk, name: str) -> bool:
    return any(mail.type == "idle_notification" for mail in _from(desk, name))


def _from(desk: Desk, name: str) -> list[Mail]:
    return [mail for mail in desk.history.mail if mail.sender == name]


def _bad_ends(desk: Desk, name: str, *, after: int) -> list[Mail]:
    """Notices, shown behind a place of the conversation, that a run of this member ended badly or sent no mail."""
    notices = [mail for mail in _from(desk, name) if mail.type == "idle_notification" and mail.place > after]
    return [mail for mail in notices if _FINISHED not in mail.summary or mail.content.strip()]


def _reason(mail: Mail) -> str:
    return " ".join(f"{mail.summary} {mail.content}".split())[:200]


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
