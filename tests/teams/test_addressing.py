"""Whom a message is for, whatever shape the argument comes in."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pseudoclaude.errors import UnknownRecipientError
from pseudoclaude.ids import RUNTIME, USER, AgentId, AgentName, TeamName
from pseudoclaude.teams.addressing import Recipients, parse_recipients, resolve
from pseudoclaude.teams.models import LeadRecord, MemberRecord, TeamRecord

LEAD, ALICE, ZOE = AgentId("lead-1"), AgentId("alice-1"), AgentId("zoe-1")


@pytest.mark.parametrize(
    "value",
    [
        "alice",
        " Alice ",
        "ALICE",
        "@alice",
        " @ alice",
        "'alice'",
        '"alice"',
        "`alice`",
        "\u201calice\u201d",
        "['alice']",
        '["alice"]',
        "[alice]",
        "('alice',)",
        '["@Alice "]',
        "alice,",
        "\talice\n",
        "alice-1",
        "Alice-1",
        ["alice"],
        ("alice",),
        [["alice"]],
        ["['alice']"],
        ["alice", "ALICE", "@alice", "alice-1"],
        "alice, alice",
    ],
)
def test_odd_shapes_of_one_name_reach_that_member(team: TeamRecord, value: object) -> None:
    assert resolve(value, team, sender=LEAD) == Recipients((ALICE,), broadcast=False)


@pytest.mark.parametrize(
    "value",
    [
        "alice, Zoë",
        "alice,zoë",
        "alice;Zoë",
        "alice\nZoë",
        "['alice', 'Zoë']",
        '["alice", "Zo\\u00eb"]',
        "[alice, zoë]",
        ["alice", "Zoë"],
        ["alice, Zoë"],
        unicodedata.normalize("NFD", "alice, ZOË"),
    ],
)
def test_odd_shapes_of_two_names_reach_both_in_order(team: TeamRecord, value: object) -> None:
    assert resolve(value, team, sender=LEAD).agents == (ALICE, ZOE)


@pytest.mark.parametrize("value", [None, "", "   ", [], (), [""], "[]", '""', "@", ",", "\n", [[], [" "]]])
def test_naming_nobody_is_an_error_and_not_a_success_for_zero(team: TeamRecord, value: object) -> None:
    assert parse_recipients(value) == []
    with pytest.raises(UnknownRecipientError, match="no recipient was named") as caught:
        resolve(value, team, sender=LEAD)
    assert "alice" in caught.value.explain()


@pytest.mark.parametrize(
    ("value", "received"),
    [
        ("null", "null"),
        (42, "42"),
        (4.5, "4.5"),
        (True, "True"),
        ([None, "alice"], "None"),
        ({"name": "alice"}, "a dict"),
        (b"alice", "a bytes"),
        (10**30, "a int"),
        ("enginer", "enginer"),
        ("alice bob", "alice bob"),
        ("ali\x00ce", "ali\x00ce"),
        ("\ud800", "\ud800"),
        ("[" * 100_000, None),
        (["alice", "ghost"], "ghost"),
        ("ghost, alice", "ghost"),
        ("../alice", "../alice"),
    ],
)
def test_what_is_no_agent_is_named_beside_the_valid_names(team: TeamRecord, value: object, received: str) -> None:
    with pytest.raises(UnknownRecipientError) as caught:
        resolve(value, team, sender=LEAD)
    if received is not None:
        assert caught.value.received == received
        assert repr(received) in str(caught.value)
    assert caught.value.known == ("alice", "Zoë", "user")


def test_a_mistyped_name_is_guessed() -> None:
    engineer = MemberRecord(name=AgentName("Engineer"), agent_id=AgentId("e-1"), prompt="")
    team = TeamRecord(name=TeamName("t"), workspace=Path("/w"), lead=LeadRecord(agent_id=LEAD), members=(engineer,))
    with pytest.raises(UnknownRecipientError, match="did you mean 'Engineer'"):
        resolve("enginer", team, sender=LEAD)


def test_a_huge_wrong_name_makes_a_short_error(team: TeamRecord) -> None:
    with pytest.raises(UnknownRecipientError) as caught:
        resolve("x" * 1_000_000, team, sender=LEAD)
    assert len(caught.value.explain()) < 300


def test_a_member_that_is_called_like_a_number_is_found_by_the_number(team: TeamRecord) -> None:
    numbered = MemberRecord(name=AgentName("42"), agent_id=AgentId("agent-42"), prompt="")
    team = team.model_copy(update={"members": (*team.members, numbered)})
    assert resolve(42, team, sender=LEAD).agents == (AgentId("agent-42"),)


@pytest.mark.parametrize("name", ["lead", "team-lead", "LEAD", "@lead", "lead-1"])
def test_the_lead_is_reached_by_its_role_and_its_id(team: TeamRecord, name: str) -> None:
    assert resolve(name, team, sender=ALICE).agents == (LEAD,)


@pytest.mark.parametrize("name", ["user", "human", "User"])
def test_the_person_is_reached_as_user(team: TeamRecord, name: str) -> None:
    assert resolve(name, team, sender=ALICE).agents == (USER,)


@pytest.mark.parametrize("name", ["runtime", "system", "none", "None"])
def test_the_machinery_cannot_be_addressed(team: TeamRecord, name: str) -> None:
    with pytest.raises(UnknownRecipientError):
        resolve(name, team, sender=LEAD)


@pytest.mark.parametrize("name", ["broadcast", "*", "all", "everyone", " ALL ", "['all']", ["alice", "all"]])
def test_everybody_is_the_lead_and_present_members_without_sender_and_person(team: TeamRecord, name: object) -> None:
    recipients = resolve(name, team, sender=ZOE)
    assert set(recipients.agents) == {LEAD, ALICE}
    assert recipients.broadcast


def test_the_person_and_the_runtime_broadcast_to_all_agents(team: TeamRecord) -> None:
    for sender in (USER, RUNTIME):
        assert resolve("all", team, sender=sender).agents == (LEAD, ALICE, ZOE)


def test_a_broadcast_that_also_names_the_person_reaches_the_person(team: TeamRecord) -> None:
    assert resolve(["all", "user"], team, sender=LEAD).agents == (ALICE, ZOE, USER)


def test_a_broadcast_from_a_team_of_one_is_an_error() -> None:
    alone = TeamRecord(name=TeamName("t"), workspace=Path("/w"), lead=LeadRecord(agent_id=LEAD))
    with pytest.raises(UnknownRecipientError, match="nobody else is in this team") as caught:
        resolve("broadcast", alone, sender=LEAD)
    assert caught.value.known == ("user",)


@pytest.mark.parametrize(
    ("sender", "name"), [(ALICE, "alice"), (ALICE, "alice-1"), (LEAD, "lead"), (LEAD, "team-lead"), (USER, "user")]
)
def test_mail_to_oneself_is_refused_in_so_many_words(team: TeamRecord, sender: AgentId, name: str) -> None:
    with pytest.raises(UnknownRecipientError, match="is you") as caught:
        resolve([name], team, sender=sender)
    assert name not in caught.value.known


@pytest.mark.parametrize("name", ["bob", "BOB", "bob-1", ["alice", "bob"]])
def test_a_member_that_ended_is_refused_as_ended(team: TeamRecord, name: object) -> None:
    with pytest.raises(UnknownRecipientError, match="'bob' has ended") as caught:
        resolve(name, team, sender=LEAD)
    assert "bob" not in caught.value.known


def test_a_name_used_again_means_the_member_that_is_there(team: TeamRecord) -> None:
    second = MemberRecord(name=AgentName("Bob"), agent_id=AgentId("bob-2"), prompt="")
    team = team.model_copy(update={"members": (*team.members, second)})
    assert resolve("bob", team, sender=LEAD).agents == (AgentId("bob-2"),)


def test_a_name_that_looks_like_the_id_of_another_does_not_get_its_mail(team: TeamRecord) -> None:
    liar = MemberRecord(name=AgentName("alice-1"), agent_id=AgentId("liar-1"), prompt="")
    team = team.model_copy(update={"members": (*team.members, liar)})
    assert resolve("alice-1", team, sender=LEAD).agents == (ALICE,)


words = st.sampled_from(["alice", "bob", "Zoë", "lead", "user", "all", "runtime", "none", "[", "'", ",", "@", " ", ""])
texts = st.one_of(st.text(max_size=20), st.lists(words, max_size=5).map("".join), words)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=2)),
    max_leaves=6,
)


@settings(deadline=None)
@given(value=values, sender=st.sampled_from([LEAD, ALICE, USER, RUNTIME]))
def test_any_json_value_gives_agents_of_the_team_or_an_error_that_does_not_contradict_itself(
    value: Any, sender: AgentId
) -> None:
    team = TeamRecord(
        name=TeamName("survey"),
        workspace=Path("/work"),
        lead=LeadRecord(agent_id=LEAD),
        members=(
            MemberRecord(name=AgentName("alice"), agent_id=ALICE, prompt=""),
            MemberRecord(name=AgentName("Zoë"), agent_id=ZOE, prompt=""),
        ),
    )
    try:
        recipients = resolve(value, team, sender=sender)
    except UnknownRecipientError as error:
        refused = error
    else:
        assert recipients.agents
        assert set(recipients.agents) <= {LEAD, ALICE, ZOE, USER} - {sender}
        assert len(set(recipients.agents)) == len(recipients.agents)
        return
    assert refused.received.strip().casefold() not in {name.casefold() for name in refused.known}
