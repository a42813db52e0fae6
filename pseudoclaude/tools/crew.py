"""The lead's tools for its members: ``Agent`` adds one, ``MemberControl`` wakes or stops one."""

from __future__ import annotations

from typing import Literal

from ..errors import UnknownMemberError
from ..teams.addressing import find_agent, parse_recipients
from ..teams.models import MemberRecord
from .base import ToolContext
from .decorator import tool


@tool(name="Agent", lead_only=True, repeatable=True)
async def spawn_agent(
    ctx: ToolContext,
    name: str,
    prompt: str,
    description: str = "",
    model: str = "",
    tools: list[str] | None = None,
) -> str:
    """Add a member to the team and set it to work. It runs beside you, reports by mail, and stays when it is done:
    mail wakes it again. It knows nothing but this prompt and its mail.

    Args:
        name: What it is called: letters, digits, "-" and "_"; unique in the team.
        prompt: Its task: complete and self-contained, with the form in which to report to you.
        description: What it is for, in a few words.
        model: The model it runs on; yours if left out.
        tools: The only tools it may use, by name, beside mail and tasks; all if left out.
    """
    member = await ctx.services.crew.spawn(
        name=name,
        prompt=prompt,
        description=description,
        model=model,
        tools=tools,
        spawned_by=ctx.call_id,
    )
    return f"{member.name} is at work: agent id {member.agent_id}. It reports by mail; you are woken when it does."


@tool(name="MemberControl", lead_only=True, repeatable=True)
async def control_member(ctx: ToolContext, name: str, action: Literal["nudge", "stop"], reason: str = "") -> str:
    """Control a member without its help: it works for one that hangs, too.

    Args:
        name: The member's name.
        action: "nudge" starts an idle member without mail; "stop" ends what it is doing. A stopped member stays in
            the team, and mail wakes it again.
        reason: Why; it is written down.
    """
    member = await _member(ctx, name)
    crew = ctx.services.crew
    if action == "nudge":
        return await crew.nudge(member.agent_id)
    return await crew.stop(member.agent_id, reason=reason or f"stopped by {ctx.agent_name}")


async def _member(ctx: ToolContext, name: str) -> MemberRecord:
    team = await ctx.services.registry.load()
    wanted = parse_recipients(name)
    agent_id = find_agent(wanted[0], team) if len(wanted) == 1 else None
    member = team.find(agent_id) if agent_id else None
    if not isinstance(member, MemberRecord):
        raise UnknownMemberError(name, [member.name for member in team.present])
    return member
