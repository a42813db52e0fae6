"""One process runs a team with idle members; another writes to them, stops them, looks at them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from pseudoclaude import open_team
from pseudoclaude.errors import TeamLedElsewhereError
from tests.e2e.support import COMMAND, Traces, environment, run

HOLDER = Path(__file__).with_name("hold_team.py")
ROUNDS = 100
AWAKE_WITHIN = 2.0


class Lines:
    """Lines of a child's output, as they come."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._text = TextReceiveStream(process.stdout)
        self._rest = ""

    async def next(self) -> str:
        """The next whole line."""
        while "\n" not in self._rest:
            self._rest += await self._text.receive()
        line, self._rest = self._rest.split("\n", 1)
        return line

    async def until(self, wanted: str) -> None:
        """Read up to this line."""
        while await self.next() != wanted:
            pass


@asynccontextmanager
async def held_team(home: Path, folder: Path, **extra: str) -> AsyncIterator[tuple[Process, Lines]]:
    """A team that another process runs, its members idle."""
    async with await anyio.open_process(
        [sys.executable, str(HOLDER), str(folder)],
        env=environment(home, PYTHONPATH=str(Path.cwd()), **extra),
        stdin=subprocess.DEVNULL,
        stderr=None,
    ) as process:
        lines = Lines(process)
        try:
            with anyio.fail_after(30):
                await lines.until("ready")
            yield process, lines
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("notify", ["true", "false"])
async def test_mail_of_another_process_wakes_an_idle_member_every_time(notify: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with held_team(home, folder, PSEUDOCLAUDE_MAIL__NOTIFY=notify) as (_, lines):
        client = await open_team("held", root=home)
        slowest = 0.0
        for number in range(ROUNDS):
            name = ("alice", "bob")[number % 2]
            began = time.monotonic()
            result = await client.send(name, summary=f"message {number}", content="Are you there?")
            with anyio.fail_after(AWAKE_WITHIN):
                await lines.until(f"{name} {result.message_id}")
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < AWAKE_WITHIN
    Traces(home / "teams" / "held").assert_each_message_arrived_once()


async def test_the_command_line_reaches_a_team_that_another_process_runs(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with held_team(home, folder) as (process, lines):

        async def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
            return await anyio.to_thread.run_sync(lambda: run(*arguments, "--team", "held", home=home))

        sent = await cli("mail", "send", "alice", "hello", "--json")
        told = json.loads(sent.stdout)
        assert told["attention"] == f"process {process.pid} runs this team"
        with anyio.fail_after(AWAKE_WITHIN):
            await lines.until(f"alice {told['message_id']}")

        members = json.loads((await cli("members", "--json")).stdout)
        assert {member["name"]: member["state"] for member in members} == {
            "lead": "idle",
            "alice": "idle",
            "bob": "idle",
        }

        stopped = await cli("stop", "alice")
        assert (stopped.returncode, stopped.stdout) == (0, "alice is not running\n")

        unknown = await cli("mail", "send", "alise", "hello")
        assert unknown.returncode == 1
        assert "did you mean 'alice'?" in unknown.stderr


async def test_only_one_process_leads(tmp_path: Path) -> None:
    from pseudoclaude import FunctionProvider, Team

    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with held_team(home, folder) as (process, _):
        with pytest.raises(TeamLedElsewhereError, match=f"process {process.pid} runs this team"):
            async with Team("held", root=home, provider=FunctionProvider(lambda request: "")):
                pytest.fail("two processes lead one team")
        refused = await anyio.to_thread.run_sync(
            lambda: run("-p", "more", "--team", "held", "--provider", "offline", home=home)
        )
        assert refused.returncode == 75
        assert f"process {process.pid} runs this team" in refused.stderr


async def test_a_team_that_is_killed_can_be_led_again_at_once(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    async with held_team(home, folder) as (process, _):
        process.kill()
        await process.wait()
    client = await open_team("held", root=home)
    assert await client.led_by() is None
    waiting = await client.send("alice", summary="for later", content="Read this when you are back.")
    async with held_team(home, folder):
        Traces(home / "teams" / "held").assert_each_message_arrived_once()
    delivered = [
        id for line in Traces(home / "teams" / "held").transcript(client.find("alice")) for id in line.get("mail", [])
    ]
    assert waiting.message_id in delivered


def test_mail_to_a_team_that_nobody_runs_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert run("team", "create", "quiet", "--cwd", folder, home=tmp_path).returncode == 0
    sent = run("mail", "send", "lead", "hello", "--team", "quiet", home=tmp_path)
    assert sent.returncode == 0
    assert "stored; nothing runs this team, it is read at the next start" in sent.stdout


def test_an_orderly_stop_on_ctrl_c_can_be_continued(tmp_path: Path) -> None:
    import signal

    folder = tmp_path / "work"
    folder.mkdir()
    for number in range(40):
        (folder / f"module_{number}.py").write_text("# TODO more\n" * 50)
    child = subprocess.Popen(
        [*COMMAND, "demo", str(folder)],
        env=environment(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    for line in child.stderr:  # the lead is at work
        if "starts" in line:
            break
    child.send_signal(signal.SIGINT)
    child.stderr.read()
    child.stderr.close()
    assert child.wait(3) == 130
    finished = run("demo", folder, "--continue", home=tmp_path / "home")
    assert finished.returncode == 0, finished.stderr
    assert "module_39.py" in finished.stdout
