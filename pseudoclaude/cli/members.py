"""``pseudoclaude members``: who is in a team and what everybody is doing."""

from __future__ import annotations

import click

from .common import async_command, client_for, json_option, plain, print_json, team_option


@click.command(short_help="List the agents of a team and what they do.")
@team_option
@json_option
@async_command
async def command(team: str | None, as_json: bool) -> None:
    """List the lead and the members of a team, with their states and unread mail."""
    client = await client_for(team)
    views = await client.agents()
    if as_json:
        print_json(
            [
                {
                    "name": view.name,
                    "agent_id": view.agent_id,
                    "state": view.state,
                    "why": view.why,
                    "unread": view.unread,
                    "description": view.description,
                    "model": view.model,
                }
                for view in views
            ]
        )
        return
    for view in views:
        why = f"  ({plain(view.why)})" if view.why else ""
        click.echo(f"{view.name:<16} {view.state:<9} {view.unread:>3} unread  {plain(view.description)}{why}")
