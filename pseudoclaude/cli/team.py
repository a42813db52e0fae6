"""``pseudoclaude team``: make teams and look at them."""

from __future__ import annotations

from pathlib import Path

import click

from .. import paths
from ..app import MailFormat, create_team, folder_at, open_team
from ..ids import TeamName
from ..teams.catalog import TeamCatalog
from .common import async_command, json_option, newest_team, plain, print_json


@click.group(name="team")
def command() -> None:
    """Make teams and look at them."""


@command.command("create")
@click.argument("name", required=False)
@click.option("--cwd", type=click.Path(path_type=Path), default=".", help="The folder it works on (default: this one).")
@click.option("--provider", type=click.Choice(["anthropic", "offline"]), default="anthropic", show_default=True)
@click.option("--model", default="", help="The lead's model.")
@click.option(
    "--format",
    "mail_format",
    type=click.Choice(["log", "box"]),
    default="log",
    show_default=True,
    help="How its mail is stored: our logs, or the boxes of PseudoClaude, the Go program.",
)
@json_option
@async_command
async def create(
    name: str | None, cwd: Path, provider: str, model: str, mail_format: MailFormat, as_json: bool
) -> None:
    """Make the team NAME (default: named after the folder). Nothing runs until it is given a goal."""
    folder = folder_at(cwd)
    catalog = TeamCatalog(paths.root())
    team = TeamName(name) if name else catalog.free_name(TeamName.from_folder(folder.name))
    record = await create_team(team, folder, provider=provider, model=model, mail_format=mail_format)
    where = paths.TeamPaths(paths.root(), record.name).folder
    if as_json:
        print_json({"name": record.name, "folder": str(where), "workspace": str(record.workspace)})
    else:
        click.echo(f"team {record.name} is made; it works on {record.workspace} and is stored in {where}")


@command.command("list")
@json_option
@async_command
async def list_teams(as_json: bool) -> None:
    """List all teams, the newest first."""
    summaries = sorted(TeamCatalog(paths.root()).summaries(), key=lambda s: str(s.created_at or ""), reverse=True)
    rows = []
    for summary in summaries:
        led = None if summary.error else await (await open_team(summary.name)).led_by()
        rows.append((summary, led))
    if as_json:
        print_json(
            [
                {
                    "name": s.name,
                    "workspace": str(s.workspace or ""),
                    "created_at": s.created_at.isoformat() if s.created_at else None,
                    "members": list(s.members),
                    "run_by": led,
                    "error": s.error or None,
                }
                for s, led in rows
            ]
        )
        return
    if not rows:
        click.echo("no teams yet; make one with: pseudoclaude team create NAME", err=True)
    for s, led in rows:
        state = f"unreadable: {s.error}" if s.error else f"run by {led}" if led else "not running"
        click.echo(f"{s.name:<24} {len(s.members):>2} members  {state}  {plain(str(s.workspace or ''))}")


@command.command("show")
@click.argument("name", required=False)
@json_option
@async_command
async def show(name: str | None, as_json: bool) -> None:
    """Show the team NAME (default: the newest of this folder): members, states, tasks."""
    client = await open_team(name or newest_team())
    record, views, tasks, led = client.team, await client.agents(), await client.board.list(), await client.led_by()
    where = paths.TeamPaths(paths.root(), record.name).folder
    if as_json:
        print_json(
            {
                "name": record.name,
                "workspace": str(record.workspace),
                "folder": str(where),
                "provider": record.provider,
                "created_at": record.created_at.isoformat(),
                "run_by": led,
                "agents": [
                    {
                        "name": v.name,
                        "agent_id": v.agent_id,
                        "state": v.state,
                        "why": v.why,
                        "unread": v.unread,
                        "description": v.description,
                    }
                    for v in views
                ],
                "tasks": [task.model_dump(mode="json") for task in tasks],
            }
        )
        return
    click.echo(f"{record.name} works on {record.workspace}, {f'run by {led}' if led else 'not running'}; in {where}")
    for view in views:
        click.echo(f"  {view.name:<16} {view.state:<9} {view.unread} unread  {plain(view.description)}")
    for task in tasks:
        owner = record.display_name(task.owner) if task.owner else "nobody"
        click.echo(f"  {task.id:<4} {task.status:<12} {owner:<16} {plain(task.subject)}")
