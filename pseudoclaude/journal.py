"""The team's journal: one line for each decision about control, who, what, why and when."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from .ids import AgentId
from .mail import clean_text, rfc3339
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
        line = {"at": rfc3339(datetime.now(UTC)), "who": str(who), "what": what, "target": target, "why": why}
        record = json.dumps({key: clean_text(text) for key, text in line.items()}, ensure_ascii=False)
        await self._log.append(record.encode())
