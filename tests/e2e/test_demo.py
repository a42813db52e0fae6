"""The demo's report agrees with what find, grep and git say about the same folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest

from tests.e2e.support import only_team, run

REPOSITORY = Path(__file__).parents[2]


def tell(*command: str, cwd: Path) -> list[str]:
    """The lines that a program prints; grep's "nothing found" is no error."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in os.fsdecode(done.stdout).replace("\0", "\n").split("\n") if line]


@dataclass
class Facts:
    """What is true of a folder, found out without the package."""

    files: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    python: int = 0
    untested: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, folder: Path, names: list[str]) -> Facts:
        """Facts about these files of a folder, by grep and stat."""
        text: set[str] = set()
        for batch in batches(names):
            text.update(tell("grep", "-LaP", r"\x00", "--", *batch, cwd=folder))
        facts = cls(files=len(names), sizes={name: (folder / name).lstat().st_size for name in text})
        for batch in batches(sorted(text)):
            found = tell("grep", "-anwHE", "TODO|FIXME", "--", *batch, cwd=folder)
            facts.marks.update(":".join(line.split(":")[:2]) for line in found)
        facts.python = sum(name.endswith((".py", ".pyi")) for name in text)
        stems = {Path(name).stem for name in names}
        for name in text:
            path = Path(name)
            if path.suffix == ".py" and path.name != "__init__.py" and facts.sizes[name] and not is_test(path):
                shapes = (path.stem, path.stem[:1].upper() + path.stem[1:])
                tests = {
                    test
                    for stem in shapes
                    for test in (
                        *(
                            f"test_{stem}",
                            f"{stem}_test",
                            f"{stem}.test",
                            f"{stem}.spec",
                            f"{stem}Test",
                            f"{stem}Tests",
                        ),
                        f"test_{path.parent.name}_{stem}",
                    )
                }
                if not tests & stems:
                    facts.untested.add(name)
        return facts


def is_test(path: Path) -> bool:
    """Whether a file is a test, by its name or its folder."""
    by_name = re.search(r"^test_.|._test$|.\.test$|.\.spec$|.Tests?$", path.stem)
    return bool(by_name) or any(part.lower() in ("test", "tests", "__tests__", "spec") for part in path.parts[:-1])


def batches(names: list[str]) -> Iterator[list[str]]:
    """Names in lists that fit on a command line."""
    rest = iter(names)
    while batch := list(islice(rest, 500)):
        yield batch


def check_report(report: str, facts: Facts) -> None:
    """The report says what is true, all of it and no more."""
    assert f"Survey of {facts.files:,} file" in report
    assert f"{len(facts.sizes):,} text files" in report
    python = re.search(r"^ +Python +([\d,]+) ", report, re.M)
    assert int(python[1].replace(",", "") if python else 0) == facts.python
    reported_marks = Counter(re.findall(r"^  (\S.*?:\d+)  ", section(report, "TODO and FIXME"), re.M))
    assert set(reported_marks) == facts.marks
    assert set(reported_marks.values()) <= {1}
    biggest = re.findall(r"^ +([\d,]+) +[\d,]+  (.+)$", section(report, "Biggest text files"), re.M)
    expected = sorted(facts.sizes.values(), reverse=True)[:10]
    assert [int(size.replace(",", "")) for size, _ in biggest] == expected
    assert all(facts.sizes[name] == int(size.replace(",", "")) for size, name in biggest)
    untested = {line.strip() for line in section(report, "Modules without a test").splitlines() if line.endswith(".py")}
    assert untested == facts.untested


def section(report: str, title: str) -> str:
    """The part of a report under a heading, up to the next one; empty if there is none."""
    found = re.search(rf"^{title}.*\n-+\n((?:.*\n)*?)(?:\n\S.*\n-+\n|\Z)", report, re.M)
    return found[1] if found else ""


def test_the_report_on_this_repository_agrees_with_git_and_grep(tmp_path: Path) -> None:
    copy = tmp_path / "repository"
    shutil.copytree(REPOSITORY, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "dist"))
    (copy / "build").mkdir(exist_ok=True)
    (copy / "build" / "ignored.py").write_text("# TODO never seen: git ignores this folder\n", "utf-8")
    (copy / "picture.bin").write_bytes(b"\x89\0TODO never seen: a binary file\n" * 100)
    (copy / "notes with spaces.txt").write_text("TODO: seen\nTODOS and aTODO: not seen\n", "utf-8")
    tell("git", "init", "-q", cwd=copy)
    names = tell("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=copy)
    done = run("demo", copy, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    facts = Facts.of(copy, names)
    assert "notes with spaces.txt:1" in facts.marks
    check_report(done.stdout, facts)
    traces = only_team(tmp_path / "home")
    mail = traces.mail()
    reports = [line for line in mail if line[1] == "lead" and line[2] == "text"]
    assert {sender for sender, *_ in reports} == {"alice", "bob", "carol"}
    assert len(reports) == 4, "three reports, and the answer to the question"
    ((asker, asked),) = [line[:2] for line in mail if line[2] == "text" and line[1] != "lead"]
    assert asker == "lead"
    (agent_id,) = [agent_id for agent_id, name in traces.names.items() if name == asked]
    kinds = [line["kind"] for line in traces.transcript(agent_id)]
    question = next(at for at, line in enumerate(traces.transcript(agent_id)) if line.get("mail"))
    assert kinds[question - 1] == "ended", "the member was asked when it was idle, and woken by the question"


@pytest.mark.slow
def test_a_folder_of_5000_files_of_other_projects_is_surveyed(tmp_path: Path) -> None:
    folder = tmp_path / "others"
    for number, source in enumerate(islice(other_projects(), 5_000)):
        target = folder / f"project_{number // 1_000}" / f"part_{number // 100 % 10}" / f"{number % 100}_{source.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    done = run("demo", folder, home=tmp_path / "home", timeout=110)
    assert done.returncode == 0, done.stderr
    names = [name.removeprefix("./") for name in tell("find", ".", "-type", "f", "-print0", cwd=folder)]
    assert len(names) == 5_000
    check_report(done.stdout, Facts.of(folder, names))


def other_projects() -> Iterator[Path]:
    """Files of whatever is installed beside us, in a stable order."""
    for root in (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")):
        for parent, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                path = Path(parent, name)
                if (
                    name != ".gitignore"
                    and path.is_file()
                    and not path.is_symlink()
                    and path.stat().st_size < 2_000_000
                ):
                    yield path


def test_an_empty_folder_has_nothing_to_survey(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run("demo", folder, home=tmp_path / "home")
    assert (done.returncode, done.stdout) == (0, "The folder holds no files: there is nothing to survey.\n")


def test_a_missing_path_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    done = run("demo", tmp_path / "nowhere", home=tmp_path / "home")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}/nowhere: there is no such folder" in done.stderr
    assert not (tmp_path / "home").exists()


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    done = run("demo", tmp_path / "file", home=tmp_path / "home")
    assert done.returncode == 1
    assert "not a folder" in done.stderr
