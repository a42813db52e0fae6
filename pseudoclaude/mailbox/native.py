"""Our mail store: mailboxes that are marked logs, over any storage; and its forms on files and in memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from ..errors import InvalidMessageError, InvalidNameError, MailError, StorageError
from ..ids import AgentId, MessageId
from ..mail import IndexedMessage, Message
from ..storage.base import Damage, Durability, Storage
from .box import Box
from .store import BroadcastResult, Peek


class NativeStore:
    """Implements :class:`~pseudoclaude.mailbox.store.MailStore` on any :class:`~pseudoclaude.storage.base.Storage`."""

    def __init__(self, storage: Storage, *, prefix: str = "inboxes", max_message_bytes: int = 1 << 20) -> None:
        """
        :param prefix: the key under which the mailboxes lie.
        :param max_message_bytes: how long the content of a message may be, and its payload, in bytes of UTF-8.
        """
        self.storage = storage
        self._prefix = prefix
        self._limit = max_message_bytes
        root = getattr(storage, "root", None)
        self._where = f"{root}/" if isinstance(root, Path) else ""
        self._boxes: dict[str, Box] = {}
        self._reporters: list[Callable[[Damage], None]] = []
        self._unreported: list[Damage] = []
        self._listening = False

    async def create(self, agent: AgentId) -> None:
        """See :meth:`.MailStore.create`."""
        await self._box(agent).log.create()
        self.storage.ring()

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        """See :meth:`.MailStore.write`.

        :raises InvalidMessageError: when the message is longer than the store takes.
        """
        self._check_size(message)
        box = self._boxes.get(agent) or self._box(agent)
        try:
            return await box.write(message, since)
        finally:
            self.storage.ring()  # also what raised or was cancelled may be stored

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        """See :meth:`.MailStore.broadcast`: one after another; a failure of one leaves the others theirs."""
        self._check_size(message)
        stored: dict[AgentId, int] = {}
        waiting: dict[AgentId, str] = {}
        try:
            for agent in dict.fromkeys(agents):
                copy = message.model_copy(update={"recipient": agent})
                try:
                    stored[agent] = await self._box(agent).write(copy, since)
                except (MailError, StorageError) as error:
                    waiting[agent] = error.explain()
        finally:
            self.storage.ring()
        return BroadcastResult(stored, waiting)

    async def find(self, agent: AgentId, message_id: MessageId, *, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        return await self._box(agent).find(message_id, since)

    async def end(self, agent: AgentId) -> int:
        """See :meth:`.MailStore.end`."""
        return await self._box(agent).end()

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read`."""
        return await self._box(agent).read(start, limit)

    async def read_unread(self, agent: AgentId, *, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read_unread`."""
        return await self._box(agent).read_unread(limit)

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """See :meth:`.MailStore.mark_read`."""
        await self._box(agent).mark_read(indices)

    async def peek(self, agent: AgentId) -> Peek:
        """See :meth:`.MailStore.peek`."""
        return await self._box(agent).peek()

    async def has_unread(self, agent: AgentId) -> bool:
        """See :meth:`.MailStore.has_unread`."""
        return (await self.peek(agent)).unread > 0

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[AgentId]]:
        """See :meth:`.MailStore.watch`."""
        return self._watch()

    def on_damage(self, report: Callable[[Damage], None]) -> None:
        """Call ``report`` once for each range of records that cannot be read; the first also hears of earlier ones."""
        if not self._listening:
            self._listening = True
            self.storage.on_damage(self._report)
        self._reporters.append(report)
        met, self._unreported = self._unreported, []
        for damage in met:
            report(damage)

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[AgentId]]:
        async with self.storage.rung() as rings:
            yield _Watch(self, rings)

    async def agents(self) -> list[AgentId]:
        """Everybody who has a mailbox, in order."""
        agents: list[AgentId] = []
        for name in await self.storage.keys(self._prefix):
            try:
                agents.append(AgentId(name))
            except InvalidNameError:
                continue  # not one of ours
        return agents

    def _box(self, agent: AgentId) -> Box:
        box = self._boxes.get(agent)
        if box is None:
            key = f"{self._prefix}/{AgentId(agent)}" if self._prefix else AgentId(agent)
            box = self._boxes[agent] = Box(agent, self.storage.marked_log(key), f"{self._where}{key}", self._report)
        return box

    def _check_size(self, message: Message) -> None:
        size = len(message.content)
        if size * 4 > self._limit:
            size = len(message.content.encode())
        if message.payload is not None and size <= self._limit:
            size = max(size, len(json.dumps(message.payload, ensure_ascii=False).encode()))
        size = max(size, len(message.summary))
        if size > self._limit:
            raise InvalidMessageError(
                f"the message has {size:,} bytes, and a mailbox takes at most {self._limit:,}",
                remedy="Write it to a file and send the path.",
            )

    def _report(self, damage: Damage) -> None:
        if not self._reporters:
            self._unreported.append(damage)
        for report in self._reporters:
            report(damage)


class LogStore(NativeStore):
    """Our mail store on local files.

    :param root: the folder of the mailboxes; made with the first of them.
    :param durability: ``disk``: what was sent survives a power cut; ``os``: it survives a killed process.
    :param lock_wait: seconds to wait for a mailbox that somebody else has locked.
    :param notify: whether the kernel tells watchers at once (Linux); else they look every ``poll`` seconds.
    :param doorbell: the name of the file in ``root`` that watchers of other processes look at.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        durability: Durability = "disk",
        lock_wait: float = 10.0,
        notify: bool = True,
        poll: float = 0.5,
        doorbell: str = ".doorbell",
        segment_bytes: int = 1 << 20,
        max_message_bytes: int = 1 << 20,
    ) -> None:
        from ..storage.files import FileStorage  # not on the systems that it refuses

        files = FileStorage(
            root,
            durability=durability,
            lock_wait=lock_wait,
            notify=notify,
            poll=poll,
            doorbell=doorbell,
            segment_bytes=segment_bytes,
        )
        super().__init__(files, prefix="", max_message_bytes=max_message_bytes)


class MemoryStore(NativeStore):
    """Our mail store in memory, for tests and examples."""

    def __init__(self, *, max_message_bytes: int = 1 << 20) -> None:
        from ..storage.memory import MemoryStorage

        super().__init__(MemoryStorage(), max_message_bytes=max_message_bytes)


class _Watch:
    def __init__(self, store: NativeStore, rings: AsyncIterator[None]) -> None:
        self._store = store
        self._rings = rings
        self._named: dict[AgentId, int] = {}
        self._waiting: deque[AgentId] = deque()

    def __aiter__(self) -> AsyncIterator[AgentId]:
        return self

    async def __anext__(self) -> AgentId:
        while not self._waiting:
            await anext(self._rings)
            for agent in await self._store.agents():
                try:
                    end = await self._store.end(agent)
                except (MailError, StorageError):
                    continue  # gone, or not to be read: whoever reads it is told
                if self._named.get(agent) != end:
                    self._named[agent] = end
                    self._waiting.append(agent)
        return self._waiting.popleft()
