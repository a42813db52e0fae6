"""The stores over other programs' files keep the contract, but for what their formats cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pseudoclaude.ids import AgentId
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from pseudoclaude.mailbox.foreign.locks import FileLock, FolderLock, ForeignLock
from pseudoclaude.storage.system import System
from pseudoclaude.testing.mail_store_contract import Capability, Locker, MailStoreContract, StoreFactory

EITHER_LACKS = {
    Capability.MADE_BY_CREATE_ONLY: "the other program makes a mailbox with its first message",
    Capability.DURABLE_INTENT: "what a broadcast owes stands nowhere in that program's files",
}
BOX_LACKS = {
    **EITHER_LACKS,
    Capability.WHOLE_MESSAGE: "readers know a message by an id derived from what it says",
    Capability.OWN_IDS: "the other program drops them when it rewrites the file",
}
CLAUDE_LACKS = {
    **EITHER_LACKS,
    Capability.WHOLE_MESSAGE: "times are kept in milliseconds",
    Capability.SHARED_INDEX: "the other program removes messages, so an id is looked for everywhere",
}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops."""
    return str(request.param)


class ForeignContract(MailStoreContract):
    """The contract for one of these stores, opened with these options."""

    kind: ClassVar[type[BoxStore | ClaudeInboxStore]]
    lock: ClassVar[type[ForeignLock]] = FolderLock
    options: ClassVar[dict[str, Any]] = {}

    def open(self, tmp_path: Path, **options: Any) -> BoxStore | ClaudeInboxStore:
        return self.kind(tmp_path / "inboxes", **{**self.options, **options})

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: self.open(tmp_path, lock_wait=0.3)

    @pytest.fixture
    def make_small_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: self.open(tmp_path, max_unread=3)

    @pytest.fixture
    def lock_mailbox(self, tmp_path: Path) -> Locker:
        @contextmanager
        def lock(agent: AgentId) -> Iterator[None]:
            path = str(tmp_path / "inboxes" / f"{agent}.json.lock")
            hold = self.lock(System(), path, stale_after=10, unchanged_for=0.25).take()
            assert hold is not None
            yield
            hold.release()

        return lock


class TestBoxStore(ForeignContract):
    kind = BoxStore
    lock = FileLock
    lacks: ClassVar[Mapping[Capability, str]] = BOX_LACKS


class TestClaudeInboxStore(ForeignContract):
    kind = ClaudeInboxStore
    lacks: ClassVar[Mapping[Capability, str]] = CLAUDE_LACKS


class TestClaudeInboxStoreWithoutNotification(ForeignContract):
    kind = ClaudeInboxStore
    lacks: ClassVar[Mapping[Capability, str]] = CLAUDE_LACKS
    options: ClassVar[dict[str, Any]] = {"durability": "os", "notify": False, "poll": 0.01}
