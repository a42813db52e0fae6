"""Every mail verb works on our logs, on the Go program's boxes and on Claude Code's inboxes, found by their files."""

from __future__ import annotations

import json
import mailbox
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support import run

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["log", "box", "go", "claude"])
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    """A team of each format, with a lead and the member ``worker``; call it with a command's arguments."""
    home, claude, work = tmp_path / "home", tmp_path / "claude", tmp_path / "work"
    work.mkdir()
    if request.param in ("log", "box"):
        assert run("team", "create", "crew", "--cwd", work, "--format", request.param, home=home).returncode == 0
        add_member(home / "teams" / "crew" / "team.json")
    elif request.param == "go":
        folder = home / "teams" / "crew"
        (folder / "inboxes").mkdir(parents=True)
        members = [{"name": "lead", "agent_id": "lead-crew"}, {"name": "worker", "agent_id": "team-crew-worker-17"}]
        config = {"name": "crew", "project_root": str(work), "lead_agent_id": "lead-crew", "members": members}
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
    else:
        folder = claude / "teams" / "crew"
        (folder / "inboxes").mkdir(parents=True)
        members = [{"name": name, "agentId": f"{name}@crew", "cwd": str(work)} for name in ("team-lead", "worker")]
        config = {"name": "crew", "leadAgentId": "team-lead@crew", "members": members}
        (folder / "config.json").write_text(json.dumps(config), "utf-8")

    def cli(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return run(*arguments, "--team", "crew", home=home, stdin=stdin, CLAUDE_CONFIG_DIR=str(claude))

    return cli


def add_member(roster: Path) -> None:
    """Put a member into a roster by hand."""
    value = json.loads(roster.read_text("utf-8"))
    value["members"] = [{"name": "worker", "agent_id": "worker-01", "prompt": "work"}]
    roster.write_text(json.dumps(value), "utf-8")


def test_mail_is_sent_listed_read_checked_marked_and_examined(team: Cli) -> None:
    assert team("mail", "check", "worker").returncode == 1
    for text in ("first\nwith a second line", "second"):
        sent = team("mail", "send", "worker", "-", stdin=text)
        assert sent.returncode == 0, sent.stderr
        assert "stored" in sent.stdout
    listed = json.loads(team("mail", "list", "worker", "--json").stdout)
    assert [(item["summary"], item["read"], item["from_name"]) for item in listed] == [
        ("first", False, "user"),
        ("second", False, "user"),
    ]
    assert "with a second line" in team("mail", "read", "0", "--mailbox", "worker").stdout
    assert "second" in team("mail", "read", listed[1]["id"], "-m", "worker").stdout
    assert team("mail", "check", "worker").stdout == "2 unread\n"

    assert team("mail", "mark-read", "0", "--mailbox", "worker", "--force").returncode == 0
    unread = json.loads(team("mail", "list", "worker", "--unread", "--json").stdout)
    assert [item["summary"] for item in unread] == ["second"]
    doctor = team("mail", "doctor")
    assert (doctor.returncode, "sound" in doctor.stdout) == (0, True), doctor.stdout


def test_a_thread_is_shown_and_all_mail_exported(team: Cli, tmp_path: Path) -> None:
    team("mail", "send", "worker", "How far are you?")
    team("mail", "send", "lead", "Something else")
    (question,) = json.loads(team("mail", "list", "worker", "--json").stdout)
    thread = json.loads(team("mail", "thread", question["id"], "--json").stdout)
    assert [item["summary"] for item in thread] == ["How far are you?"]
    assert team("mail", "thread", "nothing").returncode == 1

    lines = [json.loads(line) for line in team("mail", "export").stdout.splitlines()]
    assert sorted(line["summary"] for line in lines) == ["How far are you?", "Something else"]
    file = tmp_path / "all.mbox"
    assert team("mail", "export", "--format", "mbox", "-o", str(file)).returncode == 0
    box = mailbox.mbox(file)
    assert sorted(str(letter["Subject"]) for letter in box) == ["How far are you?", "Something else"]
    box.close()


def test_an_unknown_recipient_is_refused_and_makes_no_file(team: Cli, tmp_path: Path) -> None:
    team("mail", "send", "worker", "hello")
    before = sorted(tmp_path.rglob("*"))
    refused = team("mail", "send", "wroker", "hello")
    assert refused.returncode == 1
    assert "did you mean 'worker'?" in refused.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_unread_mail_of_an_ended_member_is_listed_as_dead(tmp_path: Path) -> None:
    run("team", "create", "crew", "--cwd", tmp_path, home=tmp_path / "home")
    roster = tmp_path / "home" / "teams" / "crew" / "team.json"
    add_member(roster)
    assert run("mail", "send", "worker", "too late", "--team", "crew", home=tmp_path / "home").returncode == 0
    assert run("mail", "list", "--dead", "--team", "crew", home=tmp_path / "home").stdout == ""
    value = json.loads(roster.read_text("utf-8"))
    value["members"][0]["ended_at"] = "2026-01-01T00:00:00Z"
    roster.write_text(json.dumps(value), "utf-8")
    assert "too late" in run("mail", "list", "--dead", "--team", "crew", home=tmp_path / "home").stdout
    refused = run("mail", "send", "worker", "again", "--team", "crew", home=tmp_path / "home")
    assert (refused.returncode, "ended" in refused.stderr) == (1, True)
