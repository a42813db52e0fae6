"""Two stores on one folder behave like a list of messages and a set of marks, whatever the order of acts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message, MessageType
from pseudoclaude.mailbox.native import LogStore
from pseudoclaude.mailbox.store import Peek
from pseudoclaude.storage.base import Flaw

T = TypeVar("T")
ALICE = AgentId("alice")
which = st.integers(0, 1)


class TwoStores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.portal_manager = start_blocking_portal()
        self.portal = self.portal_manager.__enter__()
        self.messages: list[Message] = []
        self.marks: set[int] = set()

    @initialize(segment_bytes=st.sampled_from([1, 700, 1 << 20]))
    def open(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.stores = [self.new_store(), self.new_store()]
        self.do(lambda: self.stores[0].create(ALICE))

    def new_store(self) -> LogStore:
        return LogStore(self.folder, durability="os", segment_bytes=self.segment_bytes, shortest_retention=timedelta(0))

    def do(self, act: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(act)

    @rule(store=which, content=st.text(max_size=40), kind=st.sampled_from([MessageType.TEXT, MessageType.NOTE]))
    def write(self, store: int, content: str, kind: MessageType) -> None:
        message = Message(sender=AgentId("lead"), recipient=ALICE, content=content, type=kind)
        assert self.do(lambda: self.stores[store].write(ALICE, message)) == len(self.messages)
        self.messages.append(message)

    @rule(store=which, back=st.integers(1, 30), since=st.integers(0, 5))
    def retry(self, store: int, back: int, since: int) -> None:
        index = len(self.messages) - back
        if index >= 0:
            message, start = self.messages[index], max(0, index - since)
            assert self.do(lambda: self.stores[store].write(ALICE, message, since=start)) == index

    @rule(store=which, picks=st.sets(st.integers(0, 40)))
    def mark(self, store: int, picks: set[int]) -> None:
        indices = {pick for pick in picks if pick < len(self.messages)}
        self.do(lambda: self.stores[store].mark_read(ALICE, indices))
        self.marks |= indices

    @rule(store=which, limit=st.integers(1, 5))
    def take(self, store: int, limit: int) -> None:
        taken = self.do(lambda: self.stores[store].read_unread(ALICE, limit=limit))
        assert [m.index for m in taken] == self.unread()[:limit]
        self.do(lambda: self.stores[store].mark_read(ALICE, [m.index for m in taken]))
        self.marks |= {m.index for m in taken}

    @rule(store=which, start=st.integers(0, 30), limit=st.none() | st.integers(0, 5))
    def read(self, store: int, start: int, limit: int | None) -> None:
        found = self.do(lambda: self.stores[store].read(ALICE, start=start, limit=limit))
        end = None if limit is None else start + limit
        expected = list(enumerate(self.messages))[start:end]
        assert [(m.index, m.message, m.read) for m in found] == [(i, m, i in self.marks) for i, m in expected]

    @rule(store=which)
    def reopen(self, store: int) -> None:
        self.stores[store] = self.new_store()

    @rule(piece=st.sampled_from([b"{", b'{"i":0,"id":"x","from', b"\0\0\0", b"junk\n", b'{"sealed":']))
    def tear(self, piece: bytes) -> None:
        files = sorted((self.folder / "alice").glob("0*.jsonl"))
        if files:
            with files[-1].open("ab") as file:
                file.write(piece)

    @rule(store=which)
    def archive(self, store: int) -> None:
        self.do(lambda: self.stores[store].archive(timedelta(0)))

    @rule(store=which, mend=st.booleans())
    def look_for_faults(self, store: int, mend: bool) -> None:
        look = self.stores[store].mend if mend else self.stores[store].examine
        assert {finding.flaw for finding in self.do(lambda: look(ALICE))} <= {Flaw.TORN_PIECE}

    @rule(store=which)
    def find(self, store: int) -> None:
        for index, message in list(enumerate(self.messages))[-3:]:
            assert self.do(lambda wanted=message.id: self.stores[store].find(ALICE, wanted, since=0)) == index  # type: ignore[misc]

    @rule(store=which)
    def peek(self, store: int) -> None:
        unread = self.unread()
        waking = [index for index in unread if self.messages[index].wakes]
        expected = Peek(len(unread), len(waking), 0, max(waking, default=-1))
        assert self.do(lambda: self.stores[store].peek(ALICE)) == expected

    @invariant()
    def ends_where_the_model_ends(self) -> None:
        if hasattr(self, "stores"):
            assert self.do(lambda: self.stores[0].end(ALICE)) == len(self.messages)

    def unread(self) -> list[int]:
        return [index for index in range(len(self.messages)) if index not in self.marks]

    def teardown(self) -> None:
        self.portal_manager.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)


TestTwoStores = TwoStores.TestCase
TestTwoStores.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
