"""The offline rules, driven by a small team in memory that works on a real folder."""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pseudoclaude import prompts
from pseudoclaude.chat import Block, ChatMessage, ModelRequest, TextBlock, ToolCall, ToolResult
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import IdleNotice, IdleStatus, IndexedMessage, Message, MessageType
from pseudoclaude.mailbox import reminder
from pseudoclaude.providers.base import complete
from pseudoclaude.providers.offline import OfflineProvider, answer, languages, report
from pseudoclaude.providers.offline.briefing import read_answer, read_briefing, write_answer, write_briefing
from pseudoclaude.providers.offline.escaping import escape, show, unescape
from pseudoclaude.providers.offline.parts import Part, Selection, divide
from pseudoclaude.providers.offline.reading import undo
from pseudoclaude.providers.offline.report import Report

INTERRUPTED = "interrupted: the process ended while this call was running."


class Refused(Exception):
    """What a tool answers with is an error."""


@dataclass
class Agent:
    """One conversation, its mailbox and whether it is at work."""

    name: str
    system: str
    messages: list[ChatMessage] = field(default_factory=list)
    unread: list[IndexedMessage] = field(default_factory=list)
    mailbox: list[Message] = field(default_factory=list)
    runs: bool = False
    sent_mail: bool = False
    turns: int = 0

    def hear(self, *blocks: Block) -> None:
        if self.messages and self.messages[-1].role == "user":
            blocks = (*self.messages.pop().content, *blocks)
        self.messages.append(ChatMessage(role="user", content=blocks))

    @property
    def owes_turn(self) -> bool:
        return self.runs or any(item.message.wakes for item in self.unread)

    @property
    def last_text(self) -> str:
        return next(message.text for message in reversed(self.messages) if message.role == "assistant")


