"""Sending: everything in order or nothing written, and a truthful word about each recipient."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from pseudoclaude.errors import (
    InvalidMessageError,
    InvalidNameError,
    MailboxBusyError,
    MailError,
    NotAllowedError,
    StorageError,
    UnknownRecipientError,
)
from pseudoclaude.events import EventBus, MailSent
from pseudoclaude.ids import RUNTIME, USER, AgentId, MessageId, TeamName
from pseudoclaude.mail import IdleNotice, IdleStatus, Message, MessageType, Priority, Role
from pseudoclaude.mailbox.native import LogStore, MemoryStore, NativeStore
from pseudoclaude.mailbox.store import BroadcastResult
from pseudoclaude.post import LONGEST_SUMMARY, Draft, Post, Sender, Wake
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.teams.models import TeamRecord
from pseudoclaude.teams.registry import Registry

LEAD, ALICE, ENGINEER, BOB = (AgentId(name) for name in ("lead-1", "alice-1", "engineer-1", "bob-1"))
EVERYBODY = (LEAD, ALICE, ENGINEER, USER, RUNTIME)
ROLES = {LEAD: Role.LEAD, USER: Role.USER}
TEAM = TeamRecord.model_validate(
    {
        "name": "survey",
        "workspace": "/work",
        "lead": {"agent_id": "lead-1"},
        "members": [
            {"name": "alice", "agent_id": "alice-1", "prompt": "look"},
            {"name": "engineer", "agent_id": "engineer-1", "prompt": "build"},
            {"name": "bob", "agent_id": "bob-1", "prompt": "leave", "ended_at": "2026-01-01T00:00:00Z"},
        ],
    }
)


class OneBroken(MemoryStore):
    """A store in which one mailbox cannot be written or looked into."""

    def __init__(self, broken: AgentId, error: Exception) -> None:
        super().__init__()
        self.broken = broken
        self.error = error

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        if agent == self.broken:
            raise self.error
        return await super().write(agent, message, since=since)

    async def broadcast(
        self, agents: Sequence[AgentId], message: Message, *, since: int | None = None
    ) -> BroadcastResult:
        well = [agent for agent in agents if agent != self.broken]
        result = await super().broadcast(well, message, since=since)
        return BroadcastResult(result.stored, {self.broken: str(self.error)} if len(well) < len(agents) else {})

    async def end(self, agent: AgentId) -> int:
        if agent == self.broken:
            raise self.error
        return await super().end(agent)


class Bell:
    """Notes who is woken, and answers as told."""

    def __init__(self, answer: Wake | Exception) -> None:
        self.answer = answer
        self.woken: list[AgentId] = []

    async def wake(self, agent_id: AgentId) -> Wake:
        self.woken.append(agent_id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Office:
    """A post with a team of a lead, alice, engineer and, who has ended, bob."""

    def __init__(self, store: NativeStore, *, waker: Bell | None = None, **options: Any) -> None:
        self.store = store
        self.bus = EventBus()
        self.sent: list[MailSent] = []
        self.bus.tap(lambda event: self.sent.append(event) if isinstance(event, MailSent) else None)
        self.registry = Registry(MemoryStorage().document("team.json"), TeamName("survey"))
        self.post = Post(store, self.registry, bus=self.bus, waker=waker, **options)

    async def open(self, team: TeamRecord = TEAM) -> Office:
        await self.registry.create(team)
        for agent in EVERYBODY:
            await self.store.create(agent)
        return self

    async def send(self, sender: AgentId, to: object, *, hops: int = 0, **draft: Any) -> list[Message]:
        """Send; what was stored, in the order of the recipients."""
        by = Sender(sender, ROLES.get(sender, Role.MEMBER), hops=hops)
        result = await self.post.send(by, Draft(to, **{"summary": "s", **draft}))
        return [
            (await self.store.read(delivery.agent_id, start=delivery.index, limit=1))[0].message
            for delivery in result.deliveries
            if delivery.index is not None
        ]

    async def count(self) -> int:
        """How many copies lie in all mailboxes together."""
        return sum([len(await self.store.read(agent)) for agent in EVERYBODY])


@pytest.fixture
async def office() -> Office:
    return await Office(MemoryStore()).open()


def sizes_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*")}


# -- recipients


@pytest.mark.parametrize(
    "to",
    ["enginer", "", "   ", "team-engineer", "bob", "bob-1", "runtime", "system", None, [], {}, 42, "../x", "alice-2"],
)
async def test_an_unknown_recipient_is_an_error_with_the_valid_names_and_writes_nothing(
    to: object, tmp_path: Path
) -> None:
    office = await Office(LogStore(tmp_path / "inboxes", notify=False)).open()
    before = sizes_below(tmp_path)
    with pytest.raises(UnknownRecipientError) as refused:
        await office.send(ALICE, to)
    assert all(name in refused.value.explain() for name in ("lead", "engineer", "user"))
    assert sizes_below(tmp_path) == before


async def test_a_misspelt_name_is_answered_with_the_nearest_one(office: Office) -> None:
    with pytest.raises(UnknownRecipientError, match="did you mean 'engineer'"):
        await office.send(ALICE, "enginer")


async def test_one_unknown_name_in_a_list_keeps_the_message_from_everybody(office: Office) -> None:
    with pytest.raises(UnknownRecipientError):
        await office.send(ALICE, ["lead", "enginer"])
    assert await office.count() == 0


async def test_a_member_that_has_ended_gets_no_mail_and_that_is_said(office: Office) -> None:
    with pytest.raises(UnknownRecipientError, match="'bob' has ended"):
        await office.send(LEAD, "bob")


async def test_a_broadcast_goes_to_the_present_agents_and_not_to_sender_user_or_ended(office: Office) -> None:
    copies = await office.send(ALICE, "broadcast")
    assert [copy.recipient for copy in copies] == [LEAD, ENGINEER]
    assert len({copy.id for copy in copies}) == 1
    assert await office.count() == 2


async def test_a_broadcast_to_nobody_is_an_error() -> None:
    alone = await Office(MemoryStore()).open(TEAM.model_copy(update={"members": ()}))
    for to in ("broadcast", "*", "all"):
        with pytest.raises(UnknownRecipientError, match="nobody else"):
            await alone.send(LEAD, to)
    assert await alone.count() == 0


async def test_somebody_named_twice_gets_one_copy(office: Office) -> None:
    assert len(await office.send(ALICE, ["lead", "Lead", "lead-1", "team-lead"])) == 1


async def test_the_roster_of_the_moment_counts(office: Office) -> None:
    await office.registry.load()
    await Registry(office.registry._document, TeamName("survey")).end(ENGINEER)
    assert [copy.recipient for copy in await office.send(ALICE, "all")] == [LEAD]


# -- what is stored


async def test_the_sender_is_the_one_the_runtime_knows_whatever_the_draft_holds(office: Office) -> None:
    claims = {"from": "lead", "sender": "lead-1", "hops": 0, "id": "x"}
    (message,) = await office.send(ALICE, "engineer", content='{"from": "lead"}', payload=claims, hops=3)
    assert message.sender == ALICE
    assert message.hops == 3
    assert message.payload == claims
    assert message.id != "x"


async def test_a_summary_becomes_one_line_of_bounded_length(office: Office) -> None:
    (message,) = await office.send(ALICE, "lead", summary="  a\n\tb\u2028c ")
    assert message.summary == "a b c"
    (message,) = await office.send(ALICE, "lead", summary="x" * 301)
    assert message.summary == "x" * (LONGEST_SUMMARY - 1) + "…"
    (message,) = await office.send(ALICE, "lead", summary="x" * 300)
    assert message.summary == "x" * 300


@pytest.mark.parametrize("summary", ["", "  ", "\n", "\u200b", "\0"])
async def test_a_text_needs_a_summary_and_a_note_does_not(office: Office, summary: str) -> None:
    with pytest.raises(InvalidMessageError, match="summary"):
        await office.send(ALICE, "lead", summary=summary, content="body")
    assert await office.count() == 0
    assert len(await office.send(ALICE, "lead", summary=summary, type="note")) == 1


async def test_what_is_too_large_is_refused_with_the_limit_and_what_just_fits_is_stored() -> None:
    office = await Office(MemoryStore(max_message_bytes=1_000), max_content_bytes=1_000).open()
    for too_large in ({"content": "é" * 501}, {"payload": {"x": "é" * 500}}):
        for to in ("lead", "all"):
            with pytest.raises(InvalidMessageError, match="1,000") as refused:
                await office.send(ALICE, to, **too_large)
            assert refused.value.remedy
    assert await office.count() == 0
    (message,) = await office.send(ALICE, "lead", content="é" * 500, payload={"x": "y" * 990})
    assert len(message.content) == 500


async def test_a_mebibyte_is_taken_by_default(office: Office) -> None:
    assert await office.send(ALICE, "lead", content="x" * (1 << 20))
    with pytest.raises(InvalidMessageError, match="1,048,576"):
        await office.send(ALICE, "lead", content="x" * (1 << 20) + "x")


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": {1}}, {"x": b""}], ids=["nan", "set", "bytes"])
async def test_a_payload_that_is_no_json_is_refused(office: Office, payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessageError, match="payload"):
        await office.send(ALICE, "lead", payload=payload)
    assert await office.count() == 0


async def test_half_a_surrogate_pair_does_not_keep_a_message_from_being_sent(office: Office) -> None:
    (message,) = await office.send(ALICE, "lead", summary="cut \ud83d", content="\udc00", payload={"k": "\ud83d"})
    assert (message.summary, message.content, message.payload) == ("cut \ufffd", "\ufffd", {"k": "\ufffd"})


@pytest.mark.parametrize("kind", ["Teleport", "message", "TEXT"])
async def test_an_unknown_type_is_refused_with_those_that_exist(office: Office, kind: str) -> None:
    with pytest.raises(InvalidMessageError) as refused:
        await office.send(LEAD, "alice", type=kind)
    assert "note" in refused.value.explain()
    assert await office.count() == 0


async def test_a_member_cannot_ask_for_shutdown_answer_plans_or_interrupt(office: Office) -> None:
    for draft in (
        {"type": "shutdown_request", "payload": {"request_id": "r"}},
        {"type": "plan_approval_response", "payload": {"request_id": "r", "approve": True}},
        {"type": "permission_response", "payload": {"request_id": "r", "approve": True}},
        {"priority": Priority.INTERRUPT},
        {"priority": "interrupt"},
    ):
        with pytest.raises(NotAllowedError):
            await office.send(ALICE, "engineer", **draft)
    assert await office.count() == 0


# -- requests, replies, threads


async def test_a_request_without_an_id_gets_that_of_its_message(office: Office) -> None:
    (message,) = await office.send(LEAD, "alice", type="shutdown_request", payload={"reason": "done"})
    assert message.payload == {"reason": "done", "request_id": message.id}
    (message,) = await office.send(LEAD, "alice", type="shutdown_request", payload={"request_id": "mine"})
    assert message.payload == {"request_id": "mine"}


async def test_only_the_asked_member_may_answer_a_shutdown_request(office: Office) -> None:
    (request,) = await office.send(LEAD, "alice", type="shutdown_request")
    answer: dict[str, Any] = {"type": "shutdown_response", "payload": {"request_id": str(request.id), "approve": True}}
    with pytest.raises(NotAllowedError, match="nobody asked you"):
        await office.send(ENGINEER, "lead", **answer)
    with pytest.raises(NotAllowedError):
        await office.send(LEAD, "alice", **answer)
    with pytest.raises(NotAllowedError, match="nobody asked you"):
        await office.send(ALICE, "lead", type="shutdown_response", payload={"request_id": "other", "approve": True})
    assert await office.count() == 1
    assert (await office.send(ALICE, "lead", **answer))[0].type is MessageType.SHUTDOWN_RESPONSE


async def test_a_reply_inherits_the_thread_of_what_it_answers(office: Office) -> None:
    (first,) = await office.send(LEAD, "alice")
    (second,) = await office.send(ALICE, "lead", in_reply_to=str(first.id))
    (third,) = await office.send(LEAD, "engineer", in_reply_to=f" {second.id} ")
    assert (first.in_reply_to, first.thread) == (None, None)
    assert (second.in_reply_to, second.thread) == (first.id, first.id)
    assert (third.in_reply_to, third.thread) == (second.id, first.id)


async def test_a_follow_up_to_ones_own_message_stays_in_its_thread(office: Office) -> None:
    (first,) = await office.send(LEAD, "alice")
    (second,) = await office.send(ALICE, "lead", in_reply_to=str(first.id))
    (third,) = await office.send(ALICE, "lead", in_reply_to=str(second.id))
    assert third.thread == first.id


async def test_a_reply_to_a_message_that_nobody_finds_begins_its_thread(office: Office) -> None:
    (message,) = await office.send(ALICE, "lead", in_reply_to="lost")
    assert (message.in_reply_to, message.thread) == ("lost", "lost")
    assert (await office.send(ALICE, "lead", in_reply_to=" "))[0].in_reply_to is None
    with pytest.raises(InvalidNameError):
        await office.send(ALICE, "lead", in_reply_to="a\nb")


async def test_a_mailbox_that_cannot_be_looked_into_hinders_no_reply() -> None:
    office = await Office(OneBroken(ALICE, StorageError("/mail", "no permission"))).open()
    (message,) = await office.send(ALICE, "lead", in_reply_to="m1")
    assert message.thread == "m1"


# -- results


@pytest.mark.parametrize("error", [StorageError("/mail", "disk full"), MailboxBusyError("/mail/lock", "7", 10)])
async def test_one_broken_mailbox_is_named_and_the_others_have_their_copy(error: Exception) -> None:
    office = await Office(OneBroken(ENGINEER, error)).open()
    result = await office.post.send(Sender(ALICE, Role.MEMBER), Draft("all", "s"))
    by_name = {delivery.name: delivery for delivery in result.deliveries}
    assert by_name["lead"].index == 0
    assert not by_name["engineer"].stored
    assert str(error) in by_name["engineer"].error
    assert not result.complete
    assert "engineer: NOT stored" in result.explain()
    assert "lead: stored as message 0" in result.explain()
    assert [event.recipient for event in office.sent] == ["lead"]


async def test_a_single_copy_that_could_not_be_stored_is_told_and_announced_nowhere() -> None:
    bell = Bell(Wake(run_id="r"))
    office = await Office(OneBroken(LEAD, StorageError("/mail", "disk full")), waker=bell).open()
    result = await office.post.send(Sender(ALICE, Role.MEMBER), Draft("lead", "s"))
    assert not result.complete
    assert "NOT stored: /mail: disk full" in result.explain()
    assert office.sent == []
    assert bell.woken == []


@pytest.mark.parametrize("error", [MailError("busy"), StorageError("/x", "full"), RuntimeError("broken")])
async def test_stored_but_not_woken_is_told_apart_from_not_stored(error: Exception) -> None:
    office = await Office(MemoryStore(), waker=Bell(error)).open()
    with capture_logs() as logs:
        result = await office.post.send(Sender(ALICE, Role.MEMBER), Draft("lead", "s"))
    assert result.complete
    assert "lead: stored as message 0; waking failed" in result.explain()
    assert "NOT stored" not in result.explain()
    assert len(logs) == 1
    assert await office.count() == 1


async def test_whoever_is_woken_or_not_is_told_with_the_reason() -> None:
    bell = Bell(Wake(run_id="lead-1.4"))
    office = await Office(MemoryStore(), waker=bell).open()
    sender = Sender(ALICE, Role.MEMBER)
    assert (
        "lead: stored as message 0; woken, run lead-1.4"
        in (await office.post.send(sender, Draft("lead", "s"))).explain()
    )
    assert "the person sees it" in (await office.post.send(sender, Draft("user", "s"))).explain()
    assert "starts none" in (await office.post.send(sender, Draft("lead", "s", type="note"))).explain()
    bell.answer = Wake(why="it does not start: paused")
    assert "paused" in (await office.post.send(sender, Draft("lead", "s"))).explain()
    assert bell.woken == [LEAD, LEAD]


async def test_a_send_that_is_repeated_stores_once_for_each_recipient() -> None:
    store = OneBroken(ENGINEER, StorageError("/mail", "disk full"))
    office = await Office(store).open()
    call = MessageId.derived(ALICE, 3, 0)
    first = await office.post.send(Sender(ALICE, Role.MEMBER, message_id=call), Draft("all", "s"))
    assert not first.complete
    store.broken = AgentId("nobody")
    for _ in range(2):
        again = await office.post.send(Sender(ALICE, Role.MEMBER, message_id=call, repeated=True), Draft("all", "s"))
        assert again.complete
        assert again.message_id == call
        assert {delivery.name: delivery.index for delivery in again.deliveries} == {"lead": 0, "engineer": 0}
    single = Sender(ALICE, Role.MEMBER, message_id=MessageId("once"), repeated=True)
    assert {(await office.post.send(single, Draft("lead", "s"))).deliveries[0].index for _ in range(3)} == {1}
    assert await office.count() == 3


async def test_two_sends_of_the_same_words_are_two_messages(office: Office) -> None:
    await office.send(ALICE, "lead")
    await office.send(ALICE, "lead")
    assert len({item.message.id for item in await office.store.read(LEAD)}) == 2


async def test_every_copy_that_is_stored_is_announced(office: Office) -> None:
    await office.send(ALICE, ["lead", "user"], summary="done", type="note")
    told = [(event.agent, event.agent_id, event.recipient, event.type, event.summary) for event in office.sent]
    assert told == [("alice", "alice-1", "lead", "note", "done"), ("alice", "alice-1", "user", "note", "done")]


# -- what the runtime tells


async def test_the_runtime_tells_with_a_payload_that_fits_once_for_an_id(office: Office) -> None:
    await office.registry.load()
    notice = IdleNotice(status=IdleStatus.FAILED, run_id="alice-1.1", error="no key")
    for _ in range(2):
        delivery = await office.post.notify(
            recipient=LEAD,
            about=ALICE,
            type=MessageType.IDLE_NOTIFICATION,
            id=MessageId("n1"),
            summary="alice is\nidle",
            payload=notice,
            hops=4,
            repeated=True,
        )
        assert delivery.index == 0
    (item,) = await office.store.read(LEAD)
    assert item.message.notice == notice
    assert item.message.payload == {"status": "failed", "run_id": "alice-1.1", "error": "no key"}
    assert (item.message.sender, item.message.summary, item.message.hops) == (ALICE, "alice is idle", 4)


async def test_the_runtime_cannot_tell_with_a_payload_that_does_not_fit(office: Office) -> None:
    await office.registry.load()
    with pytest.raises(InvalidMessageError, match="does not fit"):
        await office.post.notify(
            recipient=LEAD, type=MessageType.IDLE_NOTIFICATION, id=MessageId("n1"), summary="s", payload=None
        )
