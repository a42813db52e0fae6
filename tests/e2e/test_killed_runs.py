"""A run that is killed at any moment is carried on by the same command with --continue."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.e2e.support import COMMAND, Traces, environment, only_team, run

MOMENTS = 50
SEED = 20_261_130


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "shop"
    for name in ("cart", "stock", "mailer", "billing"):
        package = folder / name
        package.mkdir(parents=True)
        (package / "core.py").write_text(f'"""The {name}."""\n\n# TODO: {name} needs limits\nVALUE = 1\n' * 9)
        (package / "notes.md").write_text(f"# {name}\n\nFIXME say more\n")
    (folder / "cart" / "test_core.py").write_text("def test_nothing() -> None: ...\n")
    return folder


@pytest.fixture(scope="module")
def undisturbed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Traces]:
    home = tmp_path_factory.mktemp("undisturbed")
    finished = run("demo", project, home=home)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, only_team(home)


def start_and_kill(project: Path, home: Path, after: float, *options: str) -> None:
    """Run the demo and kill it with -9 after so many seconds, if it is still there."""
    child = subprocess.Popen(
        [*COMMAND, "demo", str(project), *options],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        child.wait(after)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(5))
def test_a_run_killed_at_random_moments_is_finished_by_continuing(
    part: int, project: Path, undisturbed: tuple[str, Traces], tmp_path: Path
) -> None:
    report, whole = undisturbed
    chance = random.Random(SEED + part)
    for moment in range(MOMENTS // 5):
        home = tmp_path / str(moment)
        start_and_kill(project, home, chance.uniform(0.3, 1.4))
        if chance.random() < 0.3:  # the second try may be killed, too
            start_and_kill(project, home, chance.uniform(0.5, 1.2), "--continue")
        finished = run("demo", project, "--continue", home=home)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout == report
        traces = only_team(home)
        traces.assert_each_message_arrived_once()
        traces.assert_each_call_sent_once()
        texts = [line for line in traces.mail() if line[2] == "text"]
        assert texts == [line for line in whole.mail() if line[2] == "text"]
