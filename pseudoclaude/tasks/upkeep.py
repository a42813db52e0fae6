"""What a store wants done beside mail, while the team runs: broadcasts finished, old mail compressed."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from ..errors import PseudoclaudeError
from ..events import Warned
from ..mailbox.store import Upkeep
from .parts import Parts

ARCHIVE_EVERY = 3600.0
"""Seconds between two looks for mail to compress."""


async def keep_house(parts: Parts, is_idle: Callable[[], bool]) -> None:
    """Finish what senders that died or met a locked mailbox have left, again and again; compress while all are idle.

    Never raises but for cancellation: what goes wrong is shown, and tried again.
    """
    store = parts.store
    if not isinstance(store, Upkeep):
        return
    archive_at = time.monotonic()
    while True:
        try:
            for recovery in await store.recover():
                parts.bus.publish(Warned(text=f"an unfinished broadcast was taken up: {recovery}"))
            if time.monotonic() >= archive_at and is_idle():
                await store.archive(parts.retention)
                archive_at = time.monotonic() + ARCHIVE_EVERY
        except PseudoclaudeError as error:
            parts.bus.publish(Warned(text=f"mail could not be kept in order: {error.explain()}"))
        await anyio.sleep(parts.upkeep_every)
