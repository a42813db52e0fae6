"""The team's journal: one line for each decision about control, who, what, why and when."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from .ids import AgentId
from .storage.base import Log


class Journal:
    """Appends to ``journal.jsonl``; several processes may."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def note(self, who: AgentId | str, what: str, *, target: str = "", why: str = "") -> None:
        """Write one decision down.

        :raises StorageError: when the disk refuses.
        """
        await self._log.create()
        line = {"at": datetime.now(UTC).isoformat(), "who": str(who), "what": what, "target": target, "why": why}
        await self._log.append(json.dumps(line, ensure_ascii=False).encode())
