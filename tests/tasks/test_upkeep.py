"""While a team runs, its mail store is kept in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import anyio

from pseudoclaude.errors import StorageError
from pseudoclaude.events import EventBus, Warned
from pseudoclaude.tasks.parts import Parts
from pseudoclaude.tasks.upkeep import keep_house


@dataclass
class Store:
    """Counts what is asked of it; its disk is full at the first look."""

    done: list[str] = field(default_factory=list)
    looked: anyio.Event = field(default_factory=anyio.Event)
    enough: int = 4

    async def recover(self) -> list[object]:
        self.done.append("recover")
        if len(self.done) == 1:
            raise StorageError("/mail", "the disk is full")
        return []

    async def archive(self, older_than: timedelta) -> int:
        self.done.append(f"archive {older_than.days}")
        if len(self.done) >= self.enough:
            self.looked.set()
        return 0


@dataclass
class Needs:
    """The parts that upkeep uses."""

    store: Any
    bus: EventBus = field(default_factory=EventBus)
    retention: timedelta = timedelta(days=30)
    upkeep_every: float = 0.001


async def keep(store: Store, is_idle: Callable[[], bool]) -> list[str]:
    needs = Needs(store)
    said: list[str] = []
    needs.bus.tap(lambda event: said.append(event.text) if isinstance(event, Warned) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(keep_house, cast(Parts, needs), is_idle)
        with anyio.fail_after(5):
            await store.looked.wait()
        group.cancel_scope.cancel()
    return said


async def test_a_failure_is_shown_and_tried_again_and_archiving_waits_until_all_are_idle() -> None:
    store = Store()
    idle = iter([False, True])
    said = await keep(store, lambda: next(idle, True))
    assert said == ["mail could not be kept in order: /mail: the disk is full"]
    assert store.done == ["recover", "recover", "recover", "archive 30"]


async def test_a_store_without_upkeep_is_left_alone() -> None:
    with anyio.fail_after(5):
        await keep_house(cast(Parts, Needs(object())), lambda: True)
