"""Settings: from the file and the environment, and what is said about those that will not do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from pseudoclaude import paths
from pseudoclaude.errors import InvalidNameError, SettingsError
from pseudoclaude.ids import AgentId, TeamName
from pseudoclaude.paths import TeamPaths
from pseudoclaude.settings import MailSettings, Settings, load


def written(root: Path, value: object) -> Path:
    file = root / "settings.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return file


def refusal(root: Path) -> str:
    with pytest.raises(SettingsError) as refused:
        load(root)
    return refused.value.explain()


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    with capture_logs() as logs:
        chosen = load(tmp_path / "nowhere")
    assert chosen == Settings()
    assert chosen.mail.durability == "disk"
    assert chosen.mail.reminder_tokens == 20_000
    assert chosen.mail.lock_wait == 10
    assert chosen.team.members == 16
    assert logs == []


def test_the_file_overrides_single_settings_of_a_group(tmp_path: Path) -> None:
    written(tmp_path, {"mail": {"durability": "os"}, "team": {"retry_delays": [1, 2.5]}})
    chosen = load(tmp_path)
    assert chosen.mail == MailSettings(durability="os")
    assert chosen.team.retry_delays == (1.0, 2.5)


def test_the_environment_beats_the_file_setting_by_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"mail": {"durability": "disk", "lock_wait": 3}, "team": {"members": 2}})
    monkeypatch.setenv("PSEUDOCLAUDE_MAIL__DURABILITY", "os")
    monkeypatch.setenv("PSEUDOCLAUDE_MAIL__NOTIFY", "false")
    monkeypatch.setenv("PSEUDOCLAUDE_TEAM__RETRY_DELAYS", "[5, 6]")
    monkeypatch.setenv("PSEUDOCLAUDE_MODEL__NAME", "[claude")
    chosen = load(tmp_path)
    assert chosen.mail.durability == "os"
    assert chosen.mail.notify is False
    assert chosen.mail.lock_wait == 3
    assert chosen.team.members == 2
    assert chosen.team.retry_delays == (5.0, 6.0)
    assert chosen.model.name == "[claude"


def test_a_variable_repairs_what_the_file_has_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"mail": {"durability": "paper"}})
    monkeypatch.setenv("PSEUDOCLAUDE_MAIL__DURABILITY", "os")
    assert load(tmp_path).mail.durability == "os"


def test_the_variables_that_children_get_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PSEUDOCLAUDE", "PSEUDOCLAUDE_TEAM", "PSEUDOCLAUDE_AGENT", "PSEUDOCLAUDE_MODEL", "PSEUDOCLAUDE_HOME"):
        monkeypatch.setenv(name, "survey")
    with capture_logs() as logs:
        assert load(tmp_path) == Settings()
    assert logs == []


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ({"mail": {"durabilty": "os"}}, ["mail.durabilty"]),
        ({"mial": {"durability": "os"}}, ["mial.durability"]),
        ({"verbose": True, "mail": {"lock_wait": 1, "x": 1}}, ["mail.x", "verbose"]),
        ({"mail.durability": "os"}, ["mail.durability"]),
    ],
)
def test_an_unknown_key_is_warned_of_with_file_and_key_and_left_out(
    tmp_path: Path, value: dict[str, object], names: list[str]
) -> None:
    file = written(tmp_path, value)
    with capture_logs() as logs:
        chosen = load(tmp_path)
    assert chosen.mail.durability == "disk"
    assert sorted(log["setting"] for log in logs) == names
    assert {log["source"] for log in logs} == {str(file)}
    assert {log["log_level"] for log in logs} == {"warning"}


def test_a_warning_is_given_once_however_often_the_file_is_read(tmp_path: Path) -> None:
    written(tmp_path, {"mail": {"nonsense": 1}})
    with capture_logs() as logs:
        load(tmp_path)
        load(tmp_path)
    assert len(logs) == 1


def test_an_unknown_variable_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSEUDOCLAUDE_MAIL__DURABILTY", "os")
    with capture_logs() as logs:
        load(tmp_path)
    assert [log["setting"] for log in logs] == ["PSEUDOCLAUDE_MAIL__DURABILTY"]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"mail": {"durability": "paper"}}, "mail.durability"),
        ({"mail": {"lock_wait": 0}}, "mail.lock_wait"),
        ({"mail": {"reminder_tokens": "many"}}, "mail.reminder_tokens"),
        ({"mail": "os"}, "mail"),
        ({"mail": None}, "mail"),
        ({"team": {"retry_delays": [-1]}}, "team.retry_delays"),
        ({"team": {"retry_delays": 5}}, "team.retry_delays"),
        ('{"model": {"timeout": NaN}}', "model.timeout"),
        ('{"mail": {"lock_wait": Infinity}}', "mail.lock_wait"),
    ],
)
def test_a_bad_value_is_an_error_that_names_file_and_key(tmp_path: Path, value: object, key: str) -> None:
    file = written(tmp_path, value)
    assert f"{file}: setting {key}: " in refusal(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PSEUDOCLAUDE_MAIL__DURABILITY", ""),
        ("PSEUDOCLAUDE_MAIL__NOTIFY", "perhaps"),
        ("PSEUDOCLAUDE_TEAM__MEMBERS", "-1"),
        ("PSEUDOCLAUDE_TEAM__RETRY_DELAYS", "[1,"),
        ("PSEUDOCLAUDE_MODEL__TIMEOUT", "nan"),
    ],
)
def test_a_bad_variable_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    text = refusal(tmp_path)
    assert variable in text
    assert variable.removeprefix("PSEUDOCLAUDE_").replace("__", ".").lower() in text
    assert "settings.json" not in text


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000, '{"a": 1} x'])
def test_a_file_that_holds_no_object_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    assert str(file) in refusal(tmp_path)


def test_a_file_that_is_no_text_or_no_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(b'{"mail": "\xff"}')
    assert str(file) in refusal(tmp_path)
    file.unlink()
    file.mkdir()
    assert str(file) in refusal(tmp_path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'\xef\xbb\xbf{"mail": {"durability": "os"}}')
    assert load(tmp_path).mail.durability == "os"


def test_settings_are_frozen_and_take_no_misspelt_argument() -> None:
    with pytest.raises(ValidationError):
        Settings().mail.durability = "os"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        MailSettings(durabilty="os")  # type: ignore[call-arg]


# -- where things lie


def test_the_data_root_is_moved_whole_by_one_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PSEUDOCLAUDE_HOME", raising=False)
    assert paths.root() == tmp_path / ".PseudoClaude"
    for value, expected in (("", tmp_path / ".PseudoClaude"), ("/data", Path("/data")), ("~/x", tmp_path / "x")):
        monkeypatch.setenv("PSEUDOCLAUDE_HOME", value)
        assert paths.root() == expected
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", "here")
    assert paths.root() == tmp_path / "here"


def test_a_home_that_nobody_has_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSEUDOCLAUDE_HOME", "~nobody-of-that-name/x")
    with pytest.raises(SettingsError, match="home folder"):
        paths.root()


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "", "a\0b", "C:x", "x" * 300, ".x", "lead.json.lock"])
def test_no_path_is_made_of_a_name_that_leads_elsewhere(name: str) -> None:
    places = TeamPaths(Path("/root"), TeamName("team"))
    with pytest.raises(InvalidNameError):
        places.session(cast(AgentId, name))
    with pytest.raises(InvalidNameError):
        places.state(cast(AgentId, name))
    with pytest.raises(InvalidNameError):
        _ = TeamPaths(Path("/root"), cast(TeamName, name)).folder


def test_a_team_lies_in_one_folder_and_its_keys_below_it() -> None:
    places = TeamPaths(Path("/root"), TeamName("Zoë"))
    assert places.folder == Path("/root/teams/Zoë")
    assert places.session(AgentId("alice-1")) == "sessions/alice-1.jsonl"
    assert places.state(AgentId("alice-1")) == "state/alice-1.json"
