"""The contract of a mail store, as tests: derive a class from :class:`MailStoreContract` and give it a store."""

from __future__ import annotations

from typing import cast

import anyio
import anyio.lowlevel
import pytest

from ..errors import InvalidMessageError, InvalidNameError, MailboxFullError, UnknownIndexError, UnknownMailboxError
from ..ids import AgentId, MessageId
from ..mail import IdleStatus, MessageType, Priority
from ..mailbox.store import MailStore, Peek
from .mail_store_fixtures import (
    ALICE,
    BOB,
    CAROL,
    LEAD,
    Capability,
    Locker,
    MailStoreFixtures,
    StoreFactory,
    contents,
    letter,
    needs,
)

__all__ = [
    "ALICE",
    "BOB",
    "CAROL",
    "LEAD",
    "Capability",
    "Locker",
    "MailStoreContract",
    "StoreFactory",
    "contents",
    "letter",
    "needs",
]


class MailStoreContract(MailStoreFixtures):
    """What every store holds. A subclass overrides the fixture ``make_store``, and says what its store lacks."""

    @needs(Capability.MADE_BY_CREATE_ONLY)
    async def test_a_mailbox_is_made_by_create_and_nothing_else(self, store: MailStore) -> None:
        with pytest.raises(UnknownMailboxError):
            await store.write(ALICE, letter())
        for look in (store.end, store.read, store.read_unread, store.peek, store.has_unread):
            with pytest.raises(UnknownMailboxError):
                await look(ALICE)
        with pytest.raises(UnknownMailboxError):
            await store.mark_read(ALICE, [0])
        await store.create(ALICE)
        await store.write(ALICE, letter())

    async def test_creating_twice_keeps_the_mail(self, store: MailStore) -> None:
        await store.create(ALICE)
        await store.write(ALICE, letter("kept"))
        await store.create(ALICE)
        assert contents(await store.read(ALICE)) == ["kept"]

    async def test_a_new_mailbox_is_empty(self, store: MailStore) -> None:
        await store.create(ALICE)
        assert await store.read(ALICE) == []
        assert await store.read_unread(ALICE) == []
        assert await store.peek(ALICE) == Peek()
        assert not await store.has_unread(ALICE)

    @needs(Capability.WHOLE_MESSAGE)
    async def test_a_message_comes_back_as_it_was_sent(self, store: MailStore) -> None:
        await store.create(ALICE)
        sent = letter('line\nbreak "quoted" }\u2028\x00 \U0001f600 é', payload={"a": [1, None, {"b": "}"}]}, hops=3)
        index = await store.write(ALICE, sent)
        (back,) = await store.read(ALICE)
        assert (back.index, back.message, back.read) == (index, sent, False)

    async def test_indices_grow_in_the_order_of_writing(self, store: MailStore) -> None:
        await store.create(ALICE)
        indices = [await store.write(ALICE, letter(str(n))) for n in range(5)]
        assert indices == sorted(set(indices))
        assert [m.index for m in await store.read(ALICE)] == indices
        assert await store.end(ALICE) > indices[-1]

    async def test_an_index_means_the_same_to_another_object(self, make_store: StoreFactory) -> None:
        one, other = make_store(), make_store()
        await one.create(ALICE)
        indices = [await (one, other)[n % 2].write(ALICE, letter(str(n))) for n in range(6)]
        assert len(set(indices)) == 6
        expected = [(index, str(n)) for n, index in enumerate(indices)]
        for store in (one, other, make_store()):
            assert [(m.index, m.message.content) for m in await store.read(ALICE)] == expected

    async def test_reading_starts_at_an_index_and_stops_at_a_limit(self, store: MailStore) -> None:
        await store.create(ALICE)
        indices = [await store.write(ALICE, letter(str(n))) for n in range(6)]
        assert contents(await store.read(ALICE, start=indices[2], limit=2)) == ["2", "3"]
        assert contents(await store.read(ALICE, start=indices[5] + 1)) == []
        assert contents(await store.read_unread(ALICE, limit=4)) == ["0", "1", "2", "3"]
        assert await store.read(ALICE, limit=0) == []

    async def test_marks_hold_for_every_object_and_merge(self, make_store: StoreFactory) -> None:
        one, other = make_store(), make_store()
        await one.create(ALICE)
        indices = [await one.write(ALICE, letter(str(n))) for n in range(6)]
        assert len(await other.read_unread(ALICE)) == 6
        await one.mark_read(ALICE, indices[0:2])
        await other.mark_read(ALICE, [indices[4]])
        await one.mark_read(ALICE, [indices[1], indices[2]])
        for store in (one, other, make_store()):
            assert contents(await store.read_unread(ALICE)) == ["3", "5"]
            assert [m.read for m in await store.read(ALICE)] == [True, True, True, False, True, False]

    async def test_marking_twice_changes_nothing(self, store: MailStore) -> None:
        await store.create(ALICE)
        index = await store.write(ALICE, letter())
        await store.mark_read(ALICE, [index, index])
        await store.mark_read(ALICE, [index])
        await store.mark_read(ALICE, [])
        assert await store.read_unread(ALICE) == []

    async def test_an_index_out_of_range_marks_nothing(self, store: MailStore) -> None:
        await store.create(ALICE)
        index = await store.write(ALICE, letter())
        for bad in (index + 1, -1):
            with pytest.raises(UnknownIndexError):
                await store.mark_read(ALICE, [index, bad])
        assert len(await store.read_unread(ALICE)) == 1

    async def test_a_retry_is_stored_once(self, make_store: StoreFactory) -> None:
        one, other = make_store(), make_store()
        await one.create(ALICE)
        await one.write(ALICE, letter("before"))
        since = await one.end(ALICE)
        message = letter("once")
        first = await one.write(ALICE, message)
        await other.write(ALICE, letter("after"))
        assert await one.write(ALICE, message, since=since) == first
        assert await other.write(ALICE, message, since=0) == first
        assert contents(await other.read(ALICE)) == ["before", "once", "after"]

    async def test_a_retry_of_what_was_never_stored_stores_it(self, store: MailStore) -> None:
        await store.create(ALICE)
        await store.write(ALICE, letter("other"))
        index = await store.write(ALICE, letter("late"), since=await store.end(ALICE))
        assert (await store.read(ALICE, start=index))[0].message.content == "late"

    @needs(Capability.SHARED_INDEX)
    async def test_find_looks_from_an_index_on(self, store: MailStore) -> None:
        await store.create(ALICE)
        message = letter("where")
        decoy = letter(f"mentions {message.id}", payload={"id": message.id})
        await store.write(ALICE, decoy)
        index = await store.write(ALICE, message)
        assert await store.find(ALICE, message.id, since=0) == index
        assert await store.find(ALICE, message.id, since=index) == index
        assert await store.find(ALICE, message.id, since=index + 1) is None
        assert await store.find(ALICE, MessageId("nobody"), since=0) is None

    async def test_a_broadcast_reaches_each_under_its_own_name(self, store: MailStore) -> None:
        await store.create(ALICE)
        await store.create(BOB)
        message = letter("all")
        result = await store.broadcast([ALICE, BOB], message)
        assert set(result.stored) == {ALICE, BOB}
        assert not result.waiting
        for agent in (ALICE, BOB):
            (back,) = await store.read(agent)
            assert back.message.recipient == agent
            assert back.index == result.stored[agent]

    @needs(Capability.OWN_IDS)
    async def test_the_copies_of_a_broadcast_have_one_id(self, store: MailStore) -> None:
        await store.create(ALICE)
        await store.create(BOB)
        message = letter("all")
        await store.broadcast([ALICE, BOB, ALICE], message)
        for agent in (ALICE, BOB):
            assert [m.message.id for m in await store.read(agent)] == [message.id]

    @needs(Capability.MADE_BY_CREATE_ONLY)
    async def test_who_cannot_be_written_is_named_and_the_others_are_served(self, store: MailStore) -> None:
        await store.create(ALICE)
        await store.create(CAROL)
        message = letter("all")
        result = await store.broadcast([ALICE, BOB, CAROL], message)
        assert set(result.stored) == {ALICE, CAROL}
        assert set(result.waiting) == {BOB}
        assert "bob" in result.waiting[BOB]
        await store.create(BOB)
        again = await store.broadcast([ALICE, BOB, CAROL], message, since=0)
        assert set(again.stored) == {ALICE, BOB, CAROL}
        assert [len(await store.read(agent)) for agent in (ALICE, BOB, CAROL)] == [1, 1, 1]

    async def test_peek_counts_by_the_type_table_and_marks_nothing(self, make_store: StoreFactory) -> None:
        store, other = make_store(), make_store()
        await store.create(ALICE)
        note = await store.write(ALICE, letter(type=MessageType.NOTE))
        assert await store.peek(ALICE) == Peek(unread=1)
        failed = {"status": IdleStatus.FAILED.value, "run_id": "r"}
        await store.write(ALICE, letter(type=MessageType.IDLE_NOTIFICATION, payload={**failed, "status": "finished"}))
        failure = await store.write(ALICE, letter(type=MessageType.IDLE_NOTIFICATION, payload=failed))
        urgent = await store.write(ALICE, letter(type=MessageType.NOTE, priority=Priority.INTERRUPT))
        expected = Peek(unread=4, waking=2, interrupting=1, newest_waking=urgent)
        for _ in range(2):
            assert await store.peek(ALICE) == expected
            assert await other.peek(ALICE) == expected
        await other.mark_read(ALICE, [note, urgent])
        for looking in (store, other):
            assert await looking.peek(ALICE) == Peek(2, 1, 0, failure)
            assert await looking.has_unread(ALICE)

    async def test_a_message_that_is_too_long_is_refused_with_the_limit(self, store: MailStore) -> None:
        await store.create(ALICE)
        with pytest.raises(InvalidMessageError, match="1,048,576"):
            await store.write(ALICE, letter("é" * (600 << 10)))
        assert await store.read(ALICE) == []
        await store.write(ALICE, letter("x" * (1 << 20)))

    async def test_a_watch_names_everybody_first_and_then_who_got_mail(self, make_store: StoreFactory) -> None:
        store, other = make_store(), make_store()
        await store.create(ALICE)
        await store.create(BOB)
        with anyio.fail_after(10):
            async with store.watch() as names:
                assert {await anext(names), await anext(names)} == {ALICE, BOB}
                await other.write(BOB, letter())
                while await anext(names) != BOB:
                    pass
                await store.write(ALICE, letter())
                while await anext(names) != ALICE:
                    pass

    async def test_writers_at_once_lose_nothing(self, make_store: StoreFactory) -> None:
        stores = [make_store() for _ in range(4)]
        await stores[0].create(ALICE)

        async def write(store: MailStore, name: int) -> None:
            for n in range(10):
                await store.write(ALICE, letter(f"{name}:{n}"))

        async with anyio.create_task_group() as group:
            for name, store in enumerate(stores):
                group.start_soon(write, store, name)
        messages = await make_store().read(ALICE)
        assert len({m.index for m in messages}) == 40
        for name in range(4):
            assert [c for c in contents(messages) if c.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(10)]

    async def test_twins_of_one_retry_are_stored_once(self, make_store: StoreFactory) -> None:
        stores = [make_store() for _ in range(4)]
        await stores[0].create(ALICE)
        message, found = letter("twin"), set()

        async def retry(store: MailStore) -> None:
            found.add(await store.write(ALICE, message, since=0))

        async with anyio.create_task_group() as group:
            for store in stores:
                group.start_soon(retry, store)
        assert len(found) == 1
        assert contents(await stores[0].read(ALICE)) == ["twin"]

    async def test_a_retry_after_a_cancelled_write_is_stored_once(self, store: MailStore) -> None:
        await store.create(ALICE)
        message = letter("cancelled")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.write(ALICE, message)
        await store.write(ALICE, message, since=0)
        assert contents(await store.read(ALICE)) == ["cancelled"]

    async def test_an_index_keeps_its_meaning_when_the_store_is_opened_anew(self, make_store: StoreFactory) -> None:
        store = make_store()
        await store.create(ALICE)
        indices = [await store.write(ALICE, letter(str(n))) for n in range(4)]
        await store.mark_read(ALICE, indices[:2])
        again = make_store()
        await again.write(ALICE, letter("4"))
        for n, index in enumerate(indices):
            (found,) = await again.read(ALICE, start=index, limit=1)
            assert (found.index, found.message.content, found.read) == (index, str(n), n < 2)

    async def test_readers_never_see_half_a_message(self, make_store: StoreFactory) -> None:
        writer, reader = make_store(), make_store()
        await writer.create(ALICE)
        sent = [str(n) * 50_000 for n in range(10)]

        async def write() -> None:
            for content in sent:
                await writer.write(ALICE, letter(content))

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            seen = 0
            while seen < len(sent):
                found = contents(await reader.read(ALICE))
                assert found == sent[: len(found)]
                assert len(found) >= seen
                seen = len(found)
                await anyio.lowlevel.checkpoint()

    async def test_marks_made_at_once_all_hold(self, make_store: StoreFactory) -> None:
        stores = [make_store() for _ in range(3)]
        await stores[0].create(ALICE)
        indices = [await stores[0].write(ALICE, letter(str(n))) for n in range(12)]

        async def mark(store: MailStore, mine: list[int]) -> None:
            for index in mine:
                await store.mark_read(ALICE, [index])

        async with anyio.create_task_group() as group:
            for number, store in enumerate(stores):
                group.start_soon(mark, store, indices[number:11:3])
        assert contents(await make_store().read_unread(ALICE)) == ["11"]

    @needs(Capability.SILENT_MARKS)
    async def test_marking_read_rings_nobody(self, make_store: StoreFactory) -> None:
        store, other = make_store(), make_store()
        await store.create(ALICE)
        await store.create(BOB)
        index = await store.write(ALICE, letter())
        with anyio.fail_after(10):
            async with store.watch() as names:
                assert {await anext(names), await anext(names)} == {ALICE, BOB}
                await other.mark_read(ALICE, [index])
                await other.write(BOB, letter())
                assert await anext(names) == BOB

    async def test_a_name_that_is_none_reaches_no_disk(self, store: MailStore) -> None:
        for name in ("../x", "a/b", "..", ".", "", "a\0b", "C:x", ".hidden", "lead.json", "x" * 300):
            with pytest.raises(InvalidNameError):
                await store.create(cast(AgentId, name))

    async def test_what_goes_wrong_says_what_to_do(self, store: MailStore) -> None:
        await store.create(ALICE)
        with pytest.raises(UnknownIndexError) as unknown:
            await store.mark_read(ALICE, [7])
        with pytest.raises(InvalidMessageError) as invalid:
            await store.write(ALICE, letter("x" * (2 << 20)))
        for caught in (unknown.value, invalid.value):
            assert caught.remedy in caught.explain()
            assert caught.remedy

    @needs(Capability.LOCK_OF_ITS_OWN)
    async def test_a_locked_mailbox_keeps_a_broadcast_from_its_owner_only(
        self, make_store: StoreFactory, lock_mailbox: Locker
    ) -> None:
        store = make_store()
        for agent in (ALICE, BOB, CAROL):
            await store.create(agent)
        message = letter("all")
        with lock_mailbox(BOB):
            result = await store.broadcast([ALICE, BOB, CAROL], message)
            assert contents(await store.read(BOB)) == []
        assert set(result.stored) == {ALICE, CAROL}
        assert set(result.waiting) == {BOB}
        await store.broadcast([ALICE, BOB, CAROL], message, since=0)
        assert [len(await store.read(agent)) for agent in (ALICE, BOB, CAROL)] == [1, 1, 1]

    @needs(Capability.LOCK_OF_ITS_OWN, Capability.DURABLE_INTENT)
    async def test_who_missed_a_broadcast_gets_it_with_the_next_of_anybody(
        self, make_store: StoreFactory, lock_mailbox: Locker
    ) -> None:
        store, other = make_store(), make_store()
        for agent in (ALICE, BOB, CAROL):
            await store.create(agent)
        with lock_mailbox(BOB):
            result = await store.broadcast([ALICE, BOB], letter("first"))
        assert result.kept == {BOB}
        await other.broadcast([ALICE, CAROL], letter("second"))
        assert contents(await store.read(ALICE)) == ["first", "second"]
        assert contents(await store.read(BOB)) == ["first"]
        assert contents(await store.read(CAROL)) == ["second"]

    @needs(Capability.LIMITS)
    async def test_a_mailbox_that_nobody_reads_refuses_at_its_limit(self, make_small_store: StoreFactory) -> None:
        store = make_small_store()
        await store.create(ALICE)
        await store.create(BOB)
        for _ in range(3):
            index = await store.write(ALICE, letter())
        with pytest.raises(MailboxFullError) as caught:
            await store.write(ALICE, letter())
        assert "read some" in caught.value.remedy
        result = await store.broadcast([ALICE, BOB], letter())
        assert set(result.stored) == {BOB}
        assert set(result.waiting) == {ALICE}
        await store.write(ALICE, letter(type=MessageType.TASK_COMPLETED))
        await store.mark_read(ALICE, [index])
        with pytest.raises(MailboxFullError):
            await store.write(ALICE, letter())
        assert len(await store.read(ALICE)) == 4
