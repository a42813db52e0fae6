"""``pseudoclaude mail``: send, list, read, check and mark mail. Looking marks nothing."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..client import TeamClient
from ..errors import PseudoclaudeError, UnknownIndexError
from ..ids import USER, AgentId
from ..mail import SENDABLE, IndexedMessage, MessageType, Priority
from .common import FAILURE, OK, async_command, client_for, json_option, plain, print_json, team_option

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
    client = await client_for(team)
    result = await client.send(
        to,
        summary=summary or next((line.strip() for line in text.splitlines() if line.strip()), ""),
        content=text,
        type=kind,
        in_reply_to=in_reply_to,
        priority=Priority.INTERRUPT if interrupt else Priority.NORMAL,
    )
    led = await client.led_by()
    state = f"{led} runs this team" if led else "nothing runs this team, it is read at the next start"
    if as_json:
        print_json(
            {
                "message_id": result.message_id,
                "run_by": led,
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
@click.option("--start", type=click.IntRange(min=0), default=0, help="The first index to list.")
@click.option("--limit", type=click.IntRange(min=1), help="How many to list.")
@team_option
@json_option
@async_command
async def list_mail(mailbox: str, unread: bool, start: int, limit: int | None, team: str | None, as_json: bool) -> None:
    """List the mail of MAILBOX: a member, "lead", or "user" (yours, the default)."""
    client = await client_for(team)
    agent = client.find(mailbox)
    if unread:
        items = [item for item in await client.store.read_unread(agent) if item.index >= start][:limit]
    else:
        items = await client.read(agent, start=start, limit=limit)
    if as_json:
        print_json([_as_json(client, item) for item in items])
        return
    if not items:
        click.echo(f"no {'unread ' if unread else ''}mail for {mailbox}", err=True)
    for item in items:
        m = item.message
        mark = " " if item.read else "*"
        sender = client.team.display_name(m.sender)
        when = f"{m.timestamp:%Y-%m-%d %H:%M:%S}"
        click.echo(f"{item.index:>5} {mark} {when} {sender:<12} {plain(m.type):<18} {plain(m.summary)}")


@command.command("read")
@click.argument("message")
@click.option("--mailbox", "-m", default="user", help='Whose: a member, "lead", or "user" (the default).')
@team_option
@json_option
@async_command
async def read(message: str, mailbox: str, team: str | None, as_json: bool) -> None:
    """Show one MESSAGE, by its index or its id. It is not marked as read."""
    client = await client_for(team)
    agent = client.find(mailbox)
    item = await _find(client, agent, message)
    if as_json:
        print_json(_as_json(client, item))
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
        client = await client_for(team)
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
    client = await client_for(team)
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


async def _find(client: TeamClient, agent: AgentId, wanted: str) -> IndexedMessage:
    """The message with this index or id."""
    items = await client.read(agent)
    for item in items:
        if wanted in (str(item.index), item.message.id):
            return item
    if wanted.isdecimal():
        raise UnknownIndexError(client.team.display_name(agent), int(wanted), len(items))
    raise PseudoclaudeError(f"there is no message {wanted!r} in this mailbox", remedy="See: pseudoclaude mail list.")


def _as_json(client: TeamClient, item: IndexedMessage) -> dict[str, Any]:
    """A message for programs: its record, its place, and the names behind the ids."""
    record = item.message.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "index": item.index,
        "read": item.read,
        **record,
        "from_name": client.team.display_name(item.message.sender),
        "to_name": client.team.display_name(item.message.recipient),
    }
