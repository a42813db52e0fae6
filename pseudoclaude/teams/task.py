"""A task of the board, and the rules for moving it; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..errors import BoardError, TaskBlockedError, TaskCycleError, TaskTakenError
from ..ids import AgentId, MessageId
from ..mail import Text, Timestamp

REOPEN = "Set its status to todo first."
"""What to do with a task that is done and should not be."""


class TaskStatus(StrEnum):
    """Where a task stands."""

    TODO = "todo"
    IN_PROGRESS = "in_progress"
    DONE = "done"


class Task(BaseModel):
    """An entry of the board, frozen. Its id is never used again on the same board."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str = Field(pattern="^t[1-9][0-9]{0,8}$")
    subject: Text
    description: Text = ""
    status: TaskStatus = TaskStatus.TODO
    owner: AgentId | None = None
    blocked_by: tuple[str, ...] = ()
    """Every task this one waits for, done or not."""
    created_by: AgentId
    call_id: MessageId | None = None
    """The call that made it."""
    created_at: Timestamp = Field(default_factory=lambda: datetime.now(UTC))
    updated_at: Timestamp = Field(default_factory=lambda: datetime.now(UTC))
    blocked: bool = Field(default=False, exclude=True)
    """Whether it is not done and waits for one that is not done; found out when the board is read, never stored."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did: the task after and before it, and the tasks that wait for nothing any more because of it."""

    task: Task
    before: Task
    unblocked: tuple[Task, ...] = ()


def blockers_of(task: Task, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Those of ``tasks`` that this one waits for and that are not done; none if it is done itself."""
    if task.status is TaskStatus.DONE:
        return ()
    return tuple(other for other in tasks if other.id in task.blocked_by and other.status is not TaskStatus.DONE)


def moved(wanted: Task, before: Task, status: TaskStatus | None, by: AgentId, given: bool) -> Task:
    """The task with its new status, and with the owner that follows from it.

    :param given: whether the caller named an owner, rather than leaving it as it was.
    :raises TaskTakenError: when ``by`` would take or start what belongs to somebody else.
    :raises BoardError: when it is done and should start.
    """
    holder = before.owner if before.owner != by and before.status is not TaskStatus.DONE else None
    owner, starts = wanted.owner, status is TaskStatus.IN_PROGRESS
    if starts:
        if before.status is TaskStatus.DONE:
            raise BoardError(f"task {before.id} is done", remedy=REOPEN)
        owner = owner or by
    elif status is None and wanted.status is TaskStatus.IN_PROGRESS and owner is None:
        status = TaskStatus.TODO
    if holder and (owner == by or (starts and not given)):
        raise TaskTakenError(before.id, holder)
    return edited(wanted, owner=owner, status=status or wanted.status)


def check_waiting(wanted: Task, before: Task, tasks: Iterable[Task], *, moves: bool) -> None:
    """Refuse a change after which tasks would wait for each other, or one would go on that waits.

    :param moves: whether the caller named a status.
    :raises TaskCycleError: naming the circle, in the order of waiting.
    :raises TaskBlockedError: when it should start or be done, and waits for others.
    :raises BoardError: when it is done and should wait for something that is not.
    """
    tasks = tuple(tasks)
    added = set(wanted.blocked_by) - set(before.blocked_by)
    if added:
        try:
            TopologicalSorter({task.id: task.blocked_by for task in (*tasks, wanted)}).prepare()
        except CycleError as error:
            raise TaskCycleError(reversed(error.args[1])) from error
    blockers = [task.id for task in blockers_of(edited(wanted, status=TaskStatus.TODO), tasks)]
    if before.status is wanted.status is TaskStatus.DONE:
        if added & set(blockers):
            raise BoardError(f"task {wanted.id} is done and waits for nothing", remedy=REOPEN)
    elif blockers and moves and wanted.status is not TaskStatus.TODO:
        raise TaskBlockedError(wanted.id, blockers)


def edited(task: Task, **changes: Any) -> Task:
    """A copy with some fields changed, validated like any other."""
    return Task.model_validate({**task.model_dump(), "blocked": task.blocked, **changes})


def with_blocked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The same tasks, each knowing whether it is blocked."""
    tasks = tuple(tasks)
    return tuple(task.model_copy(update={"blocked": bool(blockers_of(task, tasks))}) for task in tasks)


def checked_subject(text: str) -> str:
    """The subject as one line.

    :raises BoardError: when nothing is left of it.
    """
    if subject := " ".join(text.split()):
        return subject
    raise BoardError("a task needs a subject", remedy="Say in one line what is to be done.")


def checked_status(text: str) -> TaskStatus:
    """The status of that name.

    :raises BoardError: naming the known ones.
    """
    try:
        return TaskStatus(text)
    except ValueError as error:
        raise BoardError(f"unknown status {text!r}", remedy=f"Known: {', '.join(TaskStatus)}.") from error
