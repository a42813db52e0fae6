"""Waiting for a kernel lock without blocking the event loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

import anyio

from .system import give_way

T = TypeVar("T")

_WAYS_GIVEN = 8
_TRIES_AT_ONCE = 3
_FIRST_SLEEP = 0.0005
_LONGEST_SLEEP = 0.02


class LockTimeoutError(TimeoutError):
    """Raised when a lock stayed held for the whole wait; ``args[0]`` is the holder's process id, or empty."""

    def __init__(self, holder: str, path: str, seconds: float) -> None:
        super().__init__(holder)
        self.path = path
        self.seconds = seconds

    def __str__(self) -> str:
        who = f"process {self.args[0]}" if self.args[0] else "another process"
        return f"{self.path}: locked by {who} for more than {self.seconds:g} s"


async def patiently(attempt: Callable[[], T | None], seconds: float, timed_out: Callable[[], Exception]) -> T:
    """Try again, with growing sleeps, until ``attempt`` answers something else than None.

    Tries with sleeps take longer than a thread that waits in ``flock``, and can be cancelled. A lock is held for
    microseconds, unless its holder lost the processor: so that is offered to it a few times before each sleep, which
    lasts a millisecond at least.
    """
    deadline = anyio.current_time() + seconds
    sleep = 0.0
    tries = 0
    while True:
        for _ in range(_WAYS_GIVEN):
            give_way()
            if (result := attempt()) is not None:
                return result
        await anyio.sleep(sleep * random.uniform(0.5, 1.0))
        if (result := attempt()) is not None:
            return result
        tries += 1
        if anyio.current_time() >= deadline:
            raise timed_out()
        if tries >= _TRIES_AT_ONCE:
            sleep = min(max(sleep * 1.5, _FIRST_SLEEP), _LONGEST_SLEEP, max(deadline - anyio.current_time(), 0.0))
