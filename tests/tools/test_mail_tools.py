"""``SendMessage`` and ``ReadMessage``, as models use them, odd arguments included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from pseudoclaude.chat import ToolCall, ToolResult
from pseudoclaude.errors import StorageError
from pseudoclaude.ids import USER, AgentId, MessageId, TeamName
from pseudoclaude.mail import SENDABLE, Message, MessageType, Role
from pseudoclaude.mailbox.native import MemoryStore
from pseudoclaude.mailbox.reminder import inert
from pseudoclaude.post import Post
from pseudoclaude.storage.memory import MemoryStorage
from pseudoclaude.teams.board import Board
from pseudoclaude.teams.models import TeamRecord
from pseudoclaude.teams.registry import Registry
from pseudoclaude.tools.base import Crew, Services, ToolContext
from pseudoclaude.tools.mail import read_message, send_message
from pseudoclaude.tools.toolbox import Toolbox

AGENTS = {"lead": AgentId("lead-1"), "alice": AgentId("alice-1"), "Zoë": AgentId("zoe-1"), "user": USER}
TEAM = TeamRecord.model_validate(
    {
        "name": "Survey",
        "workspace": "/work",
        "lead": {"agent_id": "lead-1"},
        "members": [
            {"name": "alice", "agent_id": "alice-1", "prompt": "look"},
            {"name": "Zoë", "agent_id": "zoe-1", "prompt": "listen"},
            {"name": "bob", "agent_id": "bob-1", "prompt": "leave", "ended_at": "2026-01-01T00:00:00Z"},
        ],
    }
)


class FullDisk(MemoryStore):
    """A store that can be read and not written."""

    async def write(self, agent: AgentId, message: Message, *, since: int | None = None) -> int:
        raise StorageError("/mail", "disk full")


class Office:
    """A team whose agents use their mail tools."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        storage = MemoryStorage()
        self.registry = Registry(storage.document("team.json"), TeamName("Survey"))
        post = Post(store, self.registry)
        board = Board(storage.document("board.json"))
        self.services = Services(self.registry, store, post, board, cast(Crew, None))
        self.toolbox = Toolbox([send_message, read_message])
        self.calls = 0
        self.sent = 0

    async def open(self) -> Office:
        await self.registry.create(TEAM)
        for agent in AGENTS.values():
            await self.store.create(agent)
        return self

    async def call(self, who: str, tool: str, given: dict[str, Any], *, repeats: str = "") -> ToolResult:
        """Run a tool as the model of this agent; ``repeats`` is the id of a call that may have run before."""
        self.calls += 1
        context = ToolContext(
            team=TeamName("Survey"),
            agent_id=AGENTS[who],
            agent_name=who,
            role=Role.LEAD if who == "lead" else Role.MEMBER,
            workspace=Path("/work"),
            call_id=MessageId(repeats or f"call-{self.calls}"),
            services=self.services,
            hops=2,
            repeated=bool(repeats),
            on_sent=self._count,
        )
        return await self.toolbox.run(context, ToolCall(id="c", name=tool, input=given))

    def _count(self) -> None:
        self.sent += 1

    async def sends(self, who: str, **given: Any) -> str:
        """The text of a send that works."""
        result = await self.call(who, "SendMessage", {"summary": "s", **given})
        assert not result.is_error, result.content
        return str(result.content)

    async def refuses(self, who: str, tool: str = "SendMessage", **given: Any) -> str:
        """The text of a call that fails for a reason made for the model to read."""
        before = await self.letters()
        result = await self.call(who, tool, {"summary": "s", **given} if tool == "SendMessage" else given)
        assert result.is_error
        assert "crashed" not in str(result.content)
        assert await self.letters() == before
        return str(result.content)

    async def letters(self) -> dict[str, list[Message]]:
        """All mail, by the name of its recipient."""
        return {name: [item.message for item in await self.store.read(agent)] for name, agent in AGENTS.items()}

    async def last(self, who: str) -> Message:
        return (await self.letters())[who][-1]


@pytest.fixture
async def office() -> Office:
    return await Office(MemoryStore()).open()


# -- whom it is for


@pytest.mark.parametrize(
    ("to", "reached"),
    [
        ("alice", {"alice"}),
        ("['alice']", {"alice"}),
        ('["alice"]', {"alice"}),
        (" Alice ", {"alice"}),
        ("ALICE", {"alice"}),
        ("@alice", {"alice"}),
        ("`alice`", {"alice"}),
        ('"alice"', {"alice"}),
        ("alice-1", {"alice"}),
        ("alice, Zoë", {"alice", "Zoë"}),
        ("['alice', 'user']", {"alice", "user"}),
        (["alice", "Zoë"], {"alice", "Zoë"}),
        ([" @Alice", "alice"], {"alice"}),
        ([["alice"], "human"], {"alice", "user"}),
        ("zoe\u0308", {"Zoë"}),
        ("*", {"alice", "Zoë"}),
        ("broadcast", {"alice", "Zoë"}),
        (["all"], {"alice", "Zoë"}),
    ],
)
async def test_an_odd_spelling_reaches_the_evident_members(office: Office, to: object, reached: set[str]) -> None:
    text = await office.sends("lead", to=to)
    assert {name for name, letters in (await office.letters()).items() if letters} == reached
    assert all(f"{name}: stored as message 0" in text for name in reached)
    assert office.sent == 1