@dataclass
class Team:
    """Runs the rules with tools of its own until nobody owes a turn.

    ``fault`` may answer a call in place of its tool; ``page`` bounds the characters of a page; ``one_by_one`` shows
    each message in a turn of its own.
    """

    root: Path
    seed: int = 0
    fault: Callable[[Team, str, ToolCall], str | None] = lambda team, name, call: None
    page: int = 90_000
    one_by_one: bool = False
    dies: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    contents: dict[str, bytes] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, ToolCall]] = field(default_factory=list)

    def run(self, *more: str) -> str:
        lead = self.join("lead", "lead")
        lead.hear(TextBlock(text=prompts.render("survey", workspace=self.root)), *(TextBlock(text=t) for t in more))
        return self.go_on()

    def go_on(self) -> str:
        choose = random.Random(self.seed)
        for _ in range(1_000):
            ready = [agent for agent in self.agents.values() if agent.owes_turn]
            if not ready:
                return self.agents["lead"].last_text
            self.turn(choose.choice(ready))
        raise AssertionError("it does not end")

    def join(self, name: str, prompt: str) -> Agent:
        values = {"team": "t", "workspace": self.root} | ({} if prompt == "lead" else {"name": name})
        system = prompts._template(prompt).substitute(values)
        self.agents[name] = agent = Agent(name, system, runs=True)
        return agent

    def turn(self, agent: Agent) -> None:
        agent.runs = True
        if agent.unread:
            shown = agent.unread[:1] if self.one_by_one else agent.unread
            block = reminder.render(shown, name_of=str, now=datetime.now(UTC), budget_tokens=20_000)
            agent.unread = [item for item in agent.unread if item.index not in block.indices]
            agent.hear(TextBlock(text=block.text))
        if agent.name in self.dies:
            return self.end(agent, IdleStatus.FAILED, "the model is gone")
        request = ModelRequest(model="", system=agent.system, messages=tuple(agent.messages))
        request = ModelRequest.model_validate_json(request.model_dump_json())
        reply = answer(request)
        assert reply == answer(request)
        blocks = tuple(TextBlock(text=part) if isinstance(part, str) else part for part in reply)
        assert all(block.text.strip() for block in blocks if isinstance(block, TextBlock))
        agent.messages.append(ChatMessage(role="assistant", content=blocks))
        agent.turns += 1
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        assert len({call.id for call in calls}) == len(calls)
        agent.hear(*(self.execute(agent, call) for call in calls)) if calls else self.end(agent, IdleStatus.FINISHED)
        return None

    def end(self, agent: Agent, status: IdleStatus, error: str = "") -> None:
        agent.runs = False
        if agent.name == "lead" or any(item.message.wakes for item in agent.unread):
            return
        result = None if agent.sent_mail or status is IdleStatus.FAILED else agent.last_text
        self.post(
            "lead",
            agent.name,
            summary=f"{agent.name} is idle: {status}{': ' if error else ''}{error}",
            content=result or "",
            type=MessageType.IDLE_NOTIFICATION,
            payload=IdleNotice(status=status, run_id="r", result=result, error=error or None).model_dump(mode="json"),
        )
        agent.sent_mail = False

    def post(self, to: str, sender: str, **values: Any) -> Message:
        agent = self.agents[to]
        message = Message(sender=AgentId(sender), recipient=AgentId(to), **values)
        agent.mailbox.append(message)
        agent.unread.append(IndexedMessage(len(agent.mailbox) - 1, message, read=False))
        return message

    def execute(self, agent: Agent, call: ToolCall) -> ToolResult:
        self.calls.append((agent.name, call))
        try:
            text = self.fault(self, agent.name, call)
            if text is None:
                text = getattr(self, f"tool_{call.name}")(agent, **call.input)
        except Refused as error:
            return ToolResult(tool_use_id=call.id, content=str(error), is_error=True)
        return ToolResult(tool_use_id=call.id, content=text)

    # -- the tools --------------------------------------------------------------------------------------------------

    def files(self, path: str) -> list[str]:
        if not (self.root / path).is_dir():
            raise Refused(f"there is no folder {path!r}")
        if not self.contents:
            for folder, folders, names in os.walk(self.root):
                folders[:] = [name for name in folders if name not in self.ignored]
                for file in (Path(folder, name) for name in names):
                    self.contents[file.relative_to(self.root).as_posix()] = file.read_bytes()
        return sorted(name for name in self.contents if path == "." or name.startswith(f"{path}/"))

    def paged(self, lines: list[str], limit: int, offset: int, nothing: str) -> str:
        shown: list[str] = []
        size = 0
        for line in lines[offset : offset + limit]:
            size += len(line) + 1
            if shown and size > self.page:
                break
            shown.append(line)
        left = len(lines) - offset - len(shown)
        note = [f"... {left:,} more; go on with offset={offset + len(shown)}"] if left > 0 else []
        return "\n".join([*shown, *note]) or nothing

    def tool_Glob(  # noqa: N802
        self, agent: Agent, pattern: str, path: str, limit: int, sizes: bool = False, offset: int = 0
    ) -> str:
        name_pattern = pattern.rpartition("/")[2]
        names = [name for name in self.files(path) if fnmatchcase(name.rpartition("/")[2], name_pattern)]
        lines = [f"{len(self.contents[name])}\t{name}" if sizes else name for name in names]
        return self.paged(lines, limit, offset, "(no files)")

    def tool_Grep(  # noqa: N802
        self, agent: Agent, pattern: str, path: str, mode: str, limit: int, offset: int = 0
    ) -> str:
        found = []
        for name in self.files(path):
            data = self.contents[name]
            lines = data.decode().removesuffix("\n").split("\n") if data and b"\0" not in data else []
            matches = [(number, line) for number, line in enumerate(lines, 1) if re.search(pattern, line)]
            if mode == "count":
                found += [f"{name}:{len(matches)}"] if matches else []
            else:
                found += [f"{name}:{number}:{line[:500]}" for number, line in matches]
        return self.paged(found, limit, offset, "(no matches)")

    def tool_Read(self, agent: Agent, path: str, limit: int, offset: int = 1) -> str:  # noqa: N802
        if not (self.root / path).is_file():
            raise Refused(f"there is no {path!r}")
        lines = (self.root / path).read_bytes().decode().removesuffix("\n").split("\n")
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1) if number <= limit)

    def tool_Agent(self, agent: Agent, name: str, prompt: str, description: str) -> str:  # noqa: N802
        assert agent.name == "lead"
        if name in self.agents:
            raise Refused(f"this team has a member {name!r} already. Choose another name, or send it mail.")
        self.join(name, "member").hear(TextBlock(text=prompt))
        return f"{name} is at work: agent id {name}-1."

    def tool_SendMessage(self, agent: Agent, to: str, **values: Any) -> str:  # noqa: N802
        busy = self.agents[to].runs
        message = self.post(to, agent.name, **{"content": "", **values})
        agent.sent_mail = True
        state = "it is at work and reads this before its next step" if busy else "woken, run r2"
        return f"message {message.id}\n{to}: stored as message {len(self.agents[to].mailbox) - 1}; {state}"

    def tool_ReadMessage(self, agent: Agent, id: str, offset: int, limit: int) -> str:  # noqa: N802
        content = next(message.content for message in agent.mailbox if message.id == id)
        end = min(len(content), offset + limit)
        return f"characters {offset} to {end} of {len(content)}\n{reminder.inert(content[offset:end])}"

    def line(self, id: str) -> str:
        task = self.tasks[id]
        return f"{id} [{task['status']}] {task['subject']} (owner {task['owner']})"

    def tool_TaskCreate(  # noqa: N802
        self, agent: Agent, subject: str, description: str = "", owner: str = "", blocked_by: tuple[str, ...] = ()
    ) -> str:
        if owner and owner not in self.agents:
            raise Refused(f"{owner!r} is nobody in this team")
        id = f"t{len(self.tasks) + 1}"
        self.tasks[id] = {"subject": subject, "owner": owner, "status": "todo", "waits_for": tuple(blocked_by)}
        return self.line(id)

    def tool_TaskList(self, agent: Agent) -> str:  # noqa: N802
        return "\n".join(map(self.line, self.tasks)) or "the board is empty"

    def tool_TaskUpdate(self, agent: Agent, task_id: str, status: str) -> str:  # noqa: N802
        task = self.tasks[task_id]
        if blockers := [id for id in task["waits_for"] if self.tasks[id]["status"] != "done"]:
            raise Refused(f"task {task_id} waits for {', '.join(blockers)}. Complete those first.")
        task.update(status=status, owner=task["owner"] or agent.name)
        if status == "done":
            self.post("lead", agent.name, summary=f"{agent.name} completed {task_id}", type=MessageType.TASK_COMPLETED)
        return self.line(task_id)


