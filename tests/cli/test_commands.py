"""The command line as scripts see it: exit codes, stdout, stderr, JSON."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.e2e.support import only_team, run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "My Work!"
    folder.mkdir()
    (folder / "app.py").write_text("# TODO name things\n", "utf-8")
    return folder


def test_version_and_help_go_to_stdout(home: Path) -> None:
    assert run("--version", home=home).stdout.strip() == run("-V", home=home).stdout.strip()
    for page in (("-h",), ("demo", "--help"), ("mail", "-h"), ("-p", "--help")):
        shown = run(*page, home=home)
        assert shown.returncode == 0
        assert shown.stdout.startswith("Usage: pseudoclaude")


@pytest.mark.parametrize("arguments", [("mial",), ("tem", "list"), ("-p",), ("--cwd", "."), ("mail", "nothing")])
def test_wrong_usage_is_exit_code_2_and_makes_nothing(arguments: tuple[str, ...], home: Path) -> None:
    done = run(*arguments, home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert not home.exists()


def test_a_misspelt_command_is_no_prompt(home: Path) -> None:
    assert "Did you mean mail?" in run("mial", home=home).stderr


def test_a_team_is_named_after_its_folder_with_the_next_free_number(home: Path, work: Path) -> None:
    names = [json.loads(run("team", "create", "--json", cwd=work, home=home).stdout)["name"] for _ in range(3)]
    assert names == ["my-work", "my-work-2", "my-work-3"]
    assert [team["name"] for team in json.loads(run("team", "list", "--json", home=home).stdout)] == names[::-1]


def test_a_taken_name_is_refused(home: Path, work: Path) -> None:
    (home / "teams" / "other").mkdir(parents=True)
    (home / "teams" / "other" / "config.json").write_text("{}", "utf-8")
    done = run("team", "create", "Other", "--cwd", work, home=home)
    assert done.returncode == 1
    assert "this name is taken" in done.stderr
    assert [file.name for file in (home / "teams" / "other").iterdir()] == ["config.json"]


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "", "a\nb", "C:x", "x" * 300, ".hidden", "lead.json.lock"])
def test_a_name_that_leaves_the_folder_is_refused(name: str, home: Path, work: Path) -> None:
    assert run("team", "create", "real", "--cwd", work, home=home).returncode == 0
    before = sorted(home.rglob("*"))
    if name:  # without one a team is named after its folder
        assert run("team", "create", name, "--cwd", work, home=home).returncode != 0
    for arguments in (
        ("team", "show", name or "../"),
        ("mail", "send", name, "hello", "--team", "real"),
        ("mail", "list", name, "--team", "real"),
        ("mail", "check", "--team", name or "../"),
        ("members", "--team", name or "../"),
    ):
        done = run(*arguments, home=home)
        assert done.returncode != 0, arguments
        assert "Traceback" not in done.stderr
    assert sorted(home.rglob("*")) == before


def test_folders_and_files_are_the_persons_alone(home: Path, work: Path) -> None:
    assert run("demo", work, home=home).returncode == 0
    for path in (home / "teams").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path}: {mode:o}"


def test_mail_can_be_sent_listed_read_checked_and_marked(home: Path, work: Path) -> None:
    run("team", "create", "t", "--cwd", work, home=home)
    assert run("mail", "check", "lead", "--team", "t", home=home).returncode == 1

    sent = run(
        "mail", "send", "lead", "-", "--team", "t", "--json", home=home, stdin="First line\nsecond \x1b[31mline\n"
    )
    told = json.loads(sent.stdout)
    assert told["deliveries"][0]["index"] == 0
    assert run("mail", "check", "lead", "--team", "t", home=home).returncode == 0

    (listed,) = json.loads(run("mail", "list", "lead", "--team", "t", "--json", home=home).stdout)
    assert (listed["summary"], listed["from_name"], listed["read"]) == ("First line", "user", False)
    assert listed["id"] == told["message_id"]
    for wanted in ("0", told["message_id"]):
        shown = run("mail", "read", wanted, "--mailbox", "lead", "--team", "t", home=home)
        assert "second \ufffd[31mline" in shown.stdout

    refused = run("mail", "mark-read", "0", "--mailbox", "lead", "--team", "t", home=home)
    assert refused.returncode == 2
    assert run("mail", "check", "lead", "--team", "t", home=home).returncode == 0
    assert run("mail", "mark-read", "0", "--mailbox", "lead", "--force", "--team", "t", home=home).returncode == 0
    assert run("mail", "check", "lead", "--team", "t", home=home).returncode == 1
    assert "mark-read" in (home / "teams" / "t" / "journal.jsonl").read_text("utf-8")


def test_errors_of_mail_check_are_not_mistaken_for_no_mail(home: Path, work: Path) -> None:
    assert run("mail", "check", "--team", "nothing", home=home).returncode == 2
    assert run("mail", "check", cwd=work, home=home).returncode == 2


def test_an_index_or_id_that_is_not_there_is_named(home: Path, work: Path) -> None:
    run("team", "create", "t", "--cwd", work, home=home)
    assert "has no message 7" in run("mail", "read", "7", "--team", "t", home=home).stderr
    assert "no message 'xyz'" in run("mail", "read", "xyz", "--team", "t", home=home).stderr
    assert run("mail", "mark-read", "3", "--team", "t", home=home).returncode == 1


def test_there_is_nothing_to_stop_in_a_team_that_nobody_runs(home: Path, work: Path) -> None:
    run("team", "create", "t", "--cwd", work, home=home)
    done = run("stop", "--team", "t", home=home)
    assert done.returncode == 1
    assert "nothing runs the team t" in done.stderr


def test_without_a_key_the_remedy_is_named_and_no_team_is_made(home: Path, work: Path) -> None:
    done = run("-p", "hello", "--cwd", work, home=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert not (home / "teams").exists()


def test_text_output_is_the_answer_alone_and_json_is_one_object(home: Path, work: Path) -> None:
    text = run("-p", "survey", "--provider", "offline", "--cwd", work, "--team", "a", home=home)
    assert (text.returncode, text.stderr) == (0, "")
    assert "app.py:1" in text.stdout

    done = run(
        *("-p", "--provider", "offline", "--cwd", work, "--team", "b", "--output-format", "json"),
        home=home,
        stdin="go on",
    )
    result = json.loads(done.stdout)
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", False)
    assert "app.py:1" in result["result"]
    assert result["num_turns"] > 3


def test_stream_json_begins_with_init_ends_with_the_result_and_says_who_speaks(home: Path, work: Path) -> None:
    done = run(*("-p", "survey", "--provider", "offline", "--cwd", work, "--output-format", "stream-json"), home=home)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    first, last = lines[0], lines[-1]
    assert (first["type"], first["subtype"], first["cwd"]) == ("system", "init", str(work))
    assert "SendMessage" in first["tools"]
    assert (last["type"], last["subtype"]) == ("result", "success")
    assert {line["session_id"] for line in lines} == {first["session_id"]}
    assert len({line["uuid"] for line in lines}) == len(lines)

    calls = {
        (line["agent_id"], block["id"])
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
        if block["type"] == "tool_use"
    }
    results = {
        (line["agent_id"], block["tool_use_id"])
        for line in lines
        if line["type"] == "user"
        for block in line["message"]["content"]
    }
    assert calls == results
    leads = [line for line in lines if line["type"] == "assistant" and line["agent_name"] == "lead"]
    others = [line for line in lines if line["type"] == "assistant" and line["agent_name"] != "lead"]
    assert {line["parent_tool_use_id"] for line in leads} == {None}
    assert others
    assert None not in {line["parent_tool_use_id"] for line in others}
    states = {line["subtype"] for line in lines if line["type"] == "system"}
    assert states == {"init", "team_member", "team_mail", "team_task"}


def test_a_limit_of_turns_ends_the_run_and_is_named(home: Path, work: Path) -> None:
    done = run(
        *("-p", "survey", "--provider", "offline", "--cwd", work, "--max-turns", "2", "--output-format", "json"),
        home=home,
    )
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert (result["subtype"], result["is_error"], result["num_turns"]) == ("error_max_turns", True, 2)
    assert "--max-turns" in result["errors"][0]


def test_a_reader_that_goes_away_is_no_error(home: Path, work: Path) -> None:
    import subprocess

    from tests.e2e.support import COMMAND, environment

    with subprocess.Popen(
        [*COMMAND, "-p", "survey", "--provider", "offline", "--cwd", str(work), "--output-format", "stream-json"],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert "Traceback" not in child.stderr.read()


def test_what_a_model_or_a_file_says_cannot_drive_the_terminal(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "a\x1b]0;owned\x07.py").write_text("# TODO \x1b[2J clear\n", "utf-8")
    done = run("demo", folder, home=home)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "TODO" in done.stdout


def test_continue_carries_on_with_the_newest_team_of_the_folder(home: Path, work: Path) -> None:
    first = run("demo", work, home=home)
    again = run("demo", work, "--continue", home=home)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    only_team(home).assert_each_message_arrived_once()
