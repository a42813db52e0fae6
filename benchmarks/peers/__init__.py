"""The systems that are measured, ours first."""

from __future__ import annotations

from .bare import BareDisk, BareOs
from .base import Durability, Peer
from .disk_cache import DiskCache
from .lite_queue import LiteQueue
from .maildir import Maildir
from .original import Original
from .ours import OursDisk, OursOs
from .persist_queue import PersistQueue
from .sqlite import SqliteFull, SqliteNormal

PEERS: tuple[type[Peer], ...] = (
    OursOs,
    SqliteNormal,
    LiteQueue,
    DiskCache,
    Original,
    BareOs,
    OursDisk,
    SqliteFull,
    PersistQueue,
    Maildir,
    BareDisk,
)

__all__ = ["PEERS", "Durability", "Peer"]
