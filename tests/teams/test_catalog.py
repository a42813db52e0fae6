"""The teams on disk: which are listed, which names are free, what a broken one does to the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pseudoclaude.errors import StorageError
from pseudoclaude.ids import TeamName
from pseudoclaude.teams.catalog import TeamCatalog


def put(root: Path, name: str, workspace: Path | str = "/work", created_at: str = "2026-01-01T00:00:00Z") -> Path:
    folder = root / "teams" / name
    folder.mkdir(parents=True)
    value: dict[str, Any] = {
        "name": name,
        "workspace": str(workspace),
        "lead": {"agent_id": "lead-1"},
        "members": [
            {"name": "alice", "agent_id": "alice-1", "prompt": ""},
            {"name": "bob", "agent_id": "bob-1", "prompt": "", "ended_at": created_at},
        ],
        "created_at": created_at,
    }
    (folder / "team.json").write_text(json.dumps(value))
    return folder


def test_nothing_is_there_before_the_first_team_and_nothing_is_made_by_looking(tmp_path: Path) -> None:
    catalog = TeamCatalog(tmp_path / "root")
    assert catalog.names() == []
    assert catalog.summaries() == []
    assert catalog.newest_for(tmp_path) is None
    assert not catalog.is_taken(TeamName("survey"))
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_ours_with_a_legal_name_are_teams(tmp_path: Path) -> None:
    put(tmp_path, "survey")
    put(tmp_path, "Audit")
    for name in (".hidden", "a b", "x.lock", "cafe\u0301"):
        put(tmp_path, name)
    (tmp_path / "teams" / "theirs").mkdir()
    (tmp_path / "teams" / "theirs" / "config.json").write_text("{}")
    (tmp_path / "teams" / "file").write_text("")
    (tmp_path / "teams" / "odd" / "team.json").mkdir(parents=True)
    (tmp_path / "teams" / "loop").symlink_to("loop")
    assert TeamCatalog(tmp_path).names() == ["Audit", "survey"]


@pytest.mark.parametrize("there", ["survey", "SURVEY", "Survey"])
def test_a_name_is_taken_in_any_case_by_any_folder(tmp_path: Path, there: str) -> None:
    (tmp_path / "teams" / there / "mine").mkdir(parents=True)
    assert TeamCatalog(tmp_path).is_taken(TeamName("sUrvey"))


def test_a_name_is_taken_in_either_normal_form(tmp_path: Path) -> None:
    (tmp_path / "teams" / "CAFE\u0301" / "mine").mkdir(parents=True)
    assert TeamCatalog(tmp_path).is_taken(TeamName("café"))


def test_the_free_name_is_the_base_or_the_next_number(tmp_path: Path) -> None:
    catalog, base = TeamCatalog(tmp_path), TeamName("survey")
    for expected in ("survey", "survey-2", "survey-3"):
        assert catalog.free_name(base) == expected
        (tmp_path / "teams" / expected.upper() / "mine").mkdir(parents=True)
    (tmp_path / "teams" / "SURVEY-2" / "mine").rmdir()
    assert catalog.free_name(base) == "survey-2"


@pytest.mark.parametrize("longest", ["x" * 64, "x" * 61 + "-y9", "\u4e2d" * 64])
def test_the_free_name_of_a_longest_name_is_legal_and_free(tmp_path: Path, longest: str) -> None:
    catalog, base = TeamCatalog(tmp_path), TeamName(longest)
    seen = set()
    for _ in range(12):
        name = catalog.free_name(base)
        seen.add(name)
        (tmp_path / "teams" / name / "mine").mkdir(parents=True)
    assert len(seen) == 12
    assert all(str(name)[:30] == longest[:30] for name in seen)


def test_a_summary_shows_where_a_team_works_and_who_is_present(tmp_path: Path) -> None:
    folder = put(tmp_path, "survey", workspace=tmp_path)
    (summary,) = TeamCatalog(tmp_path).summaries()
    assert (summary.name, summary.path, summary.workspace) == ("survey", folder, tmp_path)
    assert summary.members == ("alice",)
    assert summary.created_at is not None
    assert summary.created_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert summary.error == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"name": "../x"}',
        b"[" * 200_000,
        b'{"name": "broken"}',
        b'{"name": "\\ud800"}',
        b"null",
        b"1" * 5000,
    ],
)
def test_a_broken_team_says_so_and_hides_no_other(tmp_path: Path, content: bytes) -> None:
    folder = put(tmp_path, "broken", workspace=tmp_path)
    (folder / "team.json").write_bytes(content)
    put(tmp_path, "survey", workspace=tmp_path)
    broken, survey = TeamCatalog(tmp_path).summaries()
    assert str(folder / "team.json") in broken.error
    assert (broken.name, broken.workspace, broken.created_at, broken.members) == ("broken", None, None, ())
    assert survey.error == ""
    assert TeamCatalog(tmp_path).newest_for(tmp_path) == "survey"


def test_a_copied_folder_that_still_says_its_old_name_is_an_error_in_the_list(tmp_path: Path) -> None:
    folder = put(tmp_path, "survey")
    folder.rename(folder.with_name("copy"))
    (summary,) = TeamCatalog(tmp_path).summaries()
    assert "'survey'" in summary.error


def test_the_newest_team_of_a_folder_is_found_through_links(tmp_path: Path) -> None:
    work, link = tmp_path / "work", tmp_path / "link"
    work.mkdir()
    link.symlink_to(work)
    put(tmp_path, "first", workspace=work, created_at="2026-03-01T00:00:00Z")
    put(tmp_path, "newest", workspace=link, created_at="2026-03-02T01:00:00+03:00")
    put(tmp_path, "naive", workspace=work, created_at="2026-03-01T12:00:00")
    put(tmp_path, "elsewhere", workspace=tmp_path, created_at="2026-03-03T00:00:00Z")
    catalog = TeamCatalog(tmp_path)
    assert catalog.newest_for(work) == catalog.newest_for(link) == "newest"
    assert catalog.newest_for(work / ".." / "work") == "newest"
    assert catalog.newest_for(tmp_path / "other") is None


@pytest.mark.parametrize("workspace", ["a\0b", "/" + "x" * 5000])
def test_a_workspace_that_no_path_can_hold_disturbs_nobody(tmp_path: Path, workspace: str) -> None:
    put(tmp_path, "odd", workspace=workspace, created_at="2027-01-01T00:00:00Z")
    put(tmp_path, "survey", workspace=tmp_path)
    assert TeamCatalog(tmp_path).newest_for(tmp_path) == "survey"


def test_a_root_that_is_no_folder_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "teams").write_text("")
    with pytest.raises(StorageError, match="teams"):
        TeamCatalog(tmp_path).names()


def test_a_folder_that_a_killed_process_left_behind_is_free(tmp_path: Path) -> None:
    left = tmp_path / "teams" / "half"
    left.mkdir(parents=True)
    (left / ".team.json.lock").touch()
    assert not TeamCatalog(tmp_path).is_taken(TeamName("half"))
    (left / "notes.txt").touch()
    assert TeamCatalog(tmp_path).is_taken(TeamName("half"))
