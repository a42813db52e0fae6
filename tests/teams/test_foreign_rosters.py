"""Rosters of other programs are read as those programs write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pseudoclaude.errors import TeamError
from pseudoclaude.teams.catalog import TeamCatalog
from pseudoclaude.teams.foreign import ForeignRoster, ForeignTeam, Program

CLAUDE = {
    "name": "session-1",
    "leadAgentId": "team-lead@session-1",
    "members": [
        {"agentId": "team-lead@session-1", "name": "team-lead", "cwd": "/home/user/project"},
        {
            "agentId": "worker@session-1",
            "name": "worker",
            "color": "blue",
            "agentType": "general-purpose",
            "model": "m",
        },
        {"agentId": "human@session-1", "name": "human"},
        {"agentId": "x@session-1", "name": "not/a/name"},
    ],
}
GO = {
    "name": "Crew",
    "lead_agent_id": "lead-crew",
    "project_root": "/work",
    "members": [
        {"name": "lead", "agent_id": "lead-crew"},
        {"name": "bob", "agent_id": "team-crew-bob-17", "agent_type": "worker"},
    ],
}


def put(folder: Path, config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config), "utf-8")
    return folder


async def test_a_team_of_claude_code_has_its_members_by_name_without_the_person(tmp_path: Path) -> None:
    roster = ForeignRoster(ForeignTeam("s", put(tmp_path / "s", CLAUDE), Program.CLAUDE_CODE))
    team = await roster.load()
    assert (team.lead.agent_id, str(team.workspace)) == ("team-lead", "/home/user/project")
    assert [(member.name, member.agent_id, member.model) for member in team.present] == [("worker", "worker", "m")]
    assert roster.colours == {"worker": "blue"}


async def test_a_team_of_the_go_program_has_its_members_by_agent_id(tmp_path: Path) -> None:
    roster = ForeignRoster(ForeignTeam("crew", put(tmp_path / "crew", GO), Program.GO))
    team = await roster.load()
    assert (team.lead.agent_id, str(team.workspace)) == ("lead-crew", "/work")
    assert [(member.name, member.agent_id) for member in team.present] == [("bob", "team-crew-bob-17")]


@pytest.mark.parametrize("config", ["", "{", "[]", "{}", '{"leadAgentId": "x"}', "null", "\0" * 40])
async def test_a_file_that_is_no_roster_is_named_and_left_alone(tmp_path: Path, config: str) -> None:
    folder = put(tmp_path / "s", config)
    with pytest.raises(TeamError, match=r"config\.json"):
        await ForeignRoster(ForeignTeam("s", folder, Program.CLAUDE_CODE)).load()
    assert (folder / "config.json").read_text("utf-8") == config


def test_teams_of_other_programs_are_found_beside_ours(tmp_path: Path) -> None:
    put(tmp_path / "ours" / "teams" / "crew", GO)
    put(tmp_path / "claude" / "teams" / "session-1", CLAUDE)
    (tmp_path / "claude" / "teams" / "empty").mkdir()
    found = TeamCatalog(tmp_path / "ours", tmp_path / "claude").foreign()
    assert [(team.name, team.program) for team in found] == [
        ("crew", Program.GO),
        ("session-1", Program.CLAUDE_CODE),
    ]
