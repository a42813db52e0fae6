"""Mail stores over the mailbox files of other programs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypedDict, Unpack

from ...errors import InvalidMessageError, MailboxDamagedError, MailError, StorageError, UnknownIndexError
from ...ids import AgentId, MessageId
from ...mail import IndexedMessage, Message, Priority
from ...storage.base import Durability
from ...storage.system import System, storage_error
from ..box import Limits
from ..native import MAX_UNREAD, MAX_UNREAD_BYTES
from ..store import BroadcastResult, Peek
from .box import BoxDialect
from .boxes import ForeignBox
from .claude import ClaudeDialect, Lookup
from .dialect import Dialect
from .files import MailboxFile
from .locks import FileLock, FolderLock, ForeignLock
from .reading import Look, Waits
from .watching import watch


class StoreOptions(TypedDict, total=False):
    """How a store behaves; all have defaults."""

    durability: Durability
    """``disk``, the default: what was sent survives a power cut; ``os``: it survives a killed process."""
    lock_wait: float
    """Seconds to wait for a lock: 15. Longer than ``stale_after``, or a lock left behind stays."""
    stale_after: float
    """Seconds after which the other program takes a lock away, and so do we: 10."""
    unchanged_for: float
    """Seconds for which we watch such a lock before: 0.25."""
    torn_wait: float
    """Seconds for which a file that cannot be read must stay the same to count as damaged: 1."""
    poll: float
    """Seconds between two looks of a watcher: 0.5."""
    notify: bool
    """Whether the kernel tells watchers at once, on Linux: yes."""
    max_message_bytes: int
    """How long the content of a message may be, and its payload, in bytes of UTF-8: 1 MiB."""
    max_unread: int
    """How many unread messages a mailbox takes: as many as one of ours."""
    max_unread_bytes: int
    """How much unread mail a mailbox takes, in characters of its file: as much as one of ours."""
    system: System | None
    """The system calls; tests pass others."""


class ForeignStore:
    """Implements :class:`~pseudoclaude.mailbox.store.MailStore` on files that another program reads and writes, too.

    A mailbox is made by the first message, as the other program does, and one that is not there is empty. A write
    costs what the whole file costs to read and write.
    """

    def __init__(
        self,
        root: Path | str,
        dialect: Dialect,
        lock: type[ForeignLock],
        options: StoreOptions,
    ) -> None:
        """:param root: the folder of the mailboxes; those above it must be there."""
        self._system = options.get("system") or System()
        self._root = self._system.absolute(root)
        self._dialect = dialect
        self._lock = lock
        self._durable = options.get("durability", "disk") == "disk"
        self._waits = Waits(options.get("lock_wait", 15.0), options.get("torn_wait", 1.0))
        self._stale_after = options.get("stale_after", 10.0)
        self._unchanged_for = options.get("unchanged_for", 0.25)
        self._poll = options.get("poll", 0.5)
        self._notify = options.get("notify", True)
        self._limit = options.get("max_message_bytes", 1 << 20)
        self._limits = Limits(options.get("max_unread", MAX_UNREAD), options.get("max_unread_bytes", MAX_UNREAD_BYTES))
        self._boxes: dict[AgentId, ForeignBox] = {}
        self._reporters: list[Callable[[MailboxDamagedError], None]] = []
        self._unreported: list[MailboxDamagedError] = []

    @property
    def root(self) -> Path:
        """The folder of the mailboxes."""
        return Path(self._root)

    def on_damage(self, report: Callable[[MailboxDamagedError], None]) -> None:
        """Call ``report`` once for each damaged file and each entry that is no message.

        The first also hears of entries that were met before. While nobody listens, a damaged file is raised once by
        whoever reads it.
        """
        self._reporters.append(report)
        met, self._unreported = self._unreported, []
        for damage in met:
            report(damage)

    async def create(self, agent: AgentId) -> None:
        """See :meth:`.MailStore.create`; it also makes the folder of the mailboxes."""
        await self._box(agent).create()

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        """See :meth:`.MailStore.write`. The mailbox is made if it is not there.

        :raises InvalidMessageError: when the message is longer than the store takes.
        :raises MailboxDamagedError: when the file cannot be read; it is left as it is.
        :raises MessageLostError: when another program wrote over the message, twice.
        """
        self._check_size(message)
        return await self._box(agent).write(message, since)

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        """See :meth:`.MailStore.broadcast`: one after another; a failure of one leaves the others theirs."""
        self._check_size(message)
        stored: dict[AgentId, int] = {}
        waiting: dict[AgentId, str] = {}
        for agent in dict.fromkeys(agents):
            copy = message.model_copy(update={"recipient": agent})
            try:
                stored[agent] = await self._box(agent).write(copy, since)
            except (MailError, StorageError) as error:
                waiting[agent] = error.explain()
        return BroadcastResult(stored, waiting)

    async def find(self, agent: AgentId, message_id: MessageId, *, since: int) -> int | None:
        """See :meth:`.MailStore.find`."""
        box = self._box(agent)
        look = await box.look()
        places = (look.indices[position] for position in look.snapshot.named(message_id))
        return next((index for index in places if index >= box.first(since)), None)

    async def end(self, agent: AgentId) -> int:
        """See :meth:`.MailStore.end`."""
        return (await self._box(agent).look()).end

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read`."""
        return await self._collect(agent, limit, lambda look, position: look.indices[position] >= start)

    async def read_unread(self, agent: AgentId, *, limit: int | None = None) -> list[IndexedMessage]:
        """See :meth:`.MailStore.read_unread`."""
        return await self._collect(agent, limit, lambda look, position: not look.snapshot.is_read(position))

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """See :meth:`.MailStore.mark_read`.

        Where the other program removes messages, an index is one that this object gave out; it stands for the id, and
        one whose message is gone counts as marked.
        """
        wanted = set(indices)
        if not wanted:
            return
        box = self._box(agent)
        look = await box.look()
        if bad := [index for index in sorted(wanted) if not 0 <= index < look.end]:
            raise UnknownIndexError(agent, bad[0], look.end)
        if look.damaged and look.data:
            raise MailboxDamagedError(
                os.path.join(self._root, self._dialect.file_name(agent)), f"{look.snapshot.fault}. Nothing was marked"
            )
        if any(look.indices[place] in wanted and not look.snapshot.is_read(place) for place in _good(look)):
            await box.mark(wanted)

    async def peek(self, agent: AgentId) -> Peek:
        """See :meth:`.MailStore.peek`. While the file does not change, it costs one ``stat``."""
        box = self._box(agent)
        look = await box.look()
        if look.peek is None:
            unread = [item for item in self._listed(box, look, None, _is_unread) if not item.read]
            waking = [item.index for item in unread if item.message.wakes]
            interrupting = sum(item.message.priority is Priority.INTERRUPT for item in unread)
            look.peek = Peek(len(unread), len(waking), interrupting, max(waking, default=-1))
        return look.peek

    async def has_unread(self, agent: AgentId) -> bool:
        """See :meth:`.MailStore.has_unread`."""
        return (await self.peek(agent)).unread > 0

    async def agents(self) -> list[AgentId]:
        """Everybody who has a mailbox, in order."""
        try:
            names = self._system.listdir(self._root)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(self._root, error) from error
        stems = [
            os.fsencode(name[:-5]).decode("utf-8", "replace")
            for name in names
            if name.endswith(".json") and not name.startswith(".")
        ]
        found = [self._dialect.agent_of(stem) for stem in stems]
        return sorted(agent for agent in found if agent is not None)

    def watch(self) -> AbstractAsyncContextManager[AsyncIterator[AgentId]]:
        """See :meth:`.MailStore.watch`."""
        return watch(self._root, self._system, self.agents, self._unread_ids, poll=self._poll, notify=self._notify)

    async def _unread_ids(self, agent: AgentId) -> frozenset[str]:
        look = await self._box(agent).look()
        return frozenset(look.snapshot.ids[place] for place in _good(look) if not look.snapshot.is_read(place))

    async def _collect(
        self, agent: AgentId, limit: int | None, wanted: Callable[[Look, int], bool]
    ) -> list[IndexedMessage]:
        box = self._box(agent)
        return self._listed(box, await box.look(), limit, wanted)

    @staticmethod
    def _listed(
        box: ForeignBox, look: Look, limit: int | None, wanted: Callable[[Look, int], bool]
    ) -> list[IndexedMessage]:
        found: list[IndexedMessage] = []
        for position in sorted(_good(look), key=look.indices.__getitem__):
            if limit is not None and len(found) >= limit:
                break
            if wanted(look, position) and (item := box.indexed(look, position)) is not None:
                found.append(item)
        return found

    def _box(self, agent: AgentId) -> ForeignBox:
        box = self._boxes.get(agent)
        if box is None:
            agent = AgentId(agent)
            file = MailboxFile(
                self._system, self._root, self._dialect.file_name(agent), self._dialect, durable=self._durable
            )
            lock = self._lock(
                self._system,
                f"{file.path}.lock",
                stale_after=self._stale_after,
                unchanged_for=self._unchanged_for,
            )
            made = ForeignBox(agent, file, lock, self._dialect, self._waits, self._limits, self._report)
            box = self._boxes.setdefault(agent, made)
        return box

    def _check_size(self, message: Message) -> None:
        sizes = [len(message.content.encode()), len(message.summary)]
        if message.payload is not None:
            sizes.append(len(json.dumps(message.payload, ensure_ascii=False).encode()))
        if (size := max(sizes)) > self._limit:
            raise InvalidMessageError(
                f"the message has {size:,} bytes, and a mailbox takes at most {self._limit:,}",
                remedy="Write it to a file and send the path.",
            )

    def _report(self, damage: MailboxDamagedError, keep: bool) -> bool:
        if keep and not self._reporters:
            self._unreported.append(damage)
        for report in self._reporters:
            report(damage)
        return bool(self._reporters)


