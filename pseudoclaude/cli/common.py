"""What the commands share: running async code, exit codes, choosing a team, printing."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec

import anyio
import click

from .. import paths
from ..client import TeamClient
from ..errors import (
    LeaseHeldError,
    MailboxBusyError,
    ProviderError,
    PseudoclaudeError,
    SettingsError,
    TeamLedElsewhereError,
    UnknownTeamError,
)
from ..mail_client import MailClient

OK, FAILURE, USAGE, TRY_LATER, INTERRUPTED, TERMINATED = 0, 1, 2, 75, 130, 143

P = ParamSpec("P")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Text of a model, a tool or a message, with everything that a terminal would obey made visible."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def exit_code_of(error: PseudoclaudeError) -> int:
    """The exit code that tells a script what kind of error this is."""
    if isinstance(error, SettingsError):
        return USAGE
    if isinstance(error, MailboxBusyError | LeaseHeldError | TeamLedElsewhereError):
        return TRY_LATER
    if isinstance(error, ProviderError) and error.passing:
        return TRY_LATER
    return FAILURE


def fail(error: PseudoclaudeError) -> NoReturn:
    """Say on stderr what went wrong and what to do, and exit."""
    click.echo(f"pseudoclaude: {plain(error.explain())}", err=True)
    sys.exit(exit_code_of(error))


def async_command(function: Callable[P, Awaitable[int | None]]) -> Callable[P, None]:
    """Run an async function as a click command; what it returns is the exit code.

    The first SIGINT or SIGTERM cancels it, so that it ends in order; a second one ends the process at once.
    """

    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            sys.exit(anyio.run(_until_signal, lambda: function(*args, **kwargs)))
        except PseudoclaudeError as error:
            fail(error)
        except BrokenPipeError:  # nobody reads on, and needs no word about it
            discard_stdout()
            sys.exit(OK)

    return command


def discard_stdout() -> None:
    """Let everything that is still to be written to stdout vanish: its reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _until_signal(function: Callable[[], Awaitable[int | None]]) -> int:
    outcome: int | None = None
    error: Exception | None = None
    received = 0

    async def await_signals(scope: anyio.CancelScope) -> None:
        nonlocal received
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                if received:
                    os._exit(128 + number)
                received = number
                scope.cancel()

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(await_signals, scope)
            try:
                outcome = await function()
            except Exception as raised:  # carried out of the task group as it is, not inside an exception group
                error = raised
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    return 128 + received if received else outcome or OK


def print_json(value: Any) -> None:
    """One JSON value on stdout, for programs."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def newest_team(folder: Path | None = None) -> str:
    """The newest team of a folder (default: the current one).

    :raises UnknownTeamError: when it has none.
    """
    from ..teams.catalog import TeamCatalog

    where = folder or Path.cwd()
    catalog = TeamCatalog(paths.root())
    name = catalog.newest_for(where)
    if name is None:
        raise UnknownTeamError(f"for {where}", catalog.names())
    return name


async def client_for(team: str | None) -> TeamClient:
    """A client of the named team, or of the newest one of this folder."""
    from ..app import open_team

    return await open_team(team or newest_team())


async def mail_client_for(team: str | None) -> MailClient:
    """A client of the mail of the named team, whichever program's, or of the newest one of this folder."""
    from ..app import open_mail

    return await open_mail(team or newest_team())


team_option = click.option("--team", "-t", metavar="NAME", help="The team; the newest one of this folder if left out.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
