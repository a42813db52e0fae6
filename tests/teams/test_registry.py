"""The roster in its document: who may be added, what is refused, what survives."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from pseudoclaude.errors import (
    MemberExistsError,
    TeamError,
    TeamExistsError,
    TooManyMembersError,
    UnknownMemberError,
    UnknownTeamError,
)
from pseudoclaude.ids import AgentId, AgentName, MessageId, TeamName
from pseudoclaude.storage.base import Document
from pseudoclaude.teams.models import LeadRecord, MemberRecord, TeamRecord
from pseudoclaude.teams.registry import Registry

SURVEY = TeamName("survey")


def member(name: str, number: int = 1, *, call: str | None = None) -> MemberRecord:
    return MemberRecord(
        name=AgentName(name),
        agent_id=AgentId(f"{name.lower()}-{number}"),
        prompt="look",
        spawned_by=MessageId(call) if call else None,
    )


def empty_team() -> TeamRecord:
    return TeamRecord(name=SURVEY, workspace=Path("/work"), lead=LeadRecord(agent_id=AgentId("lead-1")))


async def stored(document: Document) -> Any:
    current = await document.read()
    assert current is not None
    return current.value


@pytest.fixture
async def registry(document: Document) -> Registry:
    registry = Registry(document, SURVEY)
    await registry.create(empty_team())
    return registry


async def test_what_is_created_is_loaded_by_another_registry(document: Document, registry: Registry) -> None:
    assert await Registry(document, SURVEY).load() == empty_team().model_copy(
        update={"created_at": registry.team.created_at}
    )


async def test_absent_values_are_not_written(document: Document, registry: Registry) -> None:
    await registry.add(member("alice"), limit=16)
    (entry,) = (await stored(document))["members"]
    assert "ended_at" not in entry
    assert "spawned_by" not in entry


async def test_a_team_that_is_not_there_is_unknown(document: Document) -> None:
    registry = Registry(document, SURVEY)
    for act in (registry.load, lambda: registry.add(member("alice"), limit=1), lambda: registry.end(AgentId("a-1"))):
        with pytest.raises(UnknownTeamError):
            await act()
    assert await document.read() is None


async def test_a_team_cannot_be_asked_for_before_it_was_read(document: Document) -> None:
    with pytest.raises(TeamError, match="not been loaded"):
        _ = Registry(document, SURVEY).team


async def test_a_team_is_created_once(document: Document, registry: Registry) -> None:
    before = await stored(document)
    with pytest.raises(TeamExistsError):
        await registry.create(empty_team())
    assert await stored(document) == before


async def test_the_team_is_refreshed_by_every_method(document: Document, registry: Registry) -> None:
    alice = await registry.add(member("alice"), limit=16)
    assert registry.team.members == (alice,)
    await Registry(document, SURVEY).add(member("bob"), limit=16)
    await registry.load()
    assert [other.name for other in registry.team.present] == ["alice", "bob"]
    await registry.end(alice.agent_id)
    assert [other.name for other in registry.team.present] == ["bob"]


async def test_a_name_is_taken_in_any_case_and_spelling(registry: Registry) -> None:
    await registry.add(member("Zoë"), limit=16)
    for name in ("zoë", "ZOE\u0308"):
        with pytest.raises(MemberExistsError):
            await registry.add(MemberRecord(name=AgentName(name), agent_id=AgentId("other-1"), prompt=""), limit=16)


async def test_an_agent_id_is_never_used_twice(registry: Registry) -> None:
    await registry.add(member("alice"), limit=16)
    await registry.end(AgentId("alice-1"))
    with pytest.raises(MemberExistsError):
        await registry.add(member("alice"), limit=16)


async def test_the_name_of_a_member_that_ended_is_free(registry: Registry) -> None:
    await registry.add(member("alice"), limit=1)
    await registry.end(AgentId("alice-1"))
    await registry.add(member("Alice", 2), limit=1)
    assert [(other.agent_id, other.ended_at is None) for other in registry.team.members] == [
        ("alice-1", False),
        ("alice-2", True),
    ]


async def test_a_full_team_takes_nobody(registry: Registry) -> None:
    await registry.add(member("alice"), limit=1)
    with pytest.raises(TooManyMembersError):
        await registry.add(member("bob"), limit=1)
    assert len((await registry.load()).members) == 1


async def test_a_repeated_spawn_finds_the_member_it_made_even_in_a_full_team(registry: Registry) -> None:
    first = await registry.add(member("alice", call="call-1"), limit=1)
    again = await registry.add(member("alice", 2, call="call-1"), limit=1)
    assert again == first
    assert registry.team.members == (first,)


async def test_ending_twice_keeps_the_first_time(registry: Registry) -> None:
    await registry.add(member("alice"), limit=16)
    first = await registry.end(AgentId("alice-1"))
    assert first.ended_at is not None
    assert await registry.end(AgentId("alice-1")) == first


@pytest.mark.parametrize("agent", ["ghost-1", "lead-1"])
async def test_only_members_can_end(registry: Registry, agent: str) -> None:
    await registry.add(member("alice"), limit=16)
    with pytest.raises(UnknownMemberError, match=agent) as caught:
        await registry.end(AgentId(agent))
    assert caught.value.known == ("alice",)


async def test_of_many_who_add_one_name_at_once_one_succeeds(
    document: Document, registry: Registry, meeting: Callable[[Document, int], Document]
) -> None:
    shared = meeting(document, 8)
    outcomes: list[bool] = []

    async def add(number: int) -> None:
        try:
            await Registry(shared, SURVEY).add(member("alice", number), limit=16)
        except MemberExistsError:
            outcomes.append(False)
        else:
            outcomes.append(True)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(add, number)
    assert sorted(outcomes) == [False] * 7 + [True]
    assert len((await registry.load()).members) == 1


async def test_nobody_is_lost_when_many_are_added_at_once(
    document: Document, registry: Registry, meeting: Callable[[Document, int], Document]
) -> None:
    shared = Registry(meeting(document, 8), SURVEY)
    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(partial(shared.add, member(f"m{number}"), limit=8))
    assert {other.name for other in (await registry.load()).present} == {f"m{number}" for number in range(8)}


async def test_what_a_newer_program_wrote_survives(document: Document, registry: Registry) -> None:
    await registry.add(member("alice"), limit=16)
    value = await stored(document)
    value["colour"] = {"of": None}
    value["lead"]["mood"] = "fine"
    value["members"][0]["badge"] = [1, None]
    await document.put(value)
    await registry.add(member("bob"), limit=16)
    await registry.end(AgentId("alice-1"))
    after = await stored(document)
    assert after["colour"] == {"of": None}
    assert after["lead"]["mood"] == "fine"
    assert after["members"][0]["badge"] == [1, None]
    assert after["members"][0]["ended_at"].endswith("Z")


ATTACKS = ["../x", "a/b", "..", ".", "", "a\0b", "C:x", "x" * 300, ".hidden", "lead.json.lock"]


@pytest.mark.parametrize("bad", [*ATTACKS, 42, None, ["a"]])
@pytest.mark.parametrize(
    "place", [("name",), ("lead", "agent_id"), ("members", 0, "name"), ("members", 0, "agent_id"), ("members",)]
)
async def test_a_file_edited_by_hand_into_illegal_names_is_refused_and_left_alone(
    document: Document, registry: Registry, place: tuple[str | int, ...], bad: object
) -> None:
    await registry.add(member("alice"), limit=16)
    value = copy.deepcopy(await stored(document))
    holder = value
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = bad
    await document.put(value)
    registry = Registry(document, SURVEY, where="/teams/survey/team.json")
    for act in (registry.load, lambda: registry.add(member("bob"), limit=9), lambda: registry.end(AgentId("alice-1"))):
        with pytest.raises(TeamError) as caught:
            await act()
        assert str(caught.value).startswith("/teams/survey/team.json: " + ".".join(map(str, place)))
        assert caught.value.remedy
    assert await stored(document) == value


@pytest.mark.parametrize("value", [[], "team", 7, {}, {"name": "survey"}])
async def test_a_document_that_is_no_team_is_refused(document: Document, value: Any) -> None:
    await document.put(value)
    with pytest.raises(TeamError, match=r"team\.json of team survey"):
        await Registry(document, SURVEY).load()


@pytest.mark.parametrize("name", ["lead", "user", "Runtime", "broadcast"])
async def test_a_reserved_name_in_the_file_is_refused(document: Document, registry: Registry, name: str) -> None:
    value = await stored(document)
    value["members"] = [{"name": name, "agent_id": "x-1", "prompt": ""}]
    await document.put(value)
    with pytest.raises(TeamError, match=r"members\.0\.name.*reserved"):
        await registry.load()


@pytest.mark.parametrize("agent", ["lead-1", "LEAD-1", "user", "runtime", "lead", "alice-1"])
async def test_an_id_that_is_somebody_elses_in_the_file_is_refused(
    document: Document, registry: Registry, agent: str
) -> None:
    await registry.add(member("alice"), limit=16)
    value = await stored(document)
    value["members"].append({"name": "mallory", "agent_id": agent, "prompt": ""})
    await document.put(value)
    with pytest.raises(TeamError, match=r"members\.1\.agent_id"):
        await registry.load()


async def test_two_present_members_of_one_name_in_the_file_are_refused(document: Document, registry: Registry) -> None:
    await registry.add(member("alice"), limit=16)
    value = await stored(document)
    value["members"].append({"name": "ALICE", "agent_id": "alice-2", "prompt": ""})
    await document.put(value)
    with pytest.raises(TeamError, match=r"members\.1\.name"):
        await registry.load()


async def test_the_file_of_another_team_is_refused(document: Document, registry: Registry) -> None:
    with pytest.raises(TeamError, match=r"'survey'.*'copy'"):
        await Registry(document, TeamName("copy")).load()
