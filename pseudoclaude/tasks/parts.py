"""What the task manager works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ..events import EventBus
from ..journal import Journal
from ..mailbox.store import MailStore
from ..post import Post
from ..providers.base import Provider
from ..runner.run import Identity
from ..storage.base import Storage
from ..teams.board import Board
from ..teams.models import Agent
from ..teams.registry import Registry
from ..tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Parts:
    """The services and settings of one team; put together in :mod:`pseudoclaude.app`."""

    storage: Storage
    registry: Registry
    store: MailStore
    post: Post
    board: Board
    journal: Journal
    bus: EventBus
    provider: Provider
    identify: Callable[[Agent], Identity]
    equip: Callable[[Agent], Toolbox]
    holder: str
    """What other processes are told about this one."""
    max_members: int = 16
    max_turns: int | None = None
    max_tokens: int = 16_000
    reminder_tokens: int = 20_000
    stop_grace: float = 10.0
    """Seconds that a stopped run has to end by itself, and then again once it is cancelled."""
    retry_delays: tuple[float, ...] = (30.0, 120.0, 600.0)
    retention: timedelta = timedelta(days=30)
    """Age from which files of wholly read mail are compressed."""
    upkeep_every: float = 60.0
    """Seconds between two looks for broadcasts to finish."""
    watch_retry: float = 1.0
    """Seconds until mail that could not be watched or looked at is looked at again."""
