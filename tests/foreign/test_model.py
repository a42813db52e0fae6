"""Two stores of ours and another program on one folder behave like lists of messages, whatever the order of acts."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
import ulid  # noqa: F401  # ids are made with it, and a first import within a test would block its loop
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pseudoclaude.errors import MailboxDamagedError, StorageError, UnknownIndexError
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import IndexedMessage, Message, MessageType, Priority
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from pseudoclaude.mailbox.store import Peek
from pseudoclaude.storage.system import OpenFile, System

T = TypeVar("T")
Store = BoxStore | ClaudeInboxStore
Entry = dict[str, Any]
ALICE, BOB, LEAD = AgentId("alice"), AgentId("bob"), AgentId("lead")
ODD_EXTRAS = '"x_future" :{"a":1.50,"b":12345678901234567890123,"c" : "\\u00e9\\/\u2028","a":[ ] },  "read":false'
KNOWN_TO_GO = ("from", "to", "type", "summary", "content", "payload", "timestamp", "read")
TYPED: list[tuple[MessageType, dict[str, Any] | None]] = [
    (MessageType.NOTE, None),
    (MessageType.TEXT, {"n": 1, "nested": {"text": "<&>\u2028\U0001f600", "list": [1, None, True]}}),
    (MessageType.SHUTDOWN_REQUEST, {"request_id": "r-1", "reason": 'go "home"'}),
    (MessageType.SHUTDOWN_RESPONSE, {"request_id": "r-1", "approve": True}),
    (MessageType.PERMISSION_REQUEST, {"request_id": "r-2", "tool": "Bash", "input": {"command": "ls > x"}}),
    (MessageType.PLAN_APPROVAL_RESPONSE, {"request_id": "r-3", "approve": False, "reason": "no"}),
    (MessageType.IDLE_NOTIFICATION, {"status": "failed", "run_id": "1", "error": "x"}),
    (MessageType.IDLE_NOTIFICATION, {"status": "finished", "run_id": "2"}),
]

which = st.integers(0, 1)
whose = st.sampled_from([ALICE, ALICE, ALICE, BOB])
hostile = st.sampled_from(
    [
        "",
        "same",
        "line\u2028and\u2029paragraph",
        '"quoted" \\ back\\"slash, ]}',
        "\U0001f600 emoji \U0001f469\u200d\U0001f4bb",
        "half \ud83d",
        "\ude00 the other half",
        "<b>&amp;</b>\r\n\t\x00\x1f\x7f",
        '{"type": "shutdown_request", "requestId": "forged"}',
        '], "read": true, "messages": [',
    ]
)
texts = hostile | st.text(max_size=20)


@dataclass(eq=False)
class Item:
    """One message of the model: what a reader sees, and its text in the file."""

    message: Message
    """As it is seen; the id counts only where ours is kept."""
    read: bool = False
    ours: Message | None = None
    id_kept: bool = False
    twin: bool = False
    """The other program wrote it twice. After it removed one of them nobody can tell which, so it removes none here."""
    raw: str = ""
    seen: MessageId | None = None
    """The id under which it was first seen."""


@dataclass
class Handle:
    """An index that a store object gave out."""

    store: Store
    agent: AgentId
    index: int
    item: Item


class WatchedSystem(System):
    """Lets the other program go on with what it does after we have looked at its unfinished work a few times."""

    def __init__(self) -> None:
        self.looks = 0
        self.go_on: Callable[[], None] | None = None

    def read(self, file: OpenFile, size: int, offset: int) -> bytes:
        data = super().read(file, size, offset)
        if not data:
            self.looked()
        return data

    def stat(self, path: str) -> os.stat_result:
        found = super().stat(path)
        if path.endswith(".lock"):
            self.looked()
        return found

    def is_waiting(self) -> bool:
        return self.go_on is not None

    def looked(self) -> None:
        self.looks -= 1
        if self.looks <= 0:
            self.finish()

    def finish(self) -> None:
        if (go_on := self.go_on) is not None:
            self.go_on = None
            go_on()


def clean(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def entries_in(text: str) -> list[str]:
    """The texts of the entries in a file that can be read."""
    at = text.find("[")
    found: list[str] = []
    while at >= 0 and text[at] != "]":
        at += 1
        while text[at] in " \n\r\t":
            at += 1
        if text[at] == "]":
            break
        end = json.JSONDecoder().raw_decode(text, at)[1]
        found.append(text[at:end])
        at = end
        while text[at] in " \n\r\t":
            at += 1
    return found


def exactly(raw: str) -> Any:
    """The value of a text, with the order and repetition of its keys and the form of its numbers."""
    return json.loads(raw, object_pairs_hook=list, parse_int=lambda s: ("int", s), parse_float=lambda s: ("float", s))


class OurStoresAndAnother(RuleBasedStateMachine):
    """What both formats share; the other program is played by plain JSON code with nothing of ours."""

    key: ClassVar[str | None]
    prunes: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.portal_manager = start_blocking_portal()
        self.portal = self.portal_manager.__enter__()
        self.systems: list[WatchedSystem] = [WatchedSystem(), WatchedSystem()]
        self.damages: list[MailboxDamagedError] = []
        self.mail: dict[AgentId, list[Item]] = {ALICE: [], BOB: []}
        self.left: dict[AgentId, set[str]] = {ALICE: set(), BOB: set()}
        self.handles: list[Handle] = []
        self.indices: dict[tuple[int, AgentId], dict[Item, int]] = {}
        self.count = 0
        self.stores: list[Store] = [self.new_store(0), self.new_store(1)]

    # What differs between the formats.

    def open_store(self, **options: Any) -> Store:
        raise NotImplementedError

    def make_lock(self, path: Path) -> None:
        raise NotImplementedError

    def drop_lock(self, path: Path) -> None:
        raise NotImplementedError

    def left_behind(self, agent: AgentId) -> str:
        """The name of a temporary file of ours whose writer died."""
        raise NotImplementedError

    def foreign_entry(self, text: str) -> Entry:
        raise NotImplementedError

    def rewritten(self, entries: list[Entry]) -> str:
        """The file as the other program writes it."""
        raise NotImplementedError

    def after_rewrite(self, item: Item) -> None:
        """What the other program does to a message that it finds when it rewrites the file."""
        raise NotImplementedError

    # Helpers.

    def do(self, act: Callable[[], Awaitable[T]]) -> T:
        return self.portal.call(act)

    def new_store(self, number: int) -> Store:
        store = self.open_store(
            root=self.folder,
            durability="os",
            lock_wait=20,
            unchanged_for=0.01,
            torn_wait=0.02,
            system=self.systems[number],
        )
        store.on_damage(self.damages.append)
        return store

    def path(self, agent: AgentId) -> Path:
        return self.folder / f"{agent}.json"

    def lock(self, agent: AgentId) -> Path:
        return self.folder / f"{agent}.json.lock"

    def load(self, agent: AgentId) -> list[Entry]:
        if not self.path(agent).exists():
            return []
        data = json.loads(self.path(agent).read_bytes())
        return (data if self.key is None else data[self.key]) or []

    def put(self, path: Path, data: bytes, in_place: bool) -> None:
        if in_place:
            path.write_bytes(data)
        else:
            temporary = self.folder / ".tmp-of-the-other-program"
            temporary.write_bytes(data)
            temporary.rename(path)

    def take_raws(self, agent: AgentId) -> None:
        raws = entries_in(self.path(agent).read_bytes().decode())
        assert len(raws) == len(self.mail[agent])
        for item, raw in zip(self.mail[agent], raws, strict=True):
            item.raw = raw

    def rewrite(self, agent: AgentId, entries: list[Entry], in_place: bool) -> None:
        """The other program takes the lock, also one that was left behind, and writes the whole file."""
        self.take_left_lock(agent)
        self.make_lock(self.lock(agent))
        self.put(self.path(agent), self.rewritten(entries).encode(), in_place)
        self.drop_lock(self.lock(agent))
        self.rewrote(agent)

    def take_left_lock(self, agent: AgentId) -> None:
        """The other program takes away a lock that is old; what is ours beside it stays."""
        lock = self.lock(agent)
        if lock.exists():
            self.drop_lock(lock)
            self.left[agent].discard(lock.name)

    def rewrote(self, agent: AgentId) -> None:
        for item in self.mail[agent]:
            self.after_rewrite(item)
        self.take_raws(agent)

    def foreign_item(self, agent: AgentId, text: str) -> Item:
        return Item(Message(sender=BOB, recipient=agent, content=clean(text)))

    def letter(self, agent: AgentId, text: str, typed: int | None, interrupt: bool, reply: bool) -> Message:
        kind, payload = (MessageType.TEXT, None) if typed is None else TYPED[typed % len(TYPED)]
        return Message(
            sender=LEAD,
            recipient=agent,
            content=text,
            summary=text[:5],
            type=kind,
            payload=payload,
            priority=Priority.INTERRUPT if interrupt else Priority.NORMAL,
            in_reply_to=MessageId("earlier") if reply else None,
            hops=3 if reply else 0,
        )

    def wrote(self, agent: AgentId, message: Message) -> Item:
        """The model after a write of ours; a lock left behind was taken away, and what its holder left."""
        item = Item(message, ours=message, id_kept=True)
        self.mail[agent].append(item)
        self.cleared(agent)
        return item

    def cleared(self, agent: AgentId) -> None:
        if self.lock(agent).name in self.left[agent]:
            assert not [name for name in self.left[agent] if (self.folder / name).exists()]
            self.left[agent].clear()

    def unread_of(self, number: int, agent: AgentId) -> tuple[list[IndexedMessage], list[Item]]:
        found = self.do(lambda: self.stores[number].read_unread(agent))
        items = [item for item in self.mail[agent] if not item.read]
        assert [letter.message.content for letter in found] == [item.message.content for item in items]
        return found, items

    # Acts of ours.

    @rule(
        store=which,
        agent=whose,
        text=texts,
        typed=st.none() | st.integers(0, len(TYPED) - 1),
        interrupt=st.booleans(),
        reply=st.booleans(),
    )
    def write(self, store: int, agent: AgentId, text: str, typed: int | None, interrupt: bool, reply: bool) -> None:
        message = self.letter(agent, text, typed, interrupt, reply)
        end = self.do(lambda: self.stores[store].end(agent))
        index = self.do(lambda: self.stores[store].write(agent, message))
        assert index == end
        item = self.wrote(agent, message)
        self.indices.setdefault((store, agent), {})[item] = index

    @rule(store=which, agent=whose, back=st.integers(0, 9), since=st.integers(0, 4))
    def retry(self, store: int, agent: AgentId, back: int, since: int) -> None:
        sent = [(place, item) for place, item in enumerate(self.mail[agent]) if item.ours is not None]
        if not sent:
            return
        place, item = sent[-1 - back % len(sent)]
        message, start = item.ours, max(0, place - since)
        assert message is not None
        before = self.path(agent).read_bytes()
        index = self.do(lambda: self.stores[store].write(agent, message, since=start))
        assert self.path(agent).read_bytes() == before
        self.cleared(agent)
        found = {letter.index: letter for letter in self.do(lambda: self.stores[store].read(agent))}
        assert found[index].message.content == item.message.content
        assert self.prunes or index == place

    @rule(store=which, text=texts, retried=st.booleans())
    def broadcast(self, store: int, text: str, retried: bool) -> None:
        message = self.letter(LEAD, text, None, False, False)
        result = self.do(lambda: self.stores[store].broadcast([ALICE, BOB, ALICE], message))
        assert set(result.stored) == {ALICE, BOB}
        assert not result.waiting
        for agent in (ALICE, BOB):
            self.wrote(agent, message.model_copy(update={"recipient": agent}))
        if retried:
            again = self.do(lambda: self.stores[store].broadcast([ALICE, BOB], message, since=0))
            assert again.stored == result.stored

    @rule(store=which, agent=whose, picks=st.sets(st.integers(0, 9)), keep=st.booleans())
    def mark(self, store: int, agent: AgentId, picks: set[int], keep: bool) -> None:
        found, items = self.unread_of(store, agent)
        chosen = [place for place in range(len(found)) if place in picks]
        if keep:
            pairs = zip(found, items, strict=True)
            self.handles += [Handle(self.stores[store], agent, letter.index, item) for letter, item in pairs]
        self.do(lambda: self.stores[store].mark_read(agent, [found[place].index for place in chosen]))
        for place in chosen:
            items[place].read = True
        if chosen:
            self.cleared(agent)

    @precondition(lambda self: bool(self.handles))
    @rule(pick=st.integers(0, 99))
    def mark_by_an_index_from_before(self, pick: int) -> None:
        handle = self.handles[pick % len(self.handles)]
        if handle.store not in self.stores:
            return
        was_read = handle.item.read
        self.do(lambda: handle.store.mark_read(handle.agent, [handle.index]))
        handle.item.read = True
        if not was_read and handle.item in self.mail[handle.agent]:
            self.cleared(handle.agent)

    @rule(store=which, agent=whose, beyond=st.integers(0, 3))
    def mark_out_of_range(self, store: int, agent: AgentId, beyond: int) -> None:
        end = self.do(lambda: self.stores[store].end(agent))
        for bad in (end + beyond, -1 - beyond):
            with pytest.raises(UnknownIndexError):
                self.do(lambda bad=bad: self.stores[store].mark_read(agent, [bad, *range(end)]))  # type: ignore[misc]

    @rule(store=which, agent=whose)
    def peek(self, store: int, agent: AgentId) -> None:
        found, items = self.unread_of(store, agent)
        waking = [letter.index for letter, item in zip(found, items, strict=True) if item.message.wakes]
        interrupting = sum(item.message.priority is Priority.INTERRUPT for item in items)
        expected = Peek(len(items), len(waking), interrupting, max(waking, default=-1))
        for _ in range(2):
            assert self.do(lambda: self.stores[store].peek(agent)) == expected
            assert self.do(lambda: self.stores[store].has_unread(agent)) == bool(items)

    @rule(store=which, agent=whose)
    def find(self, store: int, agent: AgentId) -> None:
        read = self.do(lambda: self.stores[store].read(agent))
        for letter, item in list(zip(read, self.mail[agent], strict=True))[-4:]:
            wanted = [letter.message.id]
            if item.ours is not None and item.id_kept:
                wanted.append(item.ours.id)
            for name in wanted:
                assert self.do(lambda name=name: self.stores[store].find(agent, name, since=0)) == letter.index  # type: ignore[misc]
        assert self.do(lambda: self.stores[store].find(agent, MessageId("nobody"), since=0)) is None

    @rule(store=which)
    def reopen(self, store: int) -> None:
        self.stores[store] = self.new_store(store)
        for agent in self.mail:
            self.indices.pop((store, agent), None)

    # Acts of the other program.

    @rule(agent=whose, text=texts, in_place=st.booleans())
    def other_appends(self, agent: AgentId, text: str, in_place: bool) -> None:
        entries = [*self.load(agent), self.foreign_entry(text)]
        self.mail[agent].append(self.foreign_item(agent, text))
        self.rewrite(agent, entries, in_place)

    @rule(agent=whose, back=st.integers(0, 5))
    def other_appends_the_very_same_again(self, agent: AgentId, back: int) -> None:
        entries = self.load(agent)
        own = [place for place, item in enumerate(self.mail[agent]) if item.ours is None]
        if not own:
            return
        place = own[-1 - back % len(own)]
        item = self.mail[agent][place]
        item.twin = True
        self.mail[agent].append(Item(item.message, twin=True))
        self.rewrite(agent, [*entries, {**entries[place], "read": False}], in_place=False)

    @rule(agent=whose, text=texts)
    def somebody_adds_an_entry_by_hand(self, agent: AgentId, text: str) -> None:
        """With keys nobody knows, odd spaces and odd numbers, and nothing else of the file changed."""
        if not self.path(agent).exists():
            self.other_appends(agent, text, in_place=False)
        self.take_left_lock(agent)
        entry = self.foreign_entry(text)
        entry.pop("read")
        raw = json.dumps(entry).removesuffix("}") + " , " + ODD_EXTRAS + " }"
        whole = self.path(agent).read_bytes().decode()
        if not self.mail[agent]:
            whole = self.rewritten([{}]).replace("{}", raw)
        else:
            at = whole.rindex(self.mail[agent][-1].raw) + len(self.mail[agent][-1].raw)
            whole = f"{whole[:at]} ,\r\n\t{raw}{whole[at:]}"
        self.put(self.path(agent), whole.encode(), in_place=True)
        self.mail[agent].append(self.foreign_item(agent, text))
        self.take_raws(agent)
        assert self.mail[agent][-1].raw == raw

    @rule(agent=whose, picks=st.sets(st.integers(0, 9)), in_place=st.booleans())
    def other_marks(self, agent: AgentId, picks: set[int], in_place: bool) -> None:
        if not self.path(agent).exists():
            return
        entries = self.load(agent)
        for place in picks:
            if place < len(entries):
                entries[place]["read"] = True
                self.mail[agent][place].read = True
        self.rewrite(agent, entries, in_place)

    @rule(
        store=which,
        agent=whose,
        text=texts,
        cut=st.floats(0, 1),
        looks=st.integers(1, 2),
        act=st.sampled_from(["read", "unread", "peek", "write", "mark"]),
    )
    def other_is_in_the_middle_of_a_write(
        self, store: int, agent: AgentId, text: str, cut: float, looks: int, act: str
    ) -> None:
        """It truncated the file and goes on, under its lock, while one of ours wants something."""
        path, lock, system, our = self.path(agent), self.lock(agent), self.systems[store], self.stores[store]
        whole = self.rewritten([*self.load(agent), self.foreign_entry(text)]).encode()
        self.take_left_lock(agent)
        self.make_lock(lock)
        path.write_bytes(whole[: int(cut * (len(whole.rstrip()) - 1))])
        self.mail[agent].append(self.foreign_item(agent, text))

        def go_on() -> None:
            path.write_bytes(whole)
            self.drop_lock(lock)
            self.rewrote(agent)

        system.looks, system.go_on = looks, go_on
        message = self.letter(agent, text, None, False, False)
        contents = [item.message.content for item in self.mail[agent]]
        unread = [item for item in self.mail[agent] if not item.read]
        if act == "read":
            assert [found.message.content for found in self.do(lambda: our.read(agent))] == contents
        elif act == "unread":
            found = self.do(lambda: our.read_unread(agent))
            assert [letter.message.content for letter in found] == [item.message.content for item in unread]
        elif act == "peek":
            assert self.do(lambda: our.peek(agent)).unread == len(unread)
        elif act == "write":
            self.do(lambda: our.write(agent, message))
            assert not system.is_waiting()
            self.wrote(agent, message)
        else:
            end = self.do(lambda: our.end(agent))
            self.do(lambda: our.mark_read(agent, range(end)))
            for item in self.mail[agent]:
                item.read = True
        system.finish()

    @rule(agent=whose, temporary=st.booleans())
    def somebody_dies_with_the_lock(self, agent: AgentId, temporary: bool) -> None:
        if self.lock(agent).exists():
            return
        self.make_lock(self.lock(agent))
        long_ago = time.time() - 60
        os.utime(self.lock(agent), (long_ago, long_ago))
        self.left[agent].add(self.lock(agent).name)
        if temporary:
            (self.folder / self.left_behind(agent)).write_bytes(b'{"mess')
            self.left[agent].add(self.left_behind(agent))

    @rule(store=which, agent=whose)
    def something_else_stands_in_the_place_of_the_lock(self, store: int, agent: AgentId) -> None:
        lock = self.lock(agent)
        if lock.exists():
            return
        os.symlink("nowhere", lock)
        with pytest.raises(StorageError, match="in the place of a lock"):
            self.do(lambda: self.stores[store].write(agent, self.letter(agent, "refused", None, False, False)))
        assert os.readlink(lock) == "nowhere"
        lock.unlink()

    @rule(agent=whose)
    def time_passes(self, agent: AgentId) -> None:
        """The file is old enough that readers need not read it again."""
        if self.path(agent).exists():
            self.count += 1
            os.utime(self.path(agent), (1_700_000_000 + self.count, 1_700_000_000 + self.count))

    # What always holds.

    @invariant()
    def nothing_of_ours_is_left_but_mailboxes(self) -> None:
        names = set(os.listdir(self.folder))
        for agent in self.mail:
            self.left[agent] &= names
            names -= self.left[agent]
        assert names <= {self.path(agent).name for agent in self.mail}
        assert not self.damages

    @invariant()
    def what_others_wrote_stays_byte_for_byte(self) -> None:
        for agent, items in self.mail.items():
            if not self.path(agent).exists():
                assert not items
                continue
            raws = entries_in(self.path(agent).read_bytes().decode())
            assert len(raws) == len(items)
            for item, raw in zip(items, raws, strict=True):
                value = json.loads(raw)
                assert (value.get("read") is True) == item.read
                if item.raw and raw != item.raw:
                    assert item.read
                    assert json.loads(item.raw).get("read") is not True
                    pairs = [pair for pair in exactly(raw) if pair[0] != "read"]
                    assert pairs == [pair for pair in exactly(item.raw) if pair[0] != "read"]
                    assert raw.replace("true", "").replace("false", "") == item.raw.replace("true", "").replace(
                        "false", ""
                    )
                item.raw = raw

    @invariant()
    def both_stores_see_the_model(self) -> None:
        for number, store in enumerate(self.stores):
            for agent, items in self.mail.items():
                read, unread = self.do(lambda store=store, agent=agent: self.both(store, agent))  # type: ignore[misc]
                assert [letter.read for letter in read] == [item.read for item in items]
                assert unread == [letter for letter in read if not letter.read]
                assert len({letter.index for letter in read}) == len(read)
                assert len({letter.message.id for letter in read}) == len(read)
                given = self.indices.setdefault((number, agent), {})
                for place, (letter, item) in enumerate(zip(read, items, strict=True)):
                    self.compare(letter.message, item)
                    if not self.prunes:
                        assert letter.index == place
                    assert given.setdefault(item, letter.index) == letter.index

    @staticmethod
    async def both(store: Store, agent: AgentId) -> tuple[list[IndexedMessage], list[IndexedMessage]]:
        return await store.read(agent), await store.read_unread(agent)

    def compare(self, found: Message, item: Item) -> None:
        wanted = item.message
        for name in ("sender", "recipient", "type", "content", "priority", "in_reply_to", "hops"):
            assert getattr(found, name) == getattr(wanted, name), name
        assert (found.payload or None) == (wanted.payload or None)
        assert found.wakes == wanted.wakes
        if item.ours is not None:
            assert found.summary == wanted.summary
            assert abs((found.timestamp - wanted.timestamp).total_seconds()) < 0.001
        item.seen = item.seen or found.id
        assert found.id == item.seen

    def teardown(self) -> None:
        self.portal_manager.__exit__(None, None, None)
        shutil.rmtree(self.folder, ignore_errors=True)


class BoxesAndTheGoProgram(OurStoresAndAnother):
    """It encodes every entry anew, without the keys it does not know, and never removes one."""

    key = "messages"
    prunes = False

    def open_store(self, **options: Any) -> Store:
        return BoxStore(**options)

    def make_lock(self, path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def drop_lock(self, path: Path) -> None:
        path.unlink()

    def left_behind(self, agent: AgentId) -> str:
        return f".tmp-{agent}-0123abcd.json"

    def foreign_entry(self, text: str) -> Entry:
        self.count += 1
        fraction = f"{self.count:09}".rstrip("0")
        entry: Entry = {"from": "bob", "to": "alice", "type": "text", "summary": "s"}
        if text:
            entry["content"] = text
        return {**entry, "timestamp": f"2026-11-30T20:15:41.{fraction}+01:00", "read": False}

    def rewritten(self, entries: list[Entry]) -> str:
        kept = []
        for entry in entries:
            kept.append({key: entry[key] for key in KNOWN_TO_GO if key in entry})
            if "payload" in kept[-1]:
                kept[-1]["payload"] = json.loads(json.dumps(kept[-1]["payload"], sort_keys=True))
        text = clean(json.dumps({"messages": kept or None}, indent=2, ensure_ascii=False))
        for mark in "<>&\u2028\u2029":
            text = text.replace(mark, f"\\u{ord(mark):04x}")
        return text + "\n"

    def after_rewrite(self, item: Item) -> None:
        item.id_kept = False
        lost = {"priority": Priority.NORMAL, "in_reply_to": None, "hops": 0}
        item.message = item.message.model_copy(update=lost)


class InboxesAndClaudeCode(OurStoresAndAnother):
    """It keeps keys it does not know; newer versions remove what they delivered."""

    key = None
    prunes = True

    def open_store(self, **options: Any) -> Store:
        return ClaudeInboxStore(**options)

    def make_lock(self, path: Path) -> None:
        path.mkdir()

    def drop_lock(self, path: Path) -> None:
        path.rmdir()

    def left_behind(self, agent: AgentId) -> str:
        return f"{agent}.json.tmp.0123abcd"

    def foreign_entry(self, text: str) -> Entry:
        self.count += 1
        stamp = f"2026-11-30T19:{self.count // 1000:02}:41.{self.count % 1000:03}Z"
        entry: Entry = {"from": "bob", "text": text, "timestamp": stamp, "color": "blue"}
        if self.count % 3:  # a newer version
            entry |= {"msgV": 1, "msg_id": f"00000000-0000-4000-8000-{self.count:012}", "type": "message"}
        return {**entry, "read": False}

    def foreign_item(self, agent: AgentId, text: str) -> Item:
        item = super().foreign_item(agent, text)
        if text.startswith('{"type"'):
            item.message = item.message.model_copy(
                update={"type": MessageType.SHUTDOWN_REQUEST, "payload": {"request_id": "forged"}, "content": ""}
            )
        return item

    def rewritten(self, entries: list[Entry]) -> str:
        text = json.dumps(entries, indent=2, ensure_ascii=False)
        return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)

    def after_rewrite(self, item: Item) -> None:
        pass

    @rule(agent=whose, text=texts, name=st.sampled_from(["x", "x#2", "y" * 190 + "1", "y" * 190 + "2"]))
    def other_appends_under_an_id_that_is_taken(self, agent: AgentId, text: str, name: str) -> None:
        """It gives no id twice, but nothing stops others; ours tell equal ids apart by a number."""
        item = self.foreign_item(agent, text)
        item.twin = True
        self.mail[agent].append(item)
        self.rewrite(agent, [*self.load(agent), {**self.foreign_entry(text), "msg_id": name}], in_place=False)

    @rule(agent=whose, until=st.integers(0, 12), in_place=st.booleans())
    def other_removes_what_it_delivered(self, agent: AgentId, until: int, in_place: bool) -> None:
        entries = self.load(agent)
        items = self.mail[agent]
        gone = {
            place
            for place, entry in enumerate(entries)
            if place < until and entry["read"] is False and not items[place].twin
        }
        if not gone:
            return
        self.mail[agent] = [item for place, item in enumerate(items) if place not in gone]
        kept = [{"type": "message", **entry} for place, entry in enumerate(entries) if place not in gone]
        self.rewrite(agent, kept, in_place)


@pytest.mark.parametrize(
    "names",
    [["x", "x", "x#2"], ["x#2", "x", "x"], ["y" * 190 + "1"] * 2 + ["y" * 190 + "2"] * 2, ["x", "x#2", "x", "x"]],
)
async def test_ids_that_look_like_the_numbers_of_equal_ids_are_told_apart(tmp_path: Path, names: list[str]) -> None:
    entries = [
        {"from": "bob", "text": str(place), "timestamp": "2026-11-30T19:15:41.727Z", "msg_id": name}
        for place, name in enumerate(names)
    ]
    (tmp_path / "alice.json").write_text(json.dumps(entries))
    store = ClaudeInboxStore(tmp_path, durability="os")
    found = await store.read(ALICE)
    assert [letter.message.content for letter in found] == [str(place) for place in range(len(names))]
    assert len({letter.message.id for letter in found}) == len(names)
    await store.mark_read(ALICE, [found[1].index])
    assert [letter.read for letter in await store.read(ALICE)] == [place == 1 for place in range(len(names))]


BRIEF = settings(max_examples=45, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
TestBoxesAndTheGoProgram = BoxesAndTheGoProgram.TestCase
TestBoxesAndTheGoProgram.settings = BRIEF
TestInboxesAndClaudeCode = InboxesAndClaudeCode.TestCase
TestInboxesAndClaudeCode.settings = BRIEF
