"""The task board of a team: what is to be done, by whom, and what waits for what.

Every change is one compare-and-set step on one document, so that it is atomic against other processes too. The
document is ``{"next": 5, "tasks": [...], "calls": [...]}``; what else it holds stays in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import EllipsisType
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from ..errors import BoardError, UnknownTaskError
from ..ids import AgentId, MessageId
from ..storage.base import Document, update
from .task import (
    Change,
    Task,
    TaskStatus,
    blockers_of,
    check_waiting,
    checked_status,
    checked_subject,
    edited,
    moved,
    with_blocked,
)

__all__ = ["Board", "Change", "Task", "TaskStatus", "blockers_of"]

T = TypeVar("T", Task, Change)

_CALLS_KEPT = 200
"""Calls whose outcome is remembered for a second run; an interrupted call is among the newest by far."""


class Board:
    """The tasks of one team."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.on_change: Callable[[Task], None] = lambda task: None
        """Called with each task that this object has made or changed, once that is stored."""

    async def create(
        self,
        subject: str,
        *,
        description: str = "",
        owner: AgentId | None = None,
        blocked_by: Iterable[str] = (),
        created_by: AgentId,
        call_id: MessageId | None = None,
    ) -> Task:
        """Add a task, or find the one that the same call has added before.

        :raises UnknownTaskError: when it should wait for a task that is not there.
        """

        def step(content: _Content) -> Task:
            if made := next((task for task in content.tasks if call_id and task.call_id == call_id), None):
                return made
            new = Task(
                id=f"t{content.next}",
                subject=checked_subject(subject),
                description=description,
                owner=owner,
                blocked_by=content.known(blocked_by),
                created_by=created_by,
                call_id=call_id,
            )
            return content.add(new)

        return await self._change(step)

    async def get(self, id: str) -> Task:
        """One task.

        :raises UnknownTaskError: when it is not there.
        """
        return _Content(await self._read()).get(id)

    async def list(self) -> list[Task]:
        """All tasks, oldest first."""
        return list(_Content(await self._read()).tasks)

    async def update(
        self,
        id: str,
        *,
        by: AgentId,
        subject: str | None = None,
        description: str | None = None,
        status: TaskStatus | str | None = None,
        owner: AgentId | EllipsisType | None = ...,
        add_blocked_by: Iterable[str] = (),
        remove_blocked_by: Iterable[str] = (),
        call_id: MessageId | None = None,
    ) -> Change:
        """Change a task. None, and ``...`` for the owner, leave a field as it is; an owner of None means nobody.

        Starting a task that nobody owns makes ``by`` its owner; one in progress that loses its owner is to do again.
        With a ``call_id``, a second run of the same call changes nothing and tells what the first one did.

        :raises UnknownTaskError: when it, or one it should wait for, is not there.
        :raises TaskCycleError: when tasks would wait for each other.
        :raises TaskBlockedError: when it should start or be done, and waits for others.
        :raises TaskTakenError: when ``by`` would start or take what belongs to somebody else.
        :raises BoardError: when a task that is done should start or wait without being reopened first.
        """
        adding, removing = tuple(add_blocked_by), tuple(remove_blocked_by)

        def step(content: _Content) -> Change:
            if done := content.outcome(call_id):
                return done
            before = content.get(id)
            waits_for = {*before.blocked_by, *content.known(adding)} - {*content.known(removing)}
            wanted = edited(
                before,
                subject=before.subject if subject is None else checked_subject(subject),
                description=before.description if description is None else description,
                owner=before.owner if isinstance(owner, EllipsisType) else owner,
                blocked_by=[other.id for other in content.tasks if other.id in waits_for],
            )
            wanted = moved(wanted, before, None if status is None else checked_status(status), by, owner is not ...)
            check_waiting(wanted, before, content.tasks, moves=status is not None)
            return content.replace(wanted, before, call_id)

        return await self._change(step)

    async def claim(self, id: str, *, by: AgentId, call_id: MessageId | None = None) -> Task:
        """Take a task and start it. Of many who try at once, one gets it; for its owner a second time is no change.

        :raises UnknownTaskError: when it is not there.
        :raises TaskTakenError: when it belongs to somebody else.
        :raises TaskBlockedError: when it waits for others.
        :raises BoardError: when it is done.
        """
        return (await self.update(id, by=by, status=TaskStatus.IN_PROGRESS, call_id=call_id)).task

    async def complete(self, id: str, *, by: AgentId, call_id: MessageId | None = None) -> Change:
        """Record that a task is done; the change names the tasks that can go on now.

        :raises UnknownTaskError: when it is not there.
        :raises TaskBlockedError: when it waits for others itself.
        """
        return await self.update(id, by=by, status=TaskStatus.DONE, call_id=call_id)

    async def _read(self) -> Any:
        current = await self._document.read()
        return current.value if current else None

    async def _change(self, step: Callable[[_Content], T]) -> T:
        outcomes: list[T] = []

        def change(value: Any) -> Any:
            content = _Content(value)
            outcomes.append(step(content))
            return content.value

        await update(self._document, change)
        outcome = outcomes[-1]
        self.on_change(outcome.task if isinstance(outcome, Change) else outcome)
        return outcome


