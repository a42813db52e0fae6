"""The command line. Each command is a module of its own, imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from .._version import __version__

_COMMANDS = {
    "demo": "demo",
    "mail": "mail",
    "members": "members",
    "stop": "stop",
    "team": "team",
}
"""Command name to module of this package; each module's ``command`` is the click command."""

_HEADLESS = "run-headless"


class _Commands(click.Group):
    """Finds commands by name and imports only the one that is called.

    A call that begins with an option belongs to the headless mode, ``pseudoclaude -p "goal"``. A call that begins
    with a word must be a command, so that a misspelt one never becomes a prompt.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = "headless" if cmd_name == _HEADLESS else _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(f".{module}", __name__).command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help", "-V", "--version"):
            args = [_HEADLESS, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and args[0] not in _COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ' For a goal, use: pseudoclaude -p "GOAL"'
            raise click.UsageError(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Without a command, a team works on a goal:  pseudoclaude -p "GOAL"  (options: pseudoclaude -p --help)',
)
@click.version_option(__version__, "-V", "--version", message="%(version)s")
def _cli() -> None:
    """Run a team of LLM agents on this machine. They talk by mail, and you can read all of it."""


def main(*args: Any, **kwargs: Any) -> None:
    """The entry point ``pseudoclaude``."""
    _cli(*args, prog_name="pseudoclaude", **kwargs)
