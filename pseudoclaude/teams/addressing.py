"""Whom a message is for: what a model, a person or a tool wrote as the recipient, against the roster. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import UnknownRecipientError
from ..ids import USER, AgentId
from .models import MemberRecord, TeamRecord

LEAD_NAMES = frozenset({"lead", "team-lead"})
"""What the lead is called in a recipient, beside its agent id."""

USER_NAMES = frozenset({"user", "human"})
"""What the person is called in a recipient."""

BROADCAST_NAMES = frozenset({"broadcast", "*", "all", "everyone"})
"""What stands for everybody else in the team."""

_WRAPPING = " \t\r\n'\"`@[]()\u2018\u2019\u201c\u201d"
_SEPARATOR = re.compile("[,;\n]")
_LONGEST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Recipients:
    """To whom a message goes: distinct agents in the order they were named, and whether everybody was meant."""

    agents: tuple[AgentId, ...]
    broadcast: bool = False


def parse_recipients(value: object) -> list[str]:
    """The names in a recipient argument, unwrapped and in order; empty when it names nobody.

    Takes a name, a list or tuple of names, names with commas between, and lists that were quoted into a string.
    Names hold no quotes, brackets, commas or ``@``, so these only ever wrap them. What is no name at all, such as
    an object, comes back as a text that no agent is called.
    """
    if value is None:
        return []
    return [name for part in _parts(_unquoted(value)) for name in _split(part)]


def find_agent(name: str, team: TeamRecord) -> AgentId | None:
    """The id of the lead, the person or a present member with this name or agent id; None where there is none."""
    key = _key(name)
    if key in LEAD_NAMES:
        return team.lead.agent_id
    if key in USER_NAMES:
        return USER
    # Ids first: they are unique for ever, while a name may be chosen to look like somebody's id.
    by_id = (agent.agent_id for agent in team.agents if agent.agent_id.key() == key)
    by_name = (member.agent_id for member in team.present if member.name.key() == key)
    return next(by_id, None) or next(by_name, None)


def find_ended(name: str, team: TeamRecord) -> MemberRecord | None:
    """The member with this name or agent id that ended last; None where there is none."""
    key = _key(name)
    ended = [member for member in team.members if member.ended_at is not None]
    return next((member for member in reversed(ended) if key in (member.name.key(), member.agent_id.key())), None)


def resolve(value: object, team: TeamRecord, *, sender: AgentId) -> Recipients:
    """The agents that a recipient argument means; all of them, or an error.

    Everybody is the lead and the members present, without the sender and without the person.

    :raises UnknownRecipientError: when a name is unknown, has ended or is the sender's own, or nobody is left.
    """
    names = parse_recipients(value)
    if not names:
        raise UnknownRecipientError("", _addressable(team, sender))
    agents: dict[AgentId, None] = {}
    broadcast = False
    for name in names:
        if _key(name) in BROADCAST_NAMES:
            broadcast = True
            agents.update(dict.fromkeys(agent.agent_id for agent in team.agents if agent.agent_id != sender))
        else:
            agents[_resolve_one(name, team, sender)] = None
    if not agents:
        raise _refusal(names[0], team, sender, "nobody else is in this team")
    return Recipients(tuple(agents), broadcast)


def _resolve_one(name: str, team: TeamRecord, sender: AgentId) -> AgentId:
    agent = find_agent(name, team)
    if agent is None:
        ended = find_ended(name, team)
        why = f"{ended.name!r} has ended and reads no more mail" if ended else ""
        raise _refusal(name, team, sender, why)
    if agent == sender:
        raise _refusal(name, team, sender, f"{name[:_LONGEST_SHOWN]!r} is you, and mail to yourself is not sent")
    return agent


def _refusal(received: str, team: TeamRecord, sender: AgentId, why: str) -> UnknownRecipientError:
    shown = received if len(received) <= _LONGEST_SHOWN else received[: _LONGEST_SHOWN - 3] + "..."
    error = UnknownRecipientError(shown, _addressable(team, sender))
    if why:
        error.args = (why,)
    return error


def _addressable(team: TeamRecord, sender: AgentId) -> list[str]:
    names = [str(agent.name) for agent in team.agents if agent.agent_id != sender]
    return names if sender == USER else [*names, str(USER)]


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _unquoted(value: object) -> object:
    """A JSON list or string inside a string, as what it says; anything else as it is."""
    if isinstance(value, str) and value.strip()[:1] in ("[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _parts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting.extend(reversed(item))
        elif isinstance(item, str):
            yield item
        elif item is None or isinstance(item, float) or (isinstance(item, int) and abs(item) < 10**20):
            yield str(item)
        else:
            yield f"a {type(item).__name__}"


def _split(text: str) -> Iterator[str]:
    for piece in _SEPARATOR.split(text):
        if name := piece.strip(_WRAPPING):
            yield name
