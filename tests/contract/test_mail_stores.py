"""Every store of ours keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from pseudoclaude.mailbox.native import LogStore, NativeStore
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.testing.mail_store_contract import MailStoreContract, StoreFactory


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both loops."""
    return str(request.param)


class TestLogStoreOnDisk(MailStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: LogStore(tmp_path / "inboxes")


class TestLogStoreInTheCache(MailStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: LogStore(tmp_path / "inboxes", durability="os")


class TestLogStoreWithoutNotification(MailStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: LogStore(tmp_path / "inboxes", durability="os", notify=False, poll=0.01)


class TestLogStoreWithOneRecordASegment(MailStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path: Path) -> StoreFactory:
        return lambda: LogStore(tmp_path / "inboxes", durability="os", segment_bytes=1)


class TestMemoryStore(MailStoreContract):
    @pytest.fixture
    def make_store(self) -> StoreFactory:
        storage = MemoryStorage()
        return lambda: NativeStore(storage)
