"""``pseudoclaude demo``: a survey team at work on a folder, without a key."""

from __future__ import annotations

from pathlib import Path

import click

from .. import paths, prompts
from ..app import folder_at, open_team
from ..ids import TeamName
from .common import async_command
from .formats import TextOutput
from .narrate import Narrator
from .session import choose_team, run_team


@click.command(short_help="Let a team survey a folder; needs no key.")
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Carry on with the newest team of this folder.")
@click.option(
    "--provider",
    type=click.Choice(["offline", "anthropic"]),
    help="Who answers: built-in rules (the default), or a model.",
)
@click.option("--model", default="", help="The model, with --provider anthropic.")
@async_command
async def command(path: Path, go_on: bool, provider: str | None, model: str) -> int:
    """Let a team of agents survey the folder PATH (default: this one): languages, biggest files, every TODO and
    FIXME, modules without tests. It only reads there. No key is needed: built-in rules take the place of a model."""
    folder = folder_at(path)
    name = await choose_team(folder, None, go_on=go_on, provider=provider or "offline", model=model)
    goal = prompts.render("survey", workspace=folder) if not await _has_begun(name) else None
    click.echo(f"team {name} surveys {folder}", err=True)
    code = await run_team(name, goal, TextOutput(), narrator=Narrator(), provider=provider, model=model)
    _say_where(name, folder)
    return code


async def _has_begun(name: TeamName) -> bool:
    """Whether the lead of this team has its goal already."""
    return await (await open_team(name)).has_begun()


def _say_where(name: TeamName, workspace: Path) -> None:
    folder = paths.TeamPaths(paths.root(), name).folder
    click.echo(
        f"""
Everything the team said and did is in {folder}
  who is in it      pseudoclaude members --team {name}
  all its mail      pseudoclaude mail list lead --team {name}
  one message       pseudoclaude mail read INDEX --mailbox lead --team {name}
  conversations     {folder}/sessions/*.jsonl
  the task board    pseudoclaude team show {name}
  carry on          pseudoclaude demo {workspace} --continue""",
        err=True,
    )
