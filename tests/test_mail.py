"""Messages: what a record keeps, and who may send what."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from pseudoclaude.errors import InvalidMessageError, NotAllowedError
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import (
    DEEPEST_PAYLOAD,
    RULES,
    SENDABLE,
    ControlRequest,
    IdleNotice,
    IndexedMessage,
    Message,
    MessageType,
    Priority,
    Role,
    check_sendable,
    clean_text,
)

ALICE, BOB = AgentId("alice-1"), AgentId("bob-1")

PAYLOADS: dict[MessageType, dict[str, Any]] = {
    MessageType.SHUTDOWN_REQUEST: {"request_id": "r1"},
    MessageType.SHUTDOWN_RESPONSE: {"request_id": "r1", "approve": True},
    MessageType.PLAN_APPROVAL_REQUEST: {"request_id": "r1"},
    MessageType.PLAN_APPROVAL_RESPONSE: {"request_id": "r1", "approve": False},
    MessageType.PERMISSION_REQUEST: {"request_id": "r1"},
    MessageType.PERMISSION_RESPONSE: {"request_id": "r1", "approve": True},
    MessageType.TASK_ASSIGNMENT: {"task_id": "1"},
    MessageType.TASK_UNBLOCKED: {"task_id": "1"},
    MessageType.TASK_COMPLETED: {"task_id": "1"},
    MessageType.IDLE_NOTIFICATION: {"status": "finished", "run_id": "alice-1.1"},
    MessageType.CONTROL_REQUEST: {"request_id": "r1", "action": "stop"},
    MessageType.CONTROL_RESPONSE: {"request_id": "r1", "ok": True},
}
"""The smallest payload of every type that has one."""

MAY_SEND: dict[MessageType, set[Role]] = {
    MessageType.TEXT: {Role.LEAD, Role.MEMBER, Role.USER},
    MessageType.NOTE: {Role.LEAD, Role.MEMBER, Role.USER},
    MessageType.SHUTDOWN_REQUEST: {Role.LEAD, Role.USER},
    MessageType.PLAN_APPROVAL_RESPONSE: {Role.LEAD, Role.USER},
    MessageType.SHUTDOWN_RESPONSE: {Role.MEMBER},
}
WAKES = {
    MessageType.TEXT,
    MessageType.SHUTDOWN_REQUEST,
    MessageType.PLAN_APPROVAL_RESPONSE,
    MessageType.SHUTDOWN_RESPONSE,
    MessageType.PLAN_APPROVAL_REQUEST,
    MessageType.PERMISSION_RESPONSE,
    MessageType.TASK_ASSIGNMENT,
    MessageType.TASK_UNBLOCKED,
}


def letter(**fields: Any) -> Message:
    return Message(**{"id": MessageId("m1"), "sender": ALICE, "recipient": BOB, **fields})


def record(**fields: Any) -> bytes:
    return json.dumps({"id": "m1", "from": "alice-1", "to": "bob-1", **fields}).encode()


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


# -- who may send what, and whom it wakes


@pytest.mark.parametrize(("role", "kind", "priority"), list(itertools.product(Role, MessageType, Priority)), ids=str)
def test_only_the_roles_of_the_table_may_send_a_type_or_interrupt(
    role: Role, kind: MessageType, priority: Priority
) -> None:
    allowed = role is Role.RUNTIME or (
        role in MAY_SEND.get(kind, set()) and (priority is Priority.NORMAL or role in (Role.LEAD, Role.USER))
    )
    for spelling in (priority, str(priority)):
        if allowed:
            assert check_sendable(role, str(kind), PAYLOADS.get(kind), spelling) is kind  # type: ignore[arg-type]
        else:
            with pytest.raises(NotAllowedError):
                check_sendable(role, kind, PAYLOADS.get(kind), spelling)  # type: ignore[arg-type]


def test_the_types_that_can_be_sent_are_those_that_somebody_may_send() -> None:
    assert set(SENDABLE) == set(MAY_SEND)
    assert set(RULES) == set(MessageType)


@pytest.mark.parametrize("kind", MessageType)
def test_a_type_wakes_as_the_table_says_and_an_interrupt_always(kind: MessageType) -> None:
    assert letter(type=kind, payload=PAYLOADS.get(kind)).wakes is (kind in WAKES)
    assert letter(type=kind, payload=PAYLOADS.get(kind), priority="interrupt").wakes


@pytest.mark.parametrize(
    ("payload", "wakes"),
    [
        ({"status": "finished"}, False),
        ({"status": "finished", "result": ""}, False),
        ({"status": "finished", "result": " \n"}, False),
        ({"status": "finished", "result": "41 passed"}, True),
        ({"status": "interrupted"}, False),
        ({"status": "failed", "error": "no key"}, True),
        ({"status": "limit"}, True),
        ({"status": "tired"}, False),
    ],
)
def test_an_idle_notice_wakes_when_it_reports_a_failure_a_limit_or_a_result(
    payload: dict[str, Any], wakes: bool
) -> None:
    assert letter(type="idle_notification", payload={"run_id": "r", **payload}).wakes is wakes


def test_a_type_nobody_knows_wakes_nobody() -> None:
    assert not letter(type="plan_b").wakes


# -- payloads


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_payload_that_lacks_a_needed_key_is_refused_with_the_keys_needed(kind: MessageType) -> None:
    for missing in PAYLOADS[kind]:
        payload = {key: value for key, value in PAYLOADS[kind].items() if key != missing}
        with pytest.raises(InvalidMessageError) as refused:
            check_sendable(Role.RUNTIME, kind, payload)
        assert missing in refused.value.explain()
    with pytest.raises(InvalidMessageError):
        check_sendable(Role.RUNTIME, kind, None)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_payload_is_read_as_the_model_of_its_type_and_keeps_keys_of_later_versions(kind: MessageType) -> None:
    message = Message.from_json(record(type=kind, payload={**PAYLOADS[kind], "newer": 1}))
    parsed = message.parsed_payload()
    assert parsed is not None
    assert parsed.model_dump(exclude_unset=True) == {**PAYLOADS[kind], "newer": 1}


@pytest.mark.parametrize("payload", [None, {}, {"status": 5, "run_id": "r"}, {"status": "finished"}])
def test_a_payload_that_does_not_fit_is_kept_and_read_as_none(payload: dict[str, Any] | None) -> None:
    message = Message.from_json(record(type="idle_notification", payload=payload))
    assert message.payload == payload
    assert message.notice is None
    assert message.parsed_payload() is None


def test_a_text_carries_any_object() -> None:
    assert check_sendable(Role.MEMBER, "text", {"anything": [1, {"b": None}]}) is MessageType.TEXT
    assert letter(payload={"anything": [1, {"b": None}]}).parsed_payload() is None


def test_a_payload_may_be_given_as_its_model() -> None:
    message = letter(type="control_request", payload=ControlRequest(request_id="r", action="stop"))  # type: ignore[arg-type]
    assert message.payload == {"request_id": "r", "reason": "", "action": "stop", "target": ""}
    assert message.parsed_payload() == ControlRequest(request_id="r", action="stop")  # type: ignore[arg-type]


def test_an_idle_notice_is_found_only_in_a_message_of_its_type() -> None:
    payload = {"status": "failed", "run_id": "r", "error": "why"}
    assert letter(payload=payload).notice is None
    assert letter(type="idle_notification", payload=payload).notice == IdleNotice.model_validate(payload)


def test_numbers_in_a_payload_keep_their_size_and_form() -> None:
    payload = {"big": 10**400, "one": 1.0, "int": 1, "tiny": 5e-324, "huge": 1.7976931348623157e308, "zero": -0.0}
    back = Message.from_json(letter(payload=payload).to_json()).payload
    assert back is not None
    assert [repr(value) for value in back.values()] == [repr(value) for value in payload.values()]


@pytest.mark.parametrize(
    "payload",
    [{"x": float("nan")}, {"x": float("inf")}, {"x": b"1"}, {"x": {1, 2}}, {"x": object()}, {"x": 10**5000}, [1], "x"],
    ids=["nan", "inf", "bytes", "set", "object", "5001 digits", "list", "text"],
)
def test_what_is_no_json_object_is_no_payload(payload: object) -> None:
    with pytest.raises(ValidationError):
        letter(payload=payload)


def test_a_payload_nested_too_deeply_is_refused_and_the_deepest_allowed_one_comes_back() -> None:
    deepest = letter(payload=nested(DEEPEST_PAYLOAD))
    assert Message.from_json(deepest.to_json()) == deepest
    for levels in (DEEPEST_PAYLOAD + 1, 300, 5_000):
        with pytest.raises(ValidationError, match="deeper"):
            letter(payload=nested(levels))


@pytest.mark.parametrize("levels", [150, 250, 100_000])
def test_a_record_nested_too_deeply_is_no_message_and_no_crash(levels: int) -> None:
    data = b'{"from":"a","to":"b","payload":{"x":' + b"[" * levels + b"]" * levels + b"}}"
    with pytest.raises(InvalidMessageError, match="not a message"):
        Message.from_json(data)


def test_a_number_that_json_has_no_word_for_is_read_as_null() -> None:
    message = Message.from_json(b'{"from":"a","to":"b","payload":{"x":NaN,"y":[1e999]}}')
    assert message.payload == {"x": None, "y": [None]}
    assert json.loads(message.to_json())["payload"] == {"x": None, "y": [None]}


# -- text


def test_half_a_surrogate_pair_is_replaced_and_a_whole_one_joined() -> None:
    message = letter(content="a\ud83db", summary="\udc00", payload={"\ud800": ["x\udfff"]}, type="odd\ud800")
    assert message.content == "a\ufffdb"
    assert message.summary == "\ufffd"
    assert message.payload == {"\ufffd": ["x\ufffd"]}
    assert message.type == "odd\ufffd"
    assert letter(content="\ud83d\ude00!").content == "\U0001f600!"
    assert Message.from_json(message.to_json()) == message


def test_a_record_with_half_a_surrogate_pair_is_still_read() -> None:
    data = rb'{"from":"alice-1","to":"bob-1","content":"cut \ud83d","payload":{"k\udc00":"\ud83d\ude00","n":1.0}}'
    message = Message.from_json(data)
    assert message.content == "cut \ufffd"
    assert message.payload == {"k\ufffd": "\U0001f600", "n": 1.0}


@given(st.text(st.characters()))
def test_clean_text_can_always_be_written_and_changes_no_other(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert cleaned == text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"from":"a"}',
        b'{"from":null,"to":"b"}',
        b'{"from":"../x","to":"b"}',
        b'{"from":"a","to":"b","content":"\xff"}',
        b'{"from":"a","to":"b","content":5}',
        b'{"from":"a","to":"b","type":42}',
        b'{"from":"a","to":"b","priority":"loud"}',
        b'{"from":"a","to":"b","hops":-1}',
        b'{"from":"a","to":"b","id":""}',
        b'{"from":"a","to":"b","id":7}',
        b'{"from":"a","to":"b","timestamp":"yesterday"}',
        b'{"from":"a","to":"b","timestamp":1e30}',
        b'{"from":"a","to":"b","payload":[]}',
        b'{"from":"a","to":"b","payload":{"x":' + b"9" * 5000 + b"}}",
    ],
)
def test_a_record_that_is_no_message_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(InvalidMessageError, match=r"not a message: .+"):
        Message.from_json(data)


# -- times


def test_a_time_is_written_in_utc_with_z_and_read_from_any_offset() -> None:
    eight = datetime(2026, 3, 1, 8, 0, 0, 5, tzinfo=timezone(timedelta(hours=9)))
    message = letter(timestamp=eight)
    assert message.timestamp == eight
    assert message.timestamp.tzinfo is UTC
    assert json.loads(message.to_json())["timestamp"] == "2026-02-28T23:00:00.000005Z"


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets this process live in another time zone."""

    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["UTC", "JST-9", "PST8PDT"])
