"""What the contract of a mail store is written with: fixtures to override, and what a store may lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import pytest

from ..ids import AgentId
from ..mail import Message
from ..mailbox.store import MailStore

ALICE, BOB, CAROL, LEAD = AgentId("alice"), AgentId("bob"), AgentId("carol"), AgentId("lead-1")

StoreFactory = Callable[[], MailStore]
Locker = Callable[[AgentId], AbstractContextManager[object]]

Test = TypeVar("Test", bound=Callable[..., Any])


class Capability(StrEnum):
    """What a store may be unable to do because of its format; the contract holds without it where it must."""

    MADE_BY_CREATE_ONLY = "a mailbox is made by create, and by nothing else"
    WHOLE_MESSAGE = "a message comes back exactly as it was sent"
    OWN_IDS = "a message keeps its id"
    SHARED_INDEX = "an index means the same to every process, so that a search may start at one"
    SILENT_MARKS = "marking read rings nobody"
    DURABLE_INTENT = "a broadcast that its sender could not finish is finished by whoever comes next"
    LOCK_OF_ITS_OWN = "somebody else can keep a mailbox from being written"
    LIMITS = "a mailbox refuses when too much in it is unread"


def needs(*capabilities: Capability) -> Callable[[Test], Test]:
    """Mark a test that a store cannot pass without these."""

    def mark(test: Test) -> Test:
        vars(test)["needs"] = capabilities
        return test

    return mark


def letter(content: str = "hello", *, to: AgentId = ALICE, **fields: object) -> Message:
    """A message from the lead."""
    return Message.model_validate({"from": LEAD, "to": to, "summary": content[:40], "content": content, **fields})


def contents(messages: Sequence[object]) -> list[str]:
    """What the messages say, in order."""
    return [indexed.message.content for indexed in messages]  # type: ignore[attr-defined]


class MailStoreFixtures:
    """What a subclass says of its store: :meth:`make_store` makes it, :attr:`lacks` says what it cannot do.

    It may override :meth:`lock_mailbox` and :meth:`make_small_store` as well.
    """

    lacks: ClassVar[Mapping[Capability, str]] = {}
    """What the store cannot do, each with the reason."""

    @pytest.fixture(autouse=True)
    def _only_what_the_store_can(self, request: pytest.FixtureRequest) -> None:
        for capability in getattr(request.function, "needs", ()):
            if reason := self.lacks.get(capability):
                pytest.skip(f"{capability}: {reason}")

    @pytest.fixture
    def lock_mailbox(self) -> Locker:
        """A function that keeps everybody from writing to a mailbox, for the duration of a ``with`` block."""
        raise NotImplementedError("override lock_mailbox, or say that the store lacks LOCK_OF_ITS_OWN")

    @pytest.fixture
    def make_small_store(self) -> StoreFactory:
        """As :meth:`make_store`; its mailboxes hold three unread messages."""
        raise NotImplementedError("override make_small_store, or say that the store lacks LIMITS")

    @pytest.fixture
    def make_store(self) -> StoreFactory:
        """A function that opens the same mailboxes anew with each call, as another process would."""
        raise NotImplementedError("override make_store")

    @pytest.fixture
    def store(self, make_store: StoreFactory) -> MailStore:
        """One store object, for tests that need no second."""
        return make_store()
