"""Names and ids: what cannot become a path is refused where it is made."""

from __future__ import annotations

import unicodedata
from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from pseudoclaude.errors import InvalidNameError
from pseudoclaude.ids import RESERVED_AGENT_NAMES, USER, AgentId, AgentName, MessageId, TeamName

Name = type[TeamName] | type[AgentName] | type[AgentId]
KINDS: list[Name] = [TeamName, AgentName, AgentId]

ATTACKS = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "a\0b",
    "a\nb",
    "a b",
    "C:x",
    "a*",
    "a?",
    "~root",
    "$HOME",
    "'a'",
    '"a"',
    "a,b",
    "@a",
    "-rf",
    "_a",
    ".hidden",
    "a.",
    "lead.json.lock",
    "a.JSON",
    "a.jsonl",
    "a.tmp",
    "con",
    "NUL",
    "com1.txt",
    "LPT9",
    "x" * 300,
    "\u4e2d" * 67,
    "\u0301a",
    "a\u200bb",
    "a\u202eb",
    "a\ufeff",
    "\ud800",
    "a\ud800",
    "a\uff0fb",
    "\U0001f600",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attack", ATTACKS, ids=ascii)
def test_what_must_not_become_a_path_is_refused_with_its_kind_and_a_reason(kind: Name, attack: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        kind(attack)
    assert f"cannot be a {kind.kind}: " in str(caught.value)
    assert caught.value.why
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["a", "7", "alice", "Alice-2", "a_b.c", "Zoë", "\u4e2d\u6587", "\u0d15\u0d4d", "console"]
)
def test_letters_and_digits_of_any_script_make_a_name(kind: Name, name: str) -> None:
    assert kind(name) == name
    assert type(kind(name)) is kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_longest_name_is_kept_whole_and_one_more_is_refused(kind: Name) -> None:
    assert kind("x" * kind.longest) == "x" * kind.longest
    with pytest.raises(InvalidNameError, match=f"longer than {kind.longest}"):
        kind("x" * (kind.longest + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_two_spellings_of_one_letter_are_one_name(kind: Name) -> None:
    assert kind("cafe\u0301") == kind("caf\u00e9")


@pytest.mark.parametrize(("one", "other"), [("Alice", "aLICE"), ("ZOE\u0308", "zoë"), ("STRASSE", "straße")])
def test_names_that_differ_in_case_share_a_key(one: str, other: str) -> None:
    assert AgentName(one) != AgentName(other)
    assert AgentName(one).key() == AgentName(other).key()


@pytest.mark.parametrize("name", sorted(RESERVED_AGENT_NAMES))
def test_no_member_takes_a_reserved_name_in_any_case(name: str) -> None:
    for spelling in (name, name.upper(), name.title()):
        with pytest.raises(InvalidNameError, match="reserved"):
            AgentName(spelling)
    assert TeamName(name) == name


@pytest.mark.parametrize("name", ["lead-2", "users", "Leader"])
def test_a_name_that_only_resembles_a_reserved_one_is_free(name: str) -> None:
    assert AgentName(name) == name


class Holder(BaseModel):
    team: TeamName
    agent: AgentId
    message: MessageId


def test_a_record_holds_names_of_their_own_type_and_writes_plain_text() -> None:
    holder = Holder.model_validate({"team": "cafe\u0301", "agent": "a-1", "message": "m 1"})
    assert (type(holder.team), type(holder.agent), type(holder.message)) == (TeamName, AgentId, MessageId)
    assert Holder.model_validate_json(holder.model_dump_json()) == holder
    assert holder.model_dump(mode="json") == {"team": "caf\u00e9", "agent": "a-1", "message": "m 1"}


@pytest.mark.parametrize("attack", [*ATTACKS, 7, None, ["a"]], ids=ascii)
def test_a_record_refuses_what_a_name_refuses(attack: object) -> None:
    with pytest.raises(ValidationError):
        Holder.model_validate({"team": attack, "agent": "a-1", "message": "m"})
    with pytest.raises(ValidationError):
        Holder.model_validate({"team": "a", "agent": attack, "message": "m"})


@settings(deadline=None)
@given(st.text(max_size=80))
def test_whatever_is_accepted_is_one_safe_part_of_a_path(text: str) -> None:
    for kind in KINDS:
        try:
            name = kind(text)
        except InvalidNameError:
            continue
        assert PurePath("root", name).parts == ("root", name)
        assert PurePath("root", name).name == name
        assert name == unicodedata.normalize("NFC", name)
        assert name.isprintable()
        assert len(name.encode()) <= 200
        assert kind(name) == name


odd = st.one_of(st.text(), st.text(alphabet="con.-_ aux\u0301\u0958\u0390ß\u0149İ", max_size=80), st.text(min_size=40))


@settings(deadline=None)
@given(odd)
def test_every_folder_gives_a_legal_team_name(folder: str) -> None:
    name = TeamName.from_folder(folder)
    assert TeamName(name) == name
    assert TeamName(f"{name}-100") == f"{name}-100"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("My Project!", "my-project"),
        ("web_app", "web_app"),
        ("Über uns", "über-uns"),
        ("", "team"),
        ("...", "team"),
        ("con", "team-con"),
        (".config", "config"),
        ("v1.2.json", "v1-2-json"),
    ],
)
def test_a_folder_gives_the_name_one_expects(folder: str, name: str) -> None:
    assert TeamName.from_folder(folder) == name


@settings(deadline=None)
@given(st.text(max_size=300))
def test_every_member_name_or_text_gives_a_fresh_ascii_agent_id(name: str) -> None:
    first, second = AgentId.new(name), AgentId.new(name)
    assert first != second
    assert first.isascii()
    assert first.key() == first


def test_an_agent_id_starts_with_what_the_member_is_called() -> None:
    assert AgentId.new("Zoë").startswith("zoe-")
    assert AgentId.new("\u4e2d").startswith("agent-")
    assert AgentId.new("user") != USER


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 201, "a\0"])
def test_a_message_id_is_printable_and_short(text: str) -> None:
    with pytest.raises(InvalidNameError, match="message id"):
        MessageId(text)


def test_a_derived_id_is_the_same_for_the_same_parts_only() -> None:
    assert MessageId.derived("a", 1) == MessageId.derived("a", "1")
    assert len({MessageId.derived(*parts) for parts in [("a", "b"), ("ab",), ("a", "b", ""), ("b", "a")]}) == 4
    assert MessageId.derived("\ud800")


def test_message_ids_sort_by_the_time_they_were_made() -> None:
    first, second = MessageId.new(), MessageId.new()
    assert first != second
    assert first[:10] <= second[:10]