# -- an independent look at a folder -------------------------------------------------------------------------


def check_report(text: str, root: Path, ignored: str = ".git") -> None:
    """Every figure and every place of the report is what a plain walk of the folder finds."""
    every = [file for file in root.rglob("*") if file.is_file() and ignored not in file.parts]
    datas = {file.relative_to(root).as_posix(): file.read_bytes() for file in every}
    texts = {name: data.decode("utf-8", "replace") for name, data in datas.items() if b"\0" not in data}
    lines = {name: text.split("\n")[: None if text and not text.endswith("\n") else -1] for name, text in texts.items()}

    files_by, lines_by = Counter[str](), Counter[str]()
    for name in texts:
        language = languages.LANGUAGES.get(Path(name).suffix.lower(), "other")
        files_by[language] += 1
        lines_by[language] += len(lines[name])
    table = re.findall(r"^  (\S.*?) +([\d,]+) +([\d,]+)(?:  .*)?$", section(text, "Languages"), re.MULTILINE)
    assert {name: (number(a), number(b)) for name, a, b in table} == {"total": (len(texts), sum(lines_by.values()))} | {
        name: (files_by[name], lines_by[name]) for name in files_by
    }

    biggest = sorted((-len(datas[name]), show(name)) for name in texts)[:10]
    table = re.findall(r"^ +([\d,]+) +([\d,]+)  (.+)$", section(text, "Biggest text files"), re.MULTILINE)
    assert [(-number(a), c) for a, b, c in table] == biggest

    marks = [
        f"{show(name)}:{at}"
        for name in sorted(texts)
        for at, line in enumerate(lines[name], 1)
        if re.search(r"\b(TODO|FIXME)\b", line)
    ]
    shown = re.findall(r"^  (.+?:\d+)(?=  |$)", section(text, "TODO and FIXME"), re.MULTILINE)
    assert shown == marks

    stems = {Path(name).stem for name in datas}
    untested = {show(name) for name in texts if is_untested(name, datas, stems)}
    shown = re.findall(r"^    (.+)$", section(text, "Modules without a test"), re.MULTILINE)
    assert set(shown) == untested
    assert len(shown) == len(untested)


