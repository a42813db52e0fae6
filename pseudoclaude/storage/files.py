"""The storage on local files: what every other durable thing of one folder is made of."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from weakref import WeakValueDictionary

from .base import Damage, Durability
from .documents import FileDocument
from .intents import FileIntents
from .keys import Root, parts_of
from .leases import FileLease
from .logs import Context, FileLog
from .marked import FileMarkedLog
from .system import System, forget_after_fork, storage_error
from .watching import Doorbell


class FileStorage:
    """Implements :class:`~pseudoclaude.storage.base.Storage` below one folder, which need not exist yet."""

    def __init__(
        self,
        root: Path | str,
        *,
        durability: Durability = "disk",
        lock_wait: float = 10.0,
        notify: bool = True,
        poll: float = 0.5,
        doorbell: str = "doorbell",
        intents: str = "broadcasts",
        segment_bytes: int = 1 << 20,
        system: System | None = None,
    ) -> None:
        """
        :param durability: what an append waits for, see :data:`~pseudoclaude.storage.base.Durability`.
        :param lock_wait: seconds to wait for somebody else's lock.
        :param notify: whether the kernel tells of a ring at once (Linux); else every ``poll`` seconds.
        :param doorbell: the name of the file that rings, in ``root``.
        :param intents: the name of the folder of what was begun and not finished, in ``root``.
        :param segment_bytes: how long a segment of a marked log grows before the next is begun.
        """
        system = system or System()
        self._root = Root(system.absolute(root), system)
        self._lock_wait = lock_wait
        self._reporters: list[Callable[[Damage], None]] = []
        self._unreported: list[Damage] = []
        self._context = Context(self._root, system, durability, lock_wait, segment_bytes, self._report)
        self._doorbell = Doorbell(system, os.path.join(self._root.path, doorbell), poll=poll, notify=notify)
        self._intents = FileIntents(self._root, intents, durability)
        self._logs: WeakValueDictionary[tuple[str, str], FileLog] = WeakValueDictionary()
        forget_after_fork(self)

    @property
    def root(self) -> Path:
        """The folder that holds everything."""
        return Path(self._root.path)

    def log(self, key: str) -> FileLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.log`."""
        return self._handle("log", key, lambda: FileLog(self._context, key))

    def owned_log(self, key: str) -> FileLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.owned_log`."""
        return self._handle("owned", key, lambda: FileLog(self._context, key, owned=True))

    def marked_log(self, key: str) -> FileMarkedLog:
        """See :meth:`~pseudoclaude.storage.base.Storage.marked_log`."""
        log = self._logs.get(("marked", key))
        if not isinstance(log, FileMarkedLog):
            log = self._logs[("marked", key)] = FileMarkedLog(self._context, key)
        return log

    def document(self, key: str) -> FileDocument:
        """See :meth:`~pseudoclaude.storage.base.Storage.document`."""
        return FileDocument(self._root, key, lock_wait=self._lock_wait)

    def lease(self, key: str) -> FileLease:
        """See :meth:`~pseudoclaude.storage.base.Storage.lease`."""
        return FileLease(self._root, key)

    def intents(self) -> FileIntents:
        """See :meth:`~pseudoclaude.storage.base.Storage.intents`."""
        return self._intents

    async def keys(self, prefix: str) -> list[str]:
        """See :meth:`~pseudoclaude.storage.base.Storage.keys`."""
        path = os.path.join(self._root.path, *parts_of(prefix)) if prefix else self._root.path
        try:
            return sorted(name for name in self._root.system.listdir(path) if name[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(path, error) from error

    def ring(self) -> None:
        """See :meth:`~pseudoclaude.storage.base.Storage.ring`."""
        self._doorbell.ring()

    def rung(self) -> AbstractAsyncContextManager[AsyncIterator[None]]:
        """See :meth:`~pseudoclaude.storage.base.Storage.rung`."""
        return self._doorbell.rung()

    def on_damage(self, report: Callable[[Damage], None]) -> None:
        """See :meth:`~pseudoclaude.storage.base.Storage.on_damage`. The first also hears what was met before."""
        self._reporters.append(report)
        met, self._unreported = self._unreported, []
        for damage in met:
            report(damage)

    def forget(self) -> None:
        """Start afresh, in a forked child."""
        for log in tuple(self._logs.values()):
            log.forget()

    def _report(self, damage: Damage) -> None:
        if not self._reporters:
            self._unreported.append(damage)
        for report in self._reporters:
            report(damage)

    def _handle(self, kind: str, key: str, make: Callable[[], FileLog]) -> FileLog:
        log = self._logs.get((kind, key))
        if log is None:
            log = self._logs[(kind, key)] = make()
        return log
