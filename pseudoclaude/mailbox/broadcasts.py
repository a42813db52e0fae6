"""Broadcasts that outlive their sender: noted as an intent, delivered, and finished by whoever comes next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from ..errors import InvalidMessageError, InvalidNameError, MailError, StorageError, UnknownMailboxError
from ..ids import AgentId, MessageId
from ..mail import Message
from ..storage.base import Intent, Intents
from .box import Box

_KEPT = "It is kept, and delivered as soon as the mailbox can be written: do not send it again."


@dataclass(frozen=True, slots=True)
class Recovery:
    """What became of a broadcast that its sender had not finished."""

    message_id: MessageId
    stored: Mapping[AgentId, int] = field(default_factory=dict)
    """Who has it, from now or from before."""
    waiting: Mapping[AgentId, str] = field(default_factory=dict)
    """Who still cannot be written, and why."""
    dropped: tuple[AgentId, ...] = ()
    """Who has no mailbox any more."""

    def __str__(self) -> str:
        parts = [f"{len(self.stored)} have it"]
        parts += [f"{agent} waits: {why}" for agent, why in self.waiting.items()]
        parts += [f"{agent} has no mailbox any more" for agent in self.dropped]
        return f"broadcast {self.message_id}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Order:
    """What an intent holds: the message, and for each recipient the index from which it is looked for."""

    message: Message
    ends: Mapping[AgentId, int]

    def to_value(self) -> dict[str, Any]:
        """As JSON."""
        return {"recipients": dict(self.ends), "message": json.loads(self.message.to_json())}

    @classmethod
    def from_value(cls, value: Any) -> Order:
        """What an intent says.

        :raises InvalidMessageError: when it is none of ours.
        """
        try:
            ends = {AgentId(agent): int(end) for agent, end in value["recipients"].items()}
            return cls(Message.from_json(json.dumps(value["message"]).encode()), ends)
        except (KeyError, TypeError, AttributeError, ValueError, InvalidNameError) as error:
            raise InvalidMessageError(f"not a broadcast: {error}") from error


class Broadcasts:
    """Sends what is to reach everybody or nobody, and finishes what others began."""

    def __init__(self, intents: Intents, box: Callable[[AgentId], Box], patience: float) -> None:
        """:param patience: seconds for the mailbox of one recipient, when the broadcast is somebody else's."""
        self._intents = intents
        self._box = box
        self._patience = patience

    async def send(self, order: Order, since: int | None) -> tuple[dict[AgentId, int], dict[AgentId, str]]:
        """Deliver to all recipients; who has it, and who gets it later and why.

        :raises StorageError: when it could not be noted; nobody has it.
        """
        async with self._intents.begin(order.to_value()) as intent:
            stored, failed = await self._deliver(order, since)
            waiting = {agent: f"{error.explain()} {_KEPT}" for agent, error in failed.items()}
            if not waiting:
                await _finish(intent)
        return stored, waiting

    async def recover(self) -> list[Recovery]:
        """Finish what was left behind; what became of each. What cannot be read is left as it is."""
        recovered: list[Recovery] = []
        for name in await self._intents.sweep():
            try:
                async with self._intents.take(name) as intent:
                    if intent is not None:
                        recovered.append(await self._complete(intent))
            except (StorageError, InvalidMessageError):
                continue  # what examines the mailboxes tells of it
        return recovered

    async def open_orders(self) -> dict[str, Order | None]:
        """What is not finished, by name; None for what cannot be read."""
        orders: dict[str, Order | None] = {}
        for name, value in (await self._intents.values()).items():
            try:
                orders[name] = Order.from_value(value)
            except InvalidMessageError:
                orders[name] = None
        return orders

    async def _complete(self, intent: Intent) -> Recovery:
        order = Order.from_value(intent.value)
        stored, failed = await self._deliver(order, None, patience=self._patience)
        dropped = [agent for agent, error in failed.items() if isinstance(error, UnknownMailboxError)]
        waiting = {agent: error.explain() for agent, error in failed.items() if agent not in dropped}
        if not waiting:
            await _finish(intent)
        return Recovery(order.message.id, stored, waiting, tuple(dropped))

    async def _deliver(
        self, order: Order, since: int | None, *, patience: float | None = None
    ) -> tuple[dict[AgentId, int], dict[AgentId, MailError | StorageError]]:
        """Write all copies at once, so that nobody waits for the mailbox of another.

        :param patience: seconds for each; then the copies may be there already, and are looked for.
        """
        stored: dict[AgentId, int] = {}
        failed: dict[AgentId, MailError | StorageError] = {}
        left_behind = patience is not None

        async def deliver(agent: AgentId, end: int) -> None:
            copy = order.message.model_copy(update={"recipient": agent})
            failed[agent] = StorageError(agent, "the mailbox was not free within the time for it")
            try:
                with anyio.move_on_after(patience):
                    index = await self._box(agent).write(copy, end if left_behind else since, limited=False)
                    stored[agent] = index
                    del failed[agent]
            except (MailError, StorageError) as error:
                failed[agent] = error

        async with anyio.create_task_group() as group:
            for agent, end in order.ends.items():
                group.start_soon(deliver, agent, end)
        return {agent: stored[agent] for agent in order.ends if agent in stored}, failed


async def _finish(intent: Intent) -> None:
    try:
        await intent.finish()
    except StorageError:
        return  # whoever finds it again finds every copy