def is_untested(name: str, datas: dict[str, bytes], stems: set[str]) -> bool:
    path = Path(name)
    looks_like_test = re.search(r"^test_|_test$|\.test$|\.spec$|Tests?$", path.stem)
    if path.suffix.lower() not in languages.MODULES or path.name == "__init__.py" or not datas[name]:
        return False
    if looks_like_test or {"test", "tests", "__tests__", "spec"} & {*path.parts[:-1]}:
        return False
    s, capital = path.stem, path.stem[:1].upper() + path.stem[1:]
    tests = {f"test_{s}", f"{s}_test", f"{s}.test", f"{s}.spec", f"{s}Test", f"{s}Tests", f"{capital}Test"}
    tests |= {f"{capital}Tests"} | ({f"test_{path.parts[-2]}_{s}"} if len(path.parts) > 1 else set())
    return not tests & stems


def section(text: str, title: str) -> str:
    found = re.search(rf"^{title}.*\n-+\n((?:  .*\n?)*)", text, re.MULTILINE)
    assert found, f"no section {title}"
    return found[1]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


PROJECT: dict[str, str | bytes] = {
    "README.md": "# A thing\n\nTODO: say what\n",
    "setup.py": "import x  # FIXME and TODO on one line\n",
    "Makefile": "all:\n\techo",
    "empty.py": "",
    "src/app/__init__.py": "x = 1\n",
    "src/app/main.py": '"""Starts the whole thing for people."""\n' + "x = 1\n" * 900,
    "src/app/store.py": "# TODO <b>bold</b> &lt;i&gt; \\u0041 \\ end\n\tTODO\ttabs\nTODOS no\ntodo no\n",
    "src/app/deep/er/util.go": "package util // FIXME\r\n",
    "src/web/Widget.tsx": "export {}\n",
    "src/web/WidgetTest.tsx": "test()\n",
    "src/web/button.js": "b\n",
    "src/web/button.spec.js": "b\n",
    "tests/test_app_store.py": "# TODO in a test\n",
    "tests/helper.py": "h = 1\n",
    "docs/a b: c.md": "one\nTODO: spaced\n",
    "docs/a b: c.md:2:x.md": "TODO in a strange name\n",
    "docs/ümläut 日本.txt": "FIXME größer\n",
    "docs/wide\u200bspace .py": "TODO\u2028odd\n",
    "docs/&lt;tag&gt; <x>.py": "TODO\n",
    "docs/\\u0041.py": "FIXME",
    "logo.png": b"\x89PNG\0TODO\n",
}


@pytest.mark.parametrize("seed", range(8))
def test_the_report_agrees_with_a_walk_of_the_folder(tmp_path: Path, seed: int) -> None:
    team = Team(put(tmp_path, PROJECT), seed=seed, one_by_one=seed % 2 == 0)

    text = team.run()

    check_report(text, tmp_path)
    assert "What could not be done" not in text
    assert "The file with the most lines: src/app/main.py" in text
    assert '     1  """Starts' in section(text, "The file with the most lines")
    assert "Starts the whole thing for people." in text
    assert [task["status"] for task in team.tasks.values()] == ["done"] * 4
    assert [task["owner"] for task in team.tasks.values()] == ["alice", "bob", "carol", "lead"]
    assert team.tasks["t4"]["waits_for"] == ("t1", "t2", "t3")
    assert "not a model" in team.agents["lead"].messages[1].text
    assert all(agent.turns <= 16 for agent in team.agents.values())


