"""A document in memory, a meeting point for races, and a team to talk about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pseudoclaude.ids import AgentId, AgentName, TeamName
from pseudoclaude.storage.base import Document, Versioned
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.teams.models import LeadRecord, MemberRecord, TeamRecord


class MeetingDocument:
    """A document whose first ``parties`` readers all have read before any of them goes on."""

    def __init__(self, document: Document, parties: int) -> None:
        self._document = document
        self._missing = parties
        self._all_here = anyio.Event()

    async def read(self) -> Versioned | None:
        found = await self._document.read()
        self._missing -= 1
        if self._missing <= 0:
            self._all_here.set()
        with anyio.fail_after(5):
            await self._all_here.wait()
        return found

    async def replace(self, value: Any, *, expected: str | None) -> str:
        return await self._document.replace(value, expected=expected)

    async def put(self, value: Any) -> None:
        await self._document.put(value)


@pytest.fixture
def document() -> Document:
    return MemoryStorage().document("it.json")


@pytest.fixture
def meeting() -> Callable[[Document, int], Document]:
    """Wrap a document so that its first readers truly race."""
    return MeetingDocument


@pytest.fixture
def team() -> TeamRecord:
    """A lead, ``alice``, ``Zoë`` and, who has ended, ``bob``."""
    members = [
        MemberRecord(name=AgentName("alice"), agent_id=AgentId("alice-1"), prompt="look"),
        MemberRecord(name=AgentName("Zoë"), agent_id=AgentId("zoe-1"), prompt="listen"),
        MemberRecord.model_validate(
            {"name": "bob", "agent_id": "bob-1", "prompt": "leave", "ended_at": "2026-01-01T00:00:00Z"}
        ),
    ]
    return TeamRecord(
        name=TeamName("survey"),
        workspace=Path("/work"),
        lead=LeadRecord(agent_id=AgentId("lead-1")),
        members=tuple(members),
    )
