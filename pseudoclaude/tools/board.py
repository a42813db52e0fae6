"""The task board, as agents use it: ``TaskCreate``, ``TaskList``, ``TaskGet``, ``TaskUpdate``."""

from __future__ import annotations

from collections.abc import Iterable
from types import EllipsisType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ..errors import TaskTakenError, ToolError
from ..ids import USER, AgentId, MessageId
from ..mail import MessageType, TaskNews
from ..mailbox.reminder import inert
from ..teams.addressing import find_agent, find_ended, parse_recipients
from ..teams.board import Change, Task, TaskStatus, blockers_of
from ..teams.models import TeamRecord
from .base import ToolContext
from .decorator import tool

_ME = frozenset({"me", "myself"})
_NOBODY = "none"


def _task_id(value: Any) -> Any:
    """What models write for ``t3``: ``3``, ``#3``, ``T3``."""
    text = str(value).strip().lstrip("#").lower() if isinstance(value, str | int) else value
    return f"t{text}" if isinstance(text, str) and text.isdecimal() else text


def _task_ids(value: Any) -> Any:
    return tuple(_task_id(item) for item in parse_recipients(value))


TaskId = Annotated[str, BeforeValidator(_task_id)]
TaskIds = Annotated[tuple[str, ...], BeforeValidator(_task_ids)]
Status = Literal["", "todo", "in_progress", "done"]


@tool(name="TaskCreate", repeatable=True)
async def create_task(
    ctx: ToolContext, subject: str, description: str = "", owner: str = "", blocked_by: TaskIds = ()
) -> str:
    """Put a task on the team's board. An owner other than you is told by mail, and starts when nothing blocks it.

    Args:
        subject: What is to be done, in one line.
        description: All that somebody needs who knows nothing else about it.
        owner: The name of the member who is to do it, "lead", "user" or "me"; left out, anybody may take it.
        blocked_by: Ids of the tasks that must be done first.
    """
    team = await ctx.services.registry.load()
    wanted = _owner(ctx, team, owner)
    task = await ctx.services.board.create(
        subject,
        description=description,
        owner=wanted,
        blocked_by=blocked_by,
        created_by=ctx.agent_id,
        call_id=ctx.call_id,
    )
    tasks = await ctx.services.board.list()
    told = []
    if wanted is not None and task.owner == wanted:
        told = await _tell(ctx, team, wanted, MessageType.TASK_ASSIGNMENT, "assigned", task, tasks)
    return "\n".join([_line(task, tasks, team), *told])


@tool(name="TaskList", read_only=True)
async def list_tasks(ctx: ToolContext, status: Status = "", owner: str = "") -> str:
    """List the tasks of the team's board, one a line: id, status, subject, owner, and what it waits for.

    Args:
        status: Only tasks with this status; all if left out.
        owner: Only tasks of this member, of "me", or of "none" (nobody's); all if left out.
    """
    team = await ctx.services.registry.load()
    tasks = await ctx.services.board.list()
    owners = _owners(ctx, team, owner)
    shown = [task for task in tasks if status in ("", task.status) and (owners is None or task.owner in owners)]
    if not shown:
        return f"none of the {len(tasks)} tasks fits" if tasks else "the board is empty"
    return "\n".join(_line(task, tasks, team) for task in shown)


@tool(name="TaskGet", read_only=True)
async def get_task(ctx: ToolContext, task_id: TaskId) -> str:
    """Show a task of the team's board in full, with the tasks around it.

    Args:
        task_id: Its id, such as "t3".
    """
    team = await ctx.services.registry.load()
    task = await ctx.services.board.get(task_id)
    tasks = await ctx.services.board.list()
    lines = [_line(task, tasks, team), f"created by {_name(team, task.created_by)}"]
    lines += [f"waits for {_line(other, tasks, team)}" for other in blockers_of(task, tasks)]
    lines += [f"holds up {_line(other, tasks, team)}" for other in tasks if task in blockers_of(other, tasks)]
    return "\n".join([*lines, *(["", inert(task.description)] if task.description else [])])


@tool(name="TaskUpdate", repeatable=True)
async def update_task(
    ctx: ToolContext,
    task_id: TaskId,
    status: Status = "",
    owner: str | None = None,
    subject: str = "",
    description: str | None = None,
    add_blocked_by: TaskIds = (),
    remove_blocked_by: TaskIds = (),
) -> str:
    """Change a task of the team's board; what is left out stays. Set a task to "in_progress" before you work on it:
    one that has no owner is yours then, and of several who try, one gets it. Set it to "done" when it is complete:
    its creator, and the owners of tasks that waited for it, are told by mail.

    Args:
        task_id: Its id, such as "t3".
        status: "in_progress", "done", or "todo" to give it back or open it again.
        owner: A member's name, "lead", "user", "me", or "" for nobody. A new owner is told by mail.
        subject: A new subject.
        description: A new description.
        add_blocked_by: Ids of tasks that must be done before this one.
        remove_blocked_by: Ids of tasks it need not wait for.
    """
    team = await ctx.services.registry.load()
    wanted: AgentId | EllipsisType | None = ... if owner is None else _owner(ctx, team, owner)
    try:
        change = await ctx.services.board.update(
            task_id,
            by=ctx.agent_id,
            subject=subject or None,
            description=description,
            status=status or None,
            owner=wanted,
            add_blocked_by=add_blocked_by,
            remove_blocked_by=remove_blocked_by,
            call_id=ctx.call_id,
        )
    except TaskTakenError as error:
        raise _taken(team, task_id, AgentId(error.owner)) from error
    tasks = await ctx.services.board.list()
    freed = [f"can go on now: {_line(task, tasks, team)}" for task in change.unblocked]
    return "\n".join([_line(change.task, tasks, team), *freed, *await _tell_all(ctx, team, change, tasks)])