def test_the_question_is_answered_by_the_member_that_has_the_file(tmp_path: Path) -> None:
    team = Team(put(tmp_path, PROJECT))
    team.run()

    (question,) = [call for name, call in team.calls if name == "lead" and call.name == "SendMessage"]
    (answered,) = [call for _, call in team.calls if call.name == "SendMessage" and "in_reply_to" in call.input]
    asked = team.agents[question.input["to"]].mailbox[-1]
    assert answered.input["in_reply_to"] == asked.id
    assert any(call.name == "Read" and name == question.input["to"] for name, call in team.calls)


def test_an_empty_folder_is_answered_at_once(tmp_path: Path) -> None:
    team = Team(tmp_path)
    assert "nothing to survey" in team.run()
    assert [call.name for _, call in team.calls] == ["Glob"]


@pytest.mark.parametrize(("files", "members"), [(["a.py"], 1), (["x/y/a.py", "x/y/b.py"], 2), (["a", "b", "c/d"], 3)])
def test_few_files_get_fewer_members(tmp_path: Path, files: list[str], members: int) -> None:
    team = Team(put(tmp_path, dict.fromkeys(files, "TODO\n")))
    check_report(team.run(), tmp_path)
    assert len(team.agents) == 1 + members


def test_only_binary_and_empty_files_need_no_question(tmp_path: Path) -> None:
    team = Team(put(tmp_path, {"a.bin": b"\0\1", "b.txt": "", "c.bin": b"\0"}))
    text = team.run()
    assert "The file with the most lines" not in text
    assert re.search(r"plain text +1 +0", text)


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, PROJECT | {".git/hooks/x.sh": "TODO\n"})
    check_report(Team(tmp_path, ignored=frozenset({".git"})).run(), tmp_path)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_long_reports_and_small_pages_arrive_whole(tmp_path: Path, one_by_one: bool) -> None:
    files: dict[str, str | bytes] = {
        f"pack{n % 7}/m{n}.py": "".join(f"# TODO <{n}> number {m} of many &lt;\n" for m in range(9)) for n in range(300)
    }
    team = Team(put(tmp_path, files), page=3_000, one_by_one=one_by_one)
    check_report(team.run(), tmp_path)
    assert any(call.name == "ReadMessage" for _, call in team.calls)


@pytest.mark.parametrize("happened", [False, True])
def test_interrupted_calls_are_repeated_once(tmp_path: Path, happened: bool) -> None:
    def fault(team: Team, name: str, call: ToolCall) -> str | None:
        same = [known for who, known in team.calls if who == name and known.name == call.name]
        if same[0] is not call:
            return None
        if happened and call.name != "Read":
            getattr(team, f"tool_{call.name}")(team.agents[name], **call.input)
        raise Refused(INTERRUPTED)

    team = Team(put(tmp_path, PROJECT), fault=fault)
    text = team.run()

    check_report(text, tmp_path)
    assert len(team.tasks) == 4
    assert "What could not be done" not in text


def test_calls_that_never_succeed_end_all_the_same(tmp_path: Path) -> None:
    put(tmp_path, PROJECT)
    for tool in ("Glob", "Grep", "Read", "Agent", "SendMessage", "TaskCreate", "TaskUpdate", "ReadMessage"):
        for error in (INTERRUPTED, "it is not allowed"):

            def fault(team: Team, name: str, call: ToolCall, tool: str = tool, error: str = error) -> str | None:
                if call.name == tool:
                    raise Refused(error)
                return None

            team = Team(tmp_path, fault=fault)
            text = team.run()
            per_call = Counter((name, call.name, repr(sorted(call.input.items()))) for name, call in team.calls)
            assert all(times <= 2 for (_, name, _), times in per_call.items() if name != "TaskList")
            assert error[:11] in text or tool in ("ReadMessage", "SendMessage")
            assert text.startswith(("Survey of", "Nothing could be surveyed"))
            if tool == "SendMessage":
                assert "TODO and FIXME: 12 lines" in text