def test_a_time_without_a_zone_is_one_in_utc_wherever_this_runs(zone: str, in_zone: Callable[[str], None]) -> None:
    in_zone(zone)
    expected = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert letter(timestamp=datetime(2026, 1, 1, 12)).timestamp == expected  # noqa: DTZ001
    assert Message.from_json(record(timestamp="2026-01-01T12:00:00")).timestamp == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T02:00:00+02:00", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00.123Z", datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
        ("2026-01-01T00:00:00.123456789Z", datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime.min.replace(tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59-14:00", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_times_that_other_programs_write_are_read(text: str, expected: datetime) -> None:
    message = Message.from_json(record(timestamp=text))
    assert message.timestamp == expected
    assert Message.from_json(message.to_json()) == message


def test_a_missing_time_is_now() -> None:
    before = datetime.now(UTC)
    assert before <= Message.from_json(record(timestamp=None)).timestamp <= datetime.now(UTC)


# -- the record


def test_a_missing_null_or_empty_type_is_text_and_an_unknown_one_is_kept() -> None:
    for data in (record(), record(type=None), record(type="")):
        assert Message.from_json(data).type is MessageType.TEXT
    unknown = Message.from_json(record(type="Teleport <x>", payload={"to": "mars"}))
    assert unknown.type == "Teleport <x>"
    assert Message.from_json(unknown.to_json()) == unknown


@pytest.mark.parametrize("kind", ["Teleport", "TEXT", " text", "", "text\0", 42, None, ["text"]])
def test_sending_a_type_that_does_not_exist_is_an_error_that_lists_those_that_do(kind: Any) -> None:
    with pytest.raises(InvalidMessageError) as refused:
        check_sendable(Role.LEAD, kind, None)
    assert all(known in refused.value.explain() for known in SENDABLE)


def test_an_unknown_priority_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="loud"):
        check_sendable(Role.LEAD, "text", None, "loud")  # type: ignore[arg-type]


def test_nulls_and_unknown_keys_of_a_record_do_no_harm() -> None:
    keys = ("type", "summary", "content", "payload", "timestamp", "in_reply_to", "thread", "priority", "hops")
    message = Message.from_json(record(**dict.fromkeys(keys), newer={"x": 1}, i=7))
    assert message.summary == message.content == ""
    assert message.priority is Priority.NORMAL
    assert message.hops == 0


def test_a_record_uses_the_wire_names_and_is_one_line() -> None:
    message = letter(content="a\nb\u2028c", in_reply_to=MessageId("m0"), thread=MessageId("m0"))
    data = message.to_json()
    assert b"\n" not in data
    value = json.loads(data)
    assert list(value)[:4] == ["id", "from", "to", "type"]
    assert value["from"] == "alice-1"
    assert value["to"] == "bob-1"
    assert "payload" not in value


def test_a_message_cannot_be_changed_and_takes_no_payload_that_can() -> None:
    mine = {"a": [1]}
    message = letter(payload=mine)
    mine["a"].append(2)
    assert message.payload == {"a": [1]}
    for field in Message.model_fields:
        with pytest.raises(ValidationError):
            setattr(message, field, getattr(message, field))
    with pytest.raises(AttributeError):
        IndexedMessage(0, message, False).read = True  # type: ignore[misc]


def test_reading_its_notice_does_not_change_a_message() -> None:
    message = letter(type="idle_notification", payload={"status": "failed", "run_id": "r"})
    before = message.to_json()
    assert message.notice is not None
    assert message.to_json() == before
    assert message == Message.from_json(before)


def test_an_id_derived_from_the_same_parts_is_the_same_for_ever() -> None:
    assert MessageId.derived("alice-1", 4, 0) == "dosakwpupo533ooll6fhm2xzf"
    places = [MessageId.derived("alice-1", place, position) for place in range(12) for position in range(12)]
    assert len(set(places)) == len(places)
    assert places == [MessageId.derived("alice-1", place, position) for place in range(12) for position in range(12)]
    assert MessageId.derived("a", "b") != MessageId.derived("ab")


def test_a_message_of_a_mebibyte_comes_back() -> None:
    message = letter(content="\0\u2028é\U0001f600"[:4] * 131_072, payload={"x": "y" * (1 << 20)})
    assert Message.from_json(message.to_json()) == message


_text = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["\u2028", "\0", "\x1c", '"\\/', "</x>", "é", "e\u0301"]
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=4),
    max_leaves=12,
)
_ids = st.uuids().map(lambda value: MessageId(str(value)))


@given(
    st.builds(
        letter,
        id=_ids,
        type=st.sampled_from(MessageType) | _text.filter(bool),
        summary=_text,
        content=_text,
        payload=st.none() | st.dictionaries(_text, _json, max_size=5),
        timestamp=st.datetimes(timezones=st.timezones() | st.none()),
        in_reply_to=st.none() | _ids,
        thread=st.none() | _ids,
        priority=st.sampled_from(Priority),
        hops=st.integers(0, 1 << 70),
    )
)
@example(letter(content="\u2028\u2029\0\x85", payload={"": {"": []}}))
def test_a_message_is_what_its_record_says(message: Message) -> None:
    data = message.to_json()
    back = Message.from_json(data)
    assert back == message
    assert back.to_json() == data
    assert back.wakes == message.wakes
