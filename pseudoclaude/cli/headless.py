"""``pseudoclaude -p "GOAL"``: a team works on a goal without a screen."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import click

from .. import prompts
from ..app import folder_at
from .common import USAGE, async_command
from .formats import FORMATS, output_for
from .narrate import Narrator
from .session import choose_team, run_team

LONGEST_STDIN = 10 * 1024 * 1024
"""Bytes taken from standard input."""


class _Headless(click.Command):
    """Reached by options alone, so its usage names no command."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("pseudoclaude", '-p [OPTIONS] "GOAL"')


@click.command(cls=_Headless)
@click.option("-p", "--print", "headless", is_flag=True, help="Work on GOAL without a screen and print the result.")
@click.argument("goal", required=False)
@click.option("--cwd", type=click.Path(path_type=Path), default=".", help="The folder to work on (default: this one).")
@click.option("-t", "--team", metavar="NAME", help="The team: continued if it exists, else made.")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Continue the newest team of the folder.")
@click.option("--provider", type=click.Choice(["anthropic", "offline"]), help="Who answers (default: anthropic).")
@click.option("--model", default="", help="The model.")
@click.option(
    "--output-format", type=click.Choice(FORMATS), default="text", show_default=True, help="What goes to stdout."
)
@click.option("--max-turns", type=click.IntRange(min=1), help="How many turns each agent may take.")
@click.option("-v", "--verbose", is_flag=True, help="Show on stderr who does what.")
@async_command
async def command(
    headless: bool,
    goal: str | None,
    cwd: Path,
    team: str | None,
    go_on: bool,
    provider: str | None,
    model: str,
    output_format: str,
    max_turns: int | None,
    verbose: bool,
) -> int:
    """Let a team work on GOAL, and print what its lead answers. Text piped in is added to the goal.

    With --continue and no GOAL the team carries on with what is open. With --provider offline built-in rules take
    the place of a model; they can do one thing, a survey of the folder.
    """
    if not headless:
        click.echo('pseudoclaude: options without a command belong to: pseudoclaude -p "GOAL"', err=True)
        return USAGE
    folder = folder_at(cwd)
    told = "\n\n".join(part for part in (goal if goal != "-" else None, _piped_in()) if part)
    if not told and not go_on:
        click.echo('pseudoclaude: what is the goal? pseudoclaude -p "GOAL", or pipe it in', err=True)
        return USAGE
    name = await choose_team(folder, team, go_on=go_on, provider=provider, model=model)
    if provider == "offline" and told and not go_on:
        told = f"{told}\n\n{prompts.render('survey', workspace=folder)}"
    narrator = Narrator() if verbose or (output_format == "text" and sys.stderr.isatty()) else None
    return await run_team(
        name,
        told or None,
        output_for(output_format),
        narrator=narrator,
        provider=provider,
        model=model,
        max_turns=max_turns,
    )


def _piped_in() -> str:
    """What a pipe or a file on standard input holds.

    :raises click.UsageError: when it is more than a goal can be.
    """
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return ""
    data = sys.stdin.buffer.read(LONGEST_STDIN + 1)
    if len(data) > LONGEST_STDIN:
        raise click.UsageError("standard input holds more than 10 MB; put it into a file and name the file in the goal")
    return data.decode("utf-8", "replace").strip()