class _Call(BaseModel):
    """What a call did to a task, for a second run of it."""

    call_id: MessageId
    task: str
    owner: AgentId | None = None
    status: TaskStatus
    unblocked: tuple[str, ...] = ()


class _Stored(BaseModel):
    next: int = Field(default=1, ge=1)
    tasks: tuple[Task, ...] = ()
    calls: tuple[_Call, ...] = ()


class _Content:
    """A board's document, taken apart: ``tasks`` as records, and ``value`` as it is, or is to be, stored."""

    def __init__(self, value: Any) -> None:
        self.value: dict[str, Any] = {} if value is None else value
        try:
            stored = _Stored.model_validate(self.value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise _damaged(".".join(str(part) for part in first["loc"]), first["msg"]) from error
        ids = [task.id for task in stored.tasks]
        if twice := next((id for id in ids if ids.count(id) > 1), None):
            raise _damaged("tasks", f"{twice} is there twice")
        self.tasks = with_blocked(stored.tasks)
        self.next = max([stored.next, *(int(id[1:]) + 1 for id in ids)])
        self._calls = stored.calls

    def get(self, id: str) -> Task:
        found = next((task for task in self.tasks if task.id == id), None)
        if found is None:
            raise UnknownTaskError(id, (task.id for task in self.tasks))
        return found

    def known(self, ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.get(id).id for id in ids))

    def outcome(self, call_id: MessageId | None) -> Change | None:
        call = next((call for call in self._calls if call.call_id == call_id), None)
        if call is None:
            return None
        task = self.get(call.task)
        before = edited(task, owner=call.owner, status=call.status)
        return Change(task, before, tuple(other for other in self.tasks if other.id in call.unblocked))

    def add(self, task: Task) -> Task:
        self.tasks = with_blocked((*self.tasks, task))
        self.value = {
            **self.value,
            "next": self.next + 1,
            "tasks": [*self.value.get("tasks", ()), task.model_dump(mode="json", exclude_none=True)],
        }
        return self.get(task.id)

    def replace(self, task: Task, before: Task, call_id: MessageId | None) -> Change:
        waited = {other.id for other in self.tasks if other.blocked}
        if task != before:
            task = edited(task, updated_at=datetime.now(UTC))
            self.tasks = with_blocked(task if other.id == task.id else other for other in self.tasks)
            self.value = {**self.value, "tasks": [_entry(entry, task) for entry in self.value["tasks"]]}
        free = [t for t in self.tasks if t.id in waited and not t.blocked and t.status is not TaskStatus.DONE]
        if call_id is not None:
            call = _Call(
                call_id=call_id,
                task=task.id,
                owner=before.owner,
                status=before.status,
                unblocked=tuple(other.id for other in free),
            )
            calls = [*self.value.get("calls", ()), call.model_dump(mode="json", exclude_none=True)]
            self.value = {**self.value, "calls": calls[-_CALLS_KEPT:]}
        return Change(self.get(task.id), before, tuple(free))


def _entry(entry: dict[str, Any], task: Task) -> dict[str, Any]:
    """What is stored of a task, if the entry is its; unknown keys stay."""
    if entry["id"] != task.id:
        return entry
    kept = {key: value for key, value in entry.items() if key not in Task.model_fields}
    return task.model_dump(mode="json", exclude_none=True) | kept


def _damaged(place: str, what: str) -> BoardError:
    return BoardError(f"board.json: {place or 'the whole'}: {what}", remedy="Mend it by hand; nothing was changed.")
