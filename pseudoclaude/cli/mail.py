"""``pseudoclaude mail``: send, list, read, check and mark mail. Looking marks nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from ..errors import PseudoclaudeError, UnknownIndexError
from ..ids import USER, AgentId
from ..mail import SENDABLE, IndexedMessage, MessageType, Priority
from ..mail_client import MailClient
from .common import FAILURE, OK, async_command, json_option, mail_client_for, plain, print_json, team_option
from .mail_files import doctor, export, thread
from .mail_objects import message_object

NONE_UNREAD, CHECK_FAILED = 1, 2


@click.group(name="mail", short_help="Send mail to agents, and look at theirs.")
def command() -> None:
    """Send mail to agents and look at theirs. Nothing here marks a message as read, but mark-read."""


@command.command("send")
@click.argument("to")
@click.argument("content", required=False, default="")
@click.option("--summary", "-s", default="", help="What it is about, in one line (default: the first line of CONTENT).")
@click.option("--type", "kind", type=click.Choice(SENDABLE), default=MessageType.TEXT, help="The type (default: text).")
@click.option("--in-reply-to", metavar="ID", help="The message it answers.")
@click.option("--interrupt", is_flag=True, help="Stop what the recipient is doing.")
@team_option
@json_option
@async_command
async def send(
    to: str,
    content: str,
    summary: str,
    kind: str,
    in_reply_to: str | None,
    interrupt: bool,
    team: str | None,
    as_json: bool,
) -> int:
    """Send CONTENT to TO: a member, several with commas between, "lead", or "all". CONTENT "-" is standard input."""
    text = sys.stdin.read() if content == "-" else content
    client = await mail_client_for(team)
    result = await client.send(
        to,
        summary=summary or next((line.strip() for line in text.splitlines() if line.strip()), ""),
        content=text,
        type=kind,
        in_reply_to=in_reply_to,
        priority=Priority.INTERRUPT if interrupt else Priority.NORMAL,
    )
    state = await client.attention()
    if as_json:
        print_json(
            {
                "message_id": result.message_id,
                "attention": state,
                "deliveries": [
                    {"name": d.name, "agent_id": d.agent_id, "index": d.index, "error": d.error or None}
                    for d in result.deliveries
                ],
            }
        )
    else:
        for delivery in result.deliveries:
            outcome = f"stored as message {delivery.index}" if delivery.stored else f"NOT stored: {delivery.error}"
            click.echo(f"{delivery.name}: {outcome}")
        click.echo(f"stored; {state}" if result.complete else state)
    return OK if result.complete else FAILURE


@command.command("list")
@click.argument("mailbox", default="user")
@click.option("--unread", is_flag=True, help="Only what its owner has not read.")
@click.option("--dead", is_flag=True, help="Mail that nobody will read: unread mail of members that have ended.")
@click.option("--start", type=click.IntRange(min=0), default=0, help="The first index to list.")
@click.option("--limit", type=click.IntRange(min=1), help="How many to list.")
@team_option
@json_option
@async_command
async def list_mail(
    mailbox: str, unread: bool, dead: bool, start: int, limit: int | None, team: str | None, as_json: bool
) -> None:
    """List the mail of MAILBOX: a member, "lead", or "user" (yours, the default). Archived mail is listed, too: go
    through much of it with --start and --limit."""
    client = await mail_client_for(team)
    if dead:
        show([item for _, item in await client.dead()], client, as_json=as_json, none="no dead mail")
        return
    agent = client.find(mailbox)
    if unread:
        items = [item for item in await client.store.read_unread(agent) if item.index >= start][:limit]
    else:
        items = await client.read(agent, start=start, limit=limit)
    show(items, client, as_json=as_json, none=f"no {'unread ' if unread else ''}mail for {mailbox}")


def show(items: Iterable[IndexedMessage], client: MailClient, *, as_json: bool, none: str) -> None:
    """Messages, one line each, or as one JSON array."""
    found = list(items)
    if as_json:
        print_json([message_object(client, item) for item in found])
        return
    if not found:
        click.echo(none, err=True)
    for item in found:
        m = item.message
        mark = " " if item.read else "*"
        name = client.team.display_name
        who = f"{name(m.sender)} → {name(m.recipient)}"
        when = f"{m.timestamp:%Y-%m-%d %H:%M:%S}"
        click.echo(f"{item.index:>5} {mark} {when} {who:<20} {plain(m.type):<18} {plain(m.summary)}")


@command.command("read")
@click.argument("message")
@click.option("--mailbox", "-m", default="user", help='Whose: a member, "lead", or "user" (the default).')
@team_option
@json_option
@async_command
async def read(message: str, mailbox: str, team: str | None, as_json: bool) -> None:
    """Show one MESSAGE, by its index or its id. It is not marked as read."""
    client = await mail_client_for(team)
    agent = client.find(mailbox)
    item = await _find(client, agent, message)
    if as_json:
        print_json(message_object(client, item))
        return
    m, name = item.message, client.team.display_name
    click.echo(f"From:    {name(m.sender)}\nTo:      {name(m.recipient)}\nDate:    {m.timestamp:%Y-%m-%d %H:%M:%S} UTC")
    click.echo(f"Type:    {plain(m.type)}\nId:      {plain(m.id)}")
    if m.in_reply_to:
        click.echo(f"Replies: {plain(m.in_reply_to)}")
    click.echo(f"Subject: {plain(m.summary)}\n\n{plain(m.content)}")


@command.command("check")
@click.argument("mailbox", default="user")
@team_option
@json_option
@async_command
async def check(mailbox: str, team: str | None, as_json: bool) -> int:
    """Count the unread mail of MAILBOX (default: yours). Exits with 0 when there is some, 1 if none, 2 on error."""
    try:
        client = await mail_client_for(team)
        peek = await client.peek(client.find(mailbox))
    except PseudoclaudeError as error:
        click.echo(f"pseudoclaude: {plain(error.explain())}", err=True)
        return CHECK_FAILED
    if as_json:
        print_json({"unread": peek.unread, "waking": peek.waking, "interrupting": peek.interrupting})
    else:
        click.echo(f"{peek.unread} unread")
    return OK if peek.unread else NONE_UNREAD


@command.command("mark-read")
@click.argument("indices", type=click.IntRange(min=0), nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All unread messages.")
@click.option("--mailbox", "-m", default="user", help='Whose: "user" (yours, the default), or an agent\'s.')
@click.option("--force", is_flag=True, help="Needed for an agent's mailbox: it will never see these messages.")
@team_option
@json_option
@async_command
async def mark_read(
    indices: tuple[int, ...], everything: bool, mailbox: str, force: bool, team: str | None, as_json: bool
) -> None:
    """Mark messages as read, by their INDICES."""
    client = await mail_client_for(team)
    agent = client.find(mailbox)
    if agent != USER and not force:
        raise click.UsageError(f"{mailbox} would never see these messages; --force marks them all the same")
    if everything:
        indices = tuple(item.index for item in await client.store.read_unread(agent))
    elif not indices:
        raise click.UsageError("which messages? Name their indices, or --all")
    await client.mark_read(agent, indices)
    if as_json:
        print_json({"mailbox": mailbox, "marked": list(indices)})
    else:
        click.echo(f"marked {len(indices)} of {mailbox} as read")


async def _find(client: MailClient, agent: AgentId, wanted: str) -> IndexedMessage:
    """The message with this index or id."""
    items = await client.read(agent)
    for item in items:
        if wanted in (str(item.index), item.message.id):
            return item
    if wanted.isdecimal():
        raise UnknownIndexError(client.team.display_name(agent), int(wanted), len(items))
    raise PseudoclaudeError(f"there is no message {wanted!r} in this mailbox", remedy="See: pseudoclaude mail list.")


for _further in (thread, export, doctor):
    command.add_command(_further)
