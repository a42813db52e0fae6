"""Noticing new mail in a folder of mailbox files: by looking now and then, and at once where the kernel tells."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel

from ...errors import MailError, StorageError
from ...ids import AgentId
from ...storage.system import System

if sys.platform == "linux":
    # From there, since that module spares the event loop a search for the C library.
    from ...storage.watching import INotify, flags  # type: ignore[attr-defined]


class _Bell:
    """Answers when something in the folder may have changed. Either side may fail: then the time alone rings."""

    def __init__(self, folder: str, system: System, poll: float, *, notify: bool) -> None:
        self._folder = folder
        self._system = system
        self._poll = poll
        self._inotify: INotify | None = None
        self._watched: int | None = None
        if notify and sys.platform == "linux":
            with suppress(OSError):  # the limit of watches is reached
                self._inotify = INotify(nonblocking=True)
        self._watch()

    async def rung(self) -> None:
        """Return when it may be worth a look."""
        if self._inotify is None:
            await anyio.sleep(self._poll)
            return
        with anyio.move_on_after(self._poll):
            await anyio.wait_readable(self._inotify.fileno())
        with suppress(BlockingIOError):
            while os.read(self._inotify.fileno(), 1 << 16):
                pass
        self._watch()

    def close(self) -> None:
        """Stop listening."""
        if self._inotify is not None:
            self._inotify.close()

    def _watch(self) -> None:
        """Watch the folder that is there now; it may be made late, or be made anew."""
        if self._inotify is None or sys.platform != "linux":
            return
        with suppress(OSError):
            inode = self._system.stat(self._folder).st_ino
            if inode != self._watched:
                self._inotify.add_watch(self._folder, flags.MOVED_TO | flags.CLOSE_WRITE | flags.ONLYDIR)
                self._watched = inode


@asynccontextmanager
async def watch(
    folder: str,
    system: System,
    agents: Callable[[], Awaitable[list[AgentId]]],
    unread: Callable[[AgentId], Awaitable[frozenset[str]]],
    *,
    poll: float,
    notify: bool,
) -> AsyncIterator[AsyncIterator[AgentId]]:
    """Names of agents with mail that was not there at the last look; each once at the start.

    :param unread: the ids of an agent's unread messages; costs little when nothing changed.
    """
    bell = _Bell(folder, system, poll, notify=notify)
    try:
        yield _Watch(bell, agents, unread)
    finally:
        bell.close()


class _Watch:
    def __init__(
        self,
        bell: _Bell,
        agents: Callable[[], Awaitable[list[AgentId]]],
        unread: Callable[[AgentId], Awaitable[frozenset[str]]],
    ) -> None:
        self._bell = bell
        self._agents = agents
        self._unread = unread
        self._seen: dict[AgentId, frozenset[str]] = {}
        self._waiting: deque[AgentId] = deque()
        self._first = True

    def __aiter__(self) -> AsyncIterator[AgentId]:
        return self

    async def __anext__(self) -> AgentId:
        await anyio.lowlevel.checkpoint()
        while not self._waiting:
            if not self._first:
                await self._bell.rung()
            self._first = False
            with suppress(StorageError):  # whoever reads a mailbox there is told
                for agent in await self._agents():
                    await self._look(agent)
        return self._waiting.popleft()

    async def _look(self, agent: AgentId) -> None:
        try:
            ids = await self._unread(agent)
        except (MailError, StorageError):
            ids = self._seen.get(agent, frozenset())
        before = self._seen.get(agent)
        self._seen[agent] = ids
        if before is None or ids - before:
            self._waiting.append(agent)