@pytest.mark.parametrize(
    ("to", "received"),
    [
        ("alcie", "alcie"),
        ("bob", "bob"),
        ("alice, bob", "bob"),
        (["alice", "nobody"], "nobody"),
        (42, "42"),
        (4.2, "4.2"),
        (True, "True"),
        ({"name": "alice"}, "dict"),
        ([{"name": "alice"}], "dict"),
        ([None], "None"),
        pytest.param(10**5000, "int", id="5001 digits"),
        ("x" * 5_000, "xxx"),
        ("../../etc", "../../etc"),
        ("lead", "lead"),
    ],
)
async def test_what_names_nobody_is_an_error_with_what_was_received_and_the_valid_names(
    office: Office, to: object, received: str
) -> None:
    text = await office.refuses("lead", to=to)
    assert received in text
    assert all(name in text for name in ("alice", "Zoë", "user"))
    assert len(text) < 1_000


@pytest.mark.parametrize("to", [None, "", "   ", [], [""], "[]", '""', "null"])
async def test_no_recipient_is_an_error_with_the_valid_names(office: Office, to: object) -> None:
    assert "alice, Zoë, user" in await office.refuses("lead", to=to)


async def test_a_call_without_a_recipient_is_answered_like_one_that_names_nobody(office: Office) -> None:
    assert "alice, Zoë, user" in await office.refuses("lead", content="x")


# -- what it says


async def test_the_message_has_the_callers_id_name_and_hops(office: Office) -> None:
    await office.sends("alice", to="lead", content="found it")
    message = await office.last("lead")
    assert (message.sender, message.recipient, message.id, message.hops) == ("alice-1", "lead-1", "call-1", 2)


@pytest.mark.parametrize("forged", ["from", "sender", "id", "hops", "timestamp", "role"])
async def test_no_argument_can_say_who_sends(office: Office, forged: str) -> None:
    assert forged in await office.refuses("alice", to="Zoë", **{forged: "lead-1"})
    await office.sends("alice", to="Zoë", payload={forged: "lead-1"}, message={"text": "hi", forged: "lead-1"})
    message = await office.last("Zoë")
    assert (message.sender, message.hops) == ("alice-1", 2)


async def test_a_call_that_runs_again_sends_once(office: Office) -> None:
    given = {"to": ["alice", "Zoë"], "summary": "s"}
    for _ in range(3):
        result = await office.call("lead", "SendMessage", given, repeats="call-x")
        assert "alice: stored as message 0" in str(result.content)
    assert [len(letters) for letters in (await office.letters()).values()] == [0, 1, 1, 0]


async def test_what_reached_nobody_is_an_error() -> None:
    office = await Office(FullDisk()).open()
    text = await office.refuses("lead", to="alice")
    assert "alice: NOT stored: /mail: disk full" in text
    assert office.sent == 0


@pytest.mark.parametrize("field", ["summary", "content", "type", "payload", "in_reply_to", "team_name", "message"])
async def test_null_stands_for_an_argument_left_out(office: Office, field: str) -> None:
    given = {"type": "note", "content": "c", field: None}
    await office.sends("alice", to="lead", **given)


@pytest.mark.parametrize(
    ("field", "value"),
    [("summary", 5), ("content", ["x"]), ("payload", "x"), ("priority", "urgent"), ("type", {}), ("in_reply_to", 7)],
)
async def test_an_argument_of_another_kind_is_an_error_that_names_it(office: Office, field: str, value: Any) -> None:
    assert field in await office.refuses("alice", to="lead", **{field: value})


async def test_a_type_that_does_not_exist_or_is_the_runtimes_is_answered_with_those_that_can_be_sent(
    office: Office,
) -> None:
    for kind in ("Teleport", "idle_notification", "permission_response", "control_request"):
        text = await office.refuses("lead", to="alice", type=kind, payload={"request_id": "r", "approve": True})
        assert kind in text
        assert all(known in text for known in SENDABLE)


async def test_members_cannot_interrupt_or_use_control_types_of_the_lead(office: Office) -> None:
    assert "lead" in await office.refuses("alice", to="Zoë", priority="interrupt")
    payload = {"request_id": "r", "approve": True}
    for kind in ("shutdown_request", "plan_approval_response"):
        assert "lead" in await office.refuses("alice", to="Zoë", type=kind, payload=payload)
        assert "lead" in await office.refuses("alice", to="Zoë", message={"type": kind, **payload})


@pytest.mark.parametrize("name", ["survey", "Survey", " SURVEY ", "", None])
async def test_ones_own_team_may_be_named(office: Office, name: str | None) -> None:
    await office.sends("alice", to="lead", team_name=name)


