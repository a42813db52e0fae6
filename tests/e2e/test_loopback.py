"""The same team with the same prompts, once through the real SDK and HTTP, once without: the same mail on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from pseudoclaude.providers.offline import answer
from pseudoclaude.testing import serve_provider
from tests.e2e.support import only_team, run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for package in ("api", "db", "ui"):
        (folder / package).mkdir(parents=True)
        (folder / package / f"{package}_main.py").write_text(f'"""The {package}."""\n# FIXME {package}\n', "utf-8")
    (folder / "README.md").write_text("# TODO describe\n", "utf-8")
    return folder


def test_a_team_behind_http_leaves_the_same_mail_as_the_offline_one(project: Path, tmp_path: Path) -> None:
    offline = run("demo", project, home=tmp_path / "offline")
    assert offline.returncode == 0, offline.stderr

    with serve_provider(answer) as server:
        served = run(
            *("demo", project, "--provider", "anthropic"),
            home=tmp_path / "served",
            ANTHROPIC_BASE_URL=server.base_url,
        )
    assert served.returncode == 0, served.stderr
    assert served.stdout == offline.stdout
    assert only_team(tmp_path / "served").mail() == only_team(tmp_path / "offline").mail()
    only_team(tmp_path / "served").assert_each_message_arrived_once()

    systems = {str(body["system"]) for body in server.requests}
    assert any("You are called: lead" in system for system in systems)
    assert any("You are called: alice" in system for system in systems)
    assert all(body["stream"] for body in server.requests)
