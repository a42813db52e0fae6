"""``pseudoclaude mail thread``, ``export`` and ``doctor``: one thread, all mail, and what ails a mailbox."""

from __future__ import annotations

import json
from email.message import EmailMessage
from email.utils import format_datetime
from mailbox import mboxMessage
from typing import TextIO

import click

from ..mail_client import Filed, MailClient
from .common import FAILURE, OK, async_command, json_option, mail_client_for, plain, print_json, team_option
from .mail_objects import message_object


@click.command("thread")
@click.argument("message")
@team_option
@json_option
@async_command
async def thread(message: str, team: str | None, as_json: bool) -> None:
    """Show the messages that belong together with MESSAGE (an id), whoever has them, in the order of sending."""
    client = await mail_client_for(team)
    filed = await client.thread(message)
    if as_json:
        print_json([message_object(client, item) for _, item in filed])
        return
    name = client.team.display_name
    for _, item in filed:
        m = item.message
        click.echo(f"{m.timestamp:%Y-%m-%d %H:%M:%S}  {name(m.sender)} → {name(m.recipient)}: {plain(m.summary)}")
        for line in plain(m.content).splitlines():
            click.echo(f"    {line}")


@click.command("export")
@click.option("--format", "form", type=click.Choice(["jsonl", "mbox"]), default="jsonl", show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.File("w", encoding="utf-8", lazy=True, atomic=True),
    default="-",
    help="The file (default: stdout).",
)
@team_option
@async_command
async def export(form: str, output: TextIO, team: str | None) -> None:
    """Write all mail of a team: as JSON lines, or as an mbox file that mail programs open."""
    client = await mail_client_for(team)
    write = _json_line if form == "jsonl" else _mbox
    output.write("".join([write(client, filed) for filed in await client.everything()]))


@click.command("doctor")
@click.argument("mailboxes", nargs=-1)
@click.option("--mend", is_flag=True, help="Do what loses nothing; without it, only look.")
@team_option
@json_option
@async_command
async def doctor(mailboxes: tuple[str, ...], mend: bool, team: str | None, as_json: bool) -> int:
    """Look for damage in MAILBOXES (default: all of the team). Exits with 1 when something is left that needs you."""
    client = await mail_client_for(team)
    agents = [client.find(name) for name in mailboxes] or client.mailboxes()
    found = [(agent, finding) for agent in agents for finding in await client.examine(agent, mend=mend)]
    if as_json:
        print_json(
            [
                {
                    "mailbox": client.team.display_name(agent),
                    "flaw": finding.flaw,
                    "where": finding.where,
                    "what": finding.what,
                    "remedy": finding.remedy,
                    "start": finding.start,
                    "end": finding.end,
                    "mended": finding.mended,
                }
                for agent, finding in found
            ]
        )
    else:
        for agent, finding in found:
            state = "mended" if finding.mended else "found"
            click.echo(f"{client.team.display_name(agent)}: {state}: {plain(finding.where)}: {plain(finding.what)}")
            if finding.remedy:
                click.echo(f"    {plain(finding.remedy)}")
        if not found:
            click.echo(f"{len(agents)} mailboxes are sound")
    return OK if all(finding.mended for _, finding in found) else FAILURE


def _json_line(client: MailClient, filed: Filed) -> str:
    agent, item = filed
    record = {"mailbox": client.team.display_name(agent), **message_object(client, item)}
    return json.dumps(record, ensure_ascii=False) + "\n"


def _mbox(client: MailClient, filed: Filed) -> str:
    agent, item = filed
    m, name = item.message, client.team.display_name
    domain = f"{client.team.name}.invalid"
    letter = EmailMessage()
    letter["From"] = f"{name(m.sender)}@{domain}"
    letter["To"] = f"{name(m.recipient)}@{domain}"
    letter["Subject"] = " ".join(plain(m.summary).split()) or "(none)"
    letter["Date"] = format_datetime(m.timestamp)
    letter["Message-ID"] = f"<{m.id}@{domain}>"
    if m.in_reply_to:
        letter["In-Reply-To"] = f"<{m.in_reply_to}@{domain}>"
    letter["X-Pseudoclaude-Type"] = plain(m.type)
    letter["X-Pseudoclaude-Mailbox"] = name(agent)
    letter.set_content(m.content)
    stored = mboxMessage(letter)
    stored.set_from(name(m.sender), m.timestamp.timetuple())
    stored.set_flags("RO" if item.read else "O")
    return f"From {stored.get_from()}\n{stored.as_bytes(unixfrom=False).decode('utf-8', 'replace')}\n"