async def test_another_team_is_an_error_that_names_ones_own(office: Office) -> None:
    text = await office.refuses("alice", to="lead", team_name="other")
    assert "Survey" in text
    assert "other" in text


# -- the other program's spelling


async def test_message_as_text_is_the_content(office: Office) -> None:
    await office.sends("alice", to="lead", message="hello")
    assert (await office.last("lead")).content == "hello"
    await office.sends("alice", to="lead", message="hello", content="hello")
    assert "different" in await office.refuses("alice", to="lead", message="hello", content="goodbye")


async def test_message_as_an_object_is_a_typed_message(office: Office) -> None:
    text = await office.sends("lead", to="alice", message={"type": "shutdown_request", "reason": "done"})
    request = await office.last("alice")
    assert request.type is MessageType.SHUTDOWN_REQUEST
    assert request.payload == {"reason": "done", "request_id": request.id}
    assert request.id in text
    answer = {"type": "shutdown_response", "request_id": str(request.id), "approve": False, "reason": "busy"}
    await office.sends("alice", to="team-lead", message=answer, summary=None)
    response = await office.last("lead")
    assert response.type is MessageType.SHUTDOWN_RESPONSE
    assert response.payload == {"request_id": request.id, "approve": False, "reason": "busy"}
    plan = {"type": "plan_approval_response", "request_id": "p1", "approve": True, "feedback": "go"}
    await office.sends("lead", to="alice", message=plan)
    assert (await office.last("alice")).payload == {"request_id": "p1", "approve": True, "feedback": "go"}


async def test_message_as_an_object_without_a_type_is_a_text(office: Office) -> None:
    await office.sends("alice", to="lead", summary="", message={"text": "hello", "summary": "greeting", "n": 1.0})
    message = await office.last("lead")
    assert (message.type, message.content, message.summary, message.payload) == (
        "text",
        "hello",
        "greeting",
        {"n": 1.0},
    )


@pytest.mark.parametrize("message", [5, ["x"], True, {"type": 5}, {"type": "Teleport"}, {"type": "shutdown_response"}])
async def test_message_of_another_kind_is_an_error(office: Office, message: object) -> None:
    assert await office.refuses("alice", to="lead", message=message)


def test_the_model_is_told_the_shape_of_recipients_and_no_union_at_the_top() -> None:
    schema = send_message.input_schema
    assert schema["properties"]["to"]["anyOf"] == [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
    ]
    assert schema["type"] == "object"
    assert all("description" in value for value in schema["properties"].values())


# -- reading the rest


async def test_a_long_message_is_read_page_by_page_between_characters(office: Office) -> None:
    content = "aé漢😀<\n" * 7_001
    await office.sends("alice", to="lead", content=content)
    pages: list[str] = []
    offset = 0
    while offset < len(content):
        result = await office.call("lead", "ReadMessage", {"id": " call-1 ", "offset": offset})
        head, _, page = str(result.content).partition("\n")
        end = min(len(content), offset + 16_000)
        assert head == f"characters {offset} to {end} of {len(content)}"
        pages.append(page)
        offset = end
    assert "".join(pages) == inert(content)


async def test_a_page_holds_all_that_it_says_even_if_every_character_is_escaped(office: Office) -> None:
    await office.sends("alice", to="lead", content="<" * 60_000)
    result = await office.call("lead", "ReadMessage", {"id": "call-1", "limit": 50_000})
    head, _, page = str(result.content).partition("\n")
    assert head == "characters 0 to 20000 of 60000"
    assert page == "&lt;" * 20_000


async def test_the_data_of_a_message_is_read_behind_its_content(office: Office) -> None:
    payload = {"rows": ["y" * 100] * 300}
    await office.sends("alice", to="lead", content="see", payload=payload)
    result = await office.call("lead", "ReadMessage", {"id": "call-1", "limit": 20_000})
    expected = "see\npayload: " + json.dumps(payload)
    assert f" of {len(expected)}\n{expected[:20_000]}" in str(result.content)


async def test_a_page_behind_the_end_is_empty_and_says_where_the_end_is(office: Office) -> None:
    await office.sends("alice", to="lead", content="short")
    result = await office.call("lead", "ReadMessage", {"id": "call-1", "offset": 99})
    assert str(result.content).strip() == "characters 5 to 5 of 5"


async def test_nobody_reads_the_mail_of_others(office: Office) -> None:
    await office.sends("alice", to="lead", content="secret")
    assert "no message 'call-1' in your mailbox" in await office.refuses("Zoë", "ReadMessage", id="call-1")


@pytest.mark.parametrize(
    "given",
    [{}, {"id": ""}, {"id": "a\nb"}, {"id": "lost"}, {"id": 5}, {"id": "m", "offset": -1}, {"id": "m", "limit": 0}],
)
async def test_a_page_that_cannot_be_is_an_error(office: Office, given: dict[str, Any]) -> None:
    assert await office.refuses("lead", "ReadMessage", **given)