@pytest.mark.parametrize("error", [INTERRUPTED, "it is not allowed"])
def test_a_report_that_cannot_be_read_is_named(tmp_path: Path, error: str) -> None:
    def fault(team: Team, name: str, call: ToolCall) -> str | None:
        if call.name == "ReadMessage":
            raise Refused(error)
        return None

    long: dict[str, str | bytes] = {f"a/{n}.py": "# TODO " + "word " * 50 for n in range(300)}
    text = Team(put(tmp_path, {**long, "b/b.py": "TODO"}), fault=fault).run()
    assert re.search(rf"the report of \w+ could not be read: {error[:11]}", text)
    assert "b/b.py:1" in text or "not reported" in text


def test_a_member_that_fails_is_asked_once_and_then_left_out(tmp_path: Path) -> None:
    team = Team(put(tmp_path, PROJECT), dies=frozenset({"bob"}))
    text = team.run()
    assert "bob did not report: bob is idle: failed: the model is gone" in text
    assert sum(call.input.get("to") == "bob" for _, call in team.calls) == 1


def test_mail_that_comes_twice_or_late_changes_nothing(tmp_path: Path) -> None:
    team = Team(put(tmp_path, PROJECT), seed=3)
    first = team.run("<incoming-messages>\nNothing of interest.\n</incoming-messages>", "And be quick.")
    for message in list(team.agents["lead"].mailbox):
        if message.type is MessageType.TEXT:
            copy = message.model_copy(update={"id": MessageId.new()})
            team.agents["lead"].mailbox.append(copy)
            team.agents["lead"].unread.append(IndexedMessage(len(team.agents["lead"].mailbox) - 1, copy, read=False))
    calls = len(team.calls)
    assert team.go_on() == first
    assert len(team.calls) == calls


def test_members_answer_the_person_and_agree_to_end(tmp_path: Path) -> None:
    team = Team(put(tmp_path, PROJECT))
    team.run()
    team.join("user", "member").runs = False
    team.post("alice", "user", summary="hello", content="Who are you?")
    team.post("alice", "user", summary="what is README.md about?")
    team.post("alice", "user", summary="what is gone.md about?")
    team.post("alice", "lead", summary="end", type=MessageType.SHUTDOWN_REQUEST, payload={"request_id": "q1"})
    while team.agents["alice"].owes_turn:
        team.turn(team.agents["alice"])
    contents = [message.content for message in team.agents["user"].mailbox]
    assert "offline rules" in contents[0]
    assert "A thing" in contents[1]
    assert "could not be read" in contents[2]
    (last,) = [message for message in team.agents["lead"].mailbox if message.type is MessageType.SHUTDOWN_RESPONSE]
    assert last.payload == {"request_id": "q1", "approve": True}


def test_five_thousand_files_take_little_time(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        f"src/area{n % 40}/folder{n % 400}/some_module_{n}.py": f"# TODO number {n}\nx = 1\n" for n in range(5_000)
    }
    team = Team(put(tmp_path, files))
    spent = 0.0

    def fault(team: Team, name: str, call: ToolCall) -> str | None:
        nonlocal spent
        started = time.perf_counter()
        result = getattr(team, f"tool_{call.name}")(team.agents[name], **call.input)
        spent += time.perf_counter() - started
        return str(result)

    team.fault = fault
    started = time.perf_counter()
    text = team.run()
    assert time.perf_counter() - started - spent < 5
    assert "TODO and FIXME: 5,000 lines in 5,000 files" in text
    sizes = [number(found) for found in re.findall(r"^ +([\d,]+) files, ", section(text, "Who did what"), re.MULTILINE)]
    assert max(sizes) - min(sizes) <= 125


async def test_the_provider_says_what_it_is() -> None:
    provider = OfflineProvider()
    assert (provider.name, provider.default_model) == ("offline", "offline-rules")
    request = ModelRequest(model="", system="", messages=(ChatMessage(role="user", content=(TextBlock(text="x"),)),))
    assert "offline rules" in (await complete(provider, request)).text


