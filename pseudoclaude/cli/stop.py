"""``pseudoclaude stop``: end a member's run, or everything that runs in a team."""

from __future__ import annotations

import click

from ..mail import ControlAction
from .common import FAILURE, OK, async_command, client_for, json_option, plain, print_json, team_option


@click.command(short_help="Stop an agent, or the whole team.")
@click.argument("name", required=False)
@team_option
@click.option("--reason", default="", help="Why; the team's journal keeps it.")
@json_option
@async_command
async def command(name: str | None, team: str | None, reason: str, as_json: bool) -> int:
    """Stop what the agent NAME is doing, or the whole team. A stopped agent stays, and new mail wakes it."""
    client = await client_for(team)
    target = client.find(name) if name else None
    answer = await client.control(ControlAction.STOP, target, reason=reason or "stopped from the command line")
    if as_json:
        print_json({"team": client.team.name, "ok": answer.ok, "detail": answer.detail})
    else:
        click.echo(plain(answer.detail), err=not answer.ok)
    return OK if answer.ok else FAILURE
