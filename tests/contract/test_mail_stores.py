"""Every store of ours keeps the contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pseudoclaude.mailbox.native import LogStore, NativeStore
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.testing.mail_store_contract import Capability, Locker, MailStoreContract, StoreFactory


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops."""
    return str(request.param)


class LogStoreContract(MailStoreContract):
    """The contract for stores on the files of ``tmp_path``, opened with these options."""

    options: ClassVar[dict[str, Any]] = {}

    def open(self, tmp_path: Path, **options: Any) -> LogStore:
        return LogStore(tmp_path / "inboxes", lock_wait=0.2, **{**self.options, **options})

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: self.open(tmp_path)

    @pytest.fixture
    def make_small_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: self.open(tmp_path, max_unread=3)

    @pytest.fixture
    def lock_mailbox(self, tmp_path: Path) -> Locker:
        return lambda agent: FileStorage(tmp_path / "inboxes").lease(f"{agent}/lock").hold("somebody else")


class TestLogStoreOnDisk(LogStoreContract):
    options: ClassVar[dict[str, Any]] = {}


class TestLogStoreInTheCache(LogStoreContract):
    options: ClassVar[dict[str, Any]] = {"durability": "os"}


class TestLogStoreWithoutNotification(LogStoreContract):
    options: ClassVar[dict[str, Any]] = {"durability": "os", "notify": False, "poll": 0.01}


class TestLogStoreWithOneRecordASegment(LogStoreContract):
    options: ClassVar[dict[str, Any]] = {"durability": "os", "segment_bytes": 1}


class TestMemoryStore(MailStoreContract):
    lacks: ClassVar[Mapping[Capability, str]] = {
        Capability.LOCK_OF_ITS_OWN: "what only one process has needs no lock",
    }

    @pytest.fixture
    def make_store(self) -> StoreFactory:
        storage = MemoryStorage()
        return lambda: NativeStore(storage)

    @pytest.fixture
    def make_small_store(self) -> StoreFactory:
        storage = MemoryStorage()
        return lambda: NativeStore(storage, max_unread=3)