# -- letters -------------------------------------------------------------------------------------------------

PATHS = st.lists(
    st.text(st.characters(exclude_characters="/\0\n"), min_size=1, max_size=12), min_size=1, max_size=4
).map("/".join)
LINES = st.text(max_size=60).map(report.one_line)
NUMBERS = st.integers(min_value=0, max_value=10**13)
REPORTS = st.builds(
    Report,
    member=st.just("alice"),
    part=LINES,
    files=NUMBERS,
    text_files=NUMBERS,
    extensions=st.lists(st.tuples(PATHS.map(languages.extension), NUMBERS, NUMBERS)).map(tuple),
    biggest=st.lists(st.tuples(NUMBERS, NUMBERS, PATHS)).map(tuple),
    longest=st.none() | st.tuples(NUMBERS, PATHS),
    marks=st.lists(st.tuples(PATHS, NUMBERS, LINES)).map(tuple),
    modules=NUMBERS,
    untested=st.lists(PATHS).map(tuple),
    troubles=st.lists(LINES).map(tuple),
)


def as_shown(text: str) -> str:
    """Text after its way through a message and a reminder."""
    message = Message(sender=AgentId("alice"), recipient=AgentId("lead"), content=text)
    return undo(reminder.inert(Message.from_json(message.to_json()).content))


@given(REPORTS)
@settings(deadline=None)
def test_a_report_survives_its_way(written: Report) -> None:
    assert report.read(as_shown(report.write(written))) == written


@given(REPORTS, st.integers(min_value=0))
@settings(deadline=None, max_examples=30)
def test_a_part_of_a_report_is_none(written: Report, cut: int) -> None:
    text = report.write(written)
    assert report.read(text[: cut % len(text)]) is None


@given(st.text())
def test_escaped_text_survives_its_way(text: str) -> None:
    assert unescape(as_shown(escape(text))) == text


@given(st.sets(PATHS, min_size=1), PATHS)
def test_briefings_and_answers_survive_their_way(items: set[str], path: str) -> None:
    part = Part(tuple(sorted(items)), len(items))
    read = read_briefing(["You work.", as_shown(write_briefing(part, "t7"))])
    assert read is not None
    assert (read.items, read.task) == (part.items, "t7")
    assert read_answer(as_shown(write_answer(path, ["a <b>", "\u200b"])), path) == ["a <b>", "\u200b"]


SIMPLE = st.lists(st.sampled_from(["a", "b", "c d", "é"]), min_size=1, max_size=4).map("/".join)


@given(st.sets(SIMPLE.map(lambda path: f"{path}.x"), min_size=1, max_size=60), st.integers(min_value=1, max_value=3))
def test_each_file_is_in_exactly_one_part(paths: set[str], members: int) -> None:
    parts = divide(tuple(sorted(paths)), members)
    assert len(parts) == min(members, len(paths))
    selections = [Selection(part.items) for part in parts]
    for path in paths:
        assert sum(path in selection for selection in selections) == 1
    for part, selection in zip(parts, selections, strict=True):
        mine = {path for path in paths if path in selection}
        assert len(mine) == part.files
        reached = {path for path in paths for root in selection.roots() if root == "." or path.startswith(f"{root}/")}
        assert mine <= reached


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("a/b.py", "tests/test_b.py"),
        ("a/b.py", "tests/test_a_b.py"),
        ("b.go", "b_test.go"),
        ("b.ts", "b.spec.ts"),
        ("b.ts", "x/b.test.tsx"),
        ("shop.java", "ShopTests.java"),
    ],
)
def test_a_test_is_known_by_its_name(module: str, test: str) -> None:
    assert languages.is_test(test)
    assert languages.untested([module], [module, test]) == []
    assert languages.untested([module], [module, "tests/other.py"]) == [module]
    assert any(fnmatchcase(test.rpartition("/")[2], glob.rpartition("/")[2]) for glob in languages.TEST_GLOBS)