def _good(look: Look) -> list[int]:
    return [position for position, index in enumerate(look.indices) if index >= 0]


def _is_unread(look: Look, position: int) -> bool:
    return not look.snapshot.is_read(position)


class BoxStore(ForeignStore):
    """The mailboxes of a team of PseudoClaude, the Go program: ``<agent id>.json``, under its lock files.

    That program knows no ids and drops those of ours when it rewrites a file, so readers see an id derived from what a
    message says.

    :param root: the folder of the mailboxes; those above it must be there.
    :param options: see :class:`StoreOptions`.
    """

    def __init__(self, root: Path | str, **options: Unpack[StoreOptions]) -> None:
        super().__init__(root, BoxDialect(), FileLock, options)


class ClaudeInboxStore(ForeignStore):
    """The inboxes of a team of Claude Code: ``<name>.json``, under its lock folders.

    Newer versions of that program remove what they delivered, so an index is that of one store object.

    :param root: the folder of the mailboxes; those above it must be there.
    :param names: what our agents are called in that team, where it is not their id.
    :param colours: the colours of our agents there, by agent id.
    :param options: see :class:`StoreOptions`.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        names: Mapping[AgentId, str] | None = None,
        colours: Lookup = None,
        **options: Unpack[StoreOptions],
    ) -> None:
        super().__init__(root, ClaudeDialect(names=names, colours=colours), FolderLock, options)
