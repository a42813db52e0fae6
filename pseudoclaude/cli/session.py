"""One run of a team from the command line: which team, with which provider, shown how; and what it exits with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import click

from .. import paths, settings
from ..app import create_team, provider_named
from ..events import Event
from ..ids import TeamName
from ..team import Team, TeamResult
from ..teams.catalog import TeamCatalog
from .common import FAILURE, OK, TRY_LATER, discard_stdout, newest_team, plain
from .formats import Output
from .narrate import Narrator


async def choose_team(folder: Path, name: str | None, *, go_on: bool, provider: str | None, model: str) -> TeamName:
    """The team to run: the named one, with ``go_on`` the newest of the folder, else a new one named after it."""
    root = paths.root()
    catalog = TeamCatalog(root)
    if name is not None and any(team.key() == TeamName(name).key() for team in catalog.names()):
        return TeamName(name)
    if go_on and name is None and catalog.newest_for(folder) is not None:
        return TeamName(newest_team(folder))
    if go_on:
        click.echo(f"there is no team to continue for {folder}: this starts a new one", err=True)
    provider_named(provider or "anthropic", settings.load(root))  # fails before anything is stored
    new = TeamName(name) if name is not None else catalog.free_name(TeamName.from_folder(folder.name))
    await create_team(new, folder, provider=provider or "anthropic", model=model)
    return new


async def run_team(
    team_name: TeamName,
    goal: str | None,
    output: Output,
    *,
    narrator: Narrator | None,
    provider: str | None = None,
    model: str = "",
    max_turns: int | None = None,
) -> int:
    """Run a team until nobody has anything left to do; the exit code.

    :param goal: what the lead is told; None to carry on with what is open.
    """
    chosen = settings.load(paths.root())
    gone = anyio.CancelScope()
    team = Team(
        team_name,
        provider=provider,
        model=model,
        max_turns=max_turns,
        chosen=chosen,
        listeners=[_until_gone(output, gone), *([narrator] if narrator else [])],
    )
    output.attach(team)
    code = OK
    with gone:
        async with team:
            result = await (team.run(goal) if goal is not None else team.settle())
            output.end(result)
            _explain(team, result)
        code = exit_code(result)
    if gone.cancelled_caught:
        discard_stdout()
    return code


def _until_gone(output: Output, gone: anyio.CancelScope) -> Callable[[Event], None]:
    """Pass events to an output, and end the run when nobody reads it any more."""

    def listen(event: Event) -> None:
        try:
            output.event(event)
        except BrokenPipeError:
            gone.cancel()

    return listen


def exit_code(result: TeamResult) -> int:
    """0 for a finished goal, 75 when trying again later may help, else 1."""
    if result.ok:
        return OK
    return TRY_LATER if result.passing else FAILURE


def _explain(team: Team, result: TeamResult) -> None:
    if not result.ok:
        click.echo(f"pseudoclaude: the lead did not finish: {result.status}: {plain(result.error)}", err=True)
    for name, why in result.unfinished.items():
        if name != "lead":
            click.echo(f"pseudoclaude: {name} has not finished: {plain(why)}", err=True)
    if not result.ok:
        click.echo(f"pseudoclaude: go on with: pseudoclaude -p GOAL --continue --team {team.record.name}", err=True)