async def _tell_all(ctx: ToolContext, team: TeamRecord, change: Change, tasks: list[Task]) -> list[str]:
    """Tell everybody whom a change concerns; what became of it, a line each."""
    task, before = change.task, change.before
    told: list[str] = []
    assigned = task.owner if task.owner != before.owner else None
    if assigned is not None:
        told += await _tell(ctx, team, assigned, MessageType.TASK_ASSIGNMENT, "assigned", task, tasks)
    for other in change.unblocked:
        if other.owner is not None and not (assigned and other.id == task.id):
            told += await _tell(ctx, team, other.owner, MessageType.TASK_UNBLOCKED, "unblocked", other, tasks)
    if task.status is TaskStatus.DONE and before.status is not TaskStatus.DONE:
        told += await _tell(ctx, team, task.created_by, MessageType.TASK_COMPLETED, "completed", task, tasks)
    return told


async def _tell(
    ctx: ToolContext,
    team: TeamRecord,
    recipient: AgentId,
    type: MessageType,
    what: Literal["assigned", "unblocked", "completed"],
    task: Task,
    tasks: Iterable[Task],
) -> list[str]:
    """Tell one agent of a task, unless it is the caller or is no longer there."""
    there = recipient == USER or any(agent.agent_id == recipient for agent in team.agents)
    if recipient == ctx.agent_id or not there:
        return []
    texts = {
        "assigned": f"{ctx.agent_name} gave you task {task.id}",
        "unblocked": f"your task {task.id} waits for nothing any more",
        "completed": f"{ctx.agent_name} completed task {task.id}",
    }
    delivery = await ctx.services.post.notify(
        recipient=recipient,
        type=type,
        id=MessageId.derived(ctx.call_id, what, task.id),
        summary=f"{texts[what]}: {task.subject}",
        content="\n\n".join(filter(None, [_line(task, tasks, team), task.description])),
        payload=TaskNews(task_id=task.id, subject=task.subject),
        hops=ctx.hops,
        repeated=ctx.repeated,
    )
    name = _name(team, recipient)
    return [f"told {name}" if delivery.stored else f"{name} could NOT be told: {delivery.error}"]


def _line(task: Task, tasks: Iterable[Task], team: TeamRecord) -> str:
    waits_for = ", ".join(other.id for other in blockers_of(task, tasks))
    more = [f"owner {_name(team, task.owner)}" if task.owner else "", f"waits for {waits_for}" if waits_for else ""]
    said = ", ".join(filter(None, more))
    return f"{task.id} [{task.status}] {inert(task.subject)}" + (f" ({said})" if said else "")


def _name(team: TeamRecord, agent_id: AgentId) -> str:
    ended = any(member.agent_id == agent_id and member.ended_at for member in team.members)
    return f"{team.display_name(agent_id)} who has ended" if ended else team.display_name(agent_id)


def _owner(ctx: ToolContext, team: TeamRecord, text: str) -> AgentId | None:
    names = parse_recipients(text)
    if not names or names[0].casefold() == _NOBODY:
        return None
    if len(names) > 1:
        raise ToolError(f"a task has one owner, and {text!r} names {len(names)}", remedy="Make a task for each.")
    if names[0].casefold() in _ME:
        return ctx.agent_id
    if agent := find_agent(names[0], team):
        return agent
    ended = find_ended(names[0], team)
    known = ", ".join(["me", *(agent.name for agent in team.agents), USER])
    raise ToolError(
        f"{ended.name!r} has ended" if ended else f"{names[0]!r} is nobody in this team",
        remedy=f'Nothing was changed. An owner is one of: {known}; or "" for nobody.',
    )


def _owners(ctx: ToolContext, team: TeamRecord, text: str) -> set[AgentId | None] | None:
    """Whose tasks a filter means, those of ended members of the name included; None for everybody's."""
    if not (names := parse_recipients(text)):
        return None
    if names[0].casefold() == _NOBODY:
        return {None}
    key = names[0].casefold()
    called_so = {member.agent_id for member in team.members if key in (member.name.key(), member.agent_id.key())}
    return {*called_so} or {_owner(ctx, team, text)}


def _taken(team: TeamRecord, task_id: str, owner: AgentId) -> TaskTakenError:
    error = TaskTakenError(task_id, _name(team, owner))
    if all(agent.agent_id != owner for agent in team.agents) and owner != USER:
        error.remedy = 'Set its owner to "" first, then take it.'
    return error
