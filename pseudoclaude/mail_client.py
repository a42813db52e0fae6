"""The mail of a team as a person sees it: of ours, or of another program's. Reading marks nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from .errors import MailError, StorageError, UnknownMailboxError, UnknownMemberError
from .ids import RUNTIME, USER, AgentId, MessageId
from .mail import IndexedMessage, MessageType, Priority, Role
from .mailbox.store import MailStore, Peek
from .post import Draft, Post, Sender, SendResult
from .storage.base import Finding, Flaw
from .teams.models import TeamRecord
from .teams.registry import Roster

Filed = tuple[AgentId, IndexedMessage]
"""A message together with the agent in whose mailbox it is."""


@runtime_checkable
class _Examinable(Protocol):
    """A store that can look for flaws of its own."""

    async def examine(self, agent: AgentId) -> list[Finding]: ...

    async def mend(self, agent: AgentId) -> list[Finding]: ...


class MailClient:
    """Reads and writes the mail of one team.

    :param program: the other program whose team it is; empty for ours.
    """

    def __init__(self, roster: Roster, store: MailStore, post: Post, *, program: str = "") -> None:
        self._roster = roster
        self._post = post
        self.store = store
        """The team's mail."""
        self.program = program

    @property
    def team(self) -> TeamRecord:
        """The roster, as last read."""
        return self._roster.team

    async def attention(self) -> str:
        """What becomes of mail sent now, in words that finish "stored; …"."""
        return f"{self.program} reads it when it next looks"

    def find(self, name: str) -> AgentId:
        """The agent id behind a name, an id, ``lead``, ``user`` or ``runtime``.

        :raises UnknownMemberError: when there is none.
        """
        wanted = name.strip().lstrip("@").casefold()
        lead = self.team.lead.agent_id
        known: dict[str, AgentId] = {"lead": lead, "team-lead": lead, "user": USER, "human": USER, "runtime": RUNTIME}
        known[lead.casefold()] = lead
        for member in self.team.members:  # later ones last: a name used again means its present bearer
            known[member.agent_id.casefold()] = member.agent_id
            known[member.name.key()] = member.agent_id
        if wanted not in known:
            raise UnknownMemberError(name, ["lead", "user", *(member.name for member in self.team.present)])
        return known[wanted]

    async def send(
        self,
        to: str | Sequence[str],
        *,
        summary: str,
        content: str = "",
        type: str = MessageType.TEXT,
        payload: Mapping[str, Any] | None = None,
        in_reply_to: str | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> SendResult:
        """Send mail as the person. Whoever runs the team wakes its readers.

        :raises MailError: when it cannot be sent; nothing was written.
        """
        draft = Draft(to, summary, content, type, payload, in_reply_to, priority)
        return await self._post.send(Sender(USER, Role.USER), draft)

    async def read(self, agent: AgentId, *, start: int = 0, limit: int | None = None) -> list[IndexedMessage]:
        """Messages of a mailbox, archived ones too; marks nothing."""
        return await self.store.read(agent, start=start, limit=limit)

    async def peek(self, agent: AgentId) -> Peek:
        """Counts of what is unread."""
        return await self.store.peek(agent)

    async def mark_read(self, agent: AgentId, indices: Iterable[int]) -> None:
        """Mark messages as read. The agent they belong to will not be shown them.

        :raises UnknownIndexError: when an index is out of range; nothing was marked.
        """
        await self.store.mark_read(agent, indices)

    def mailboxes(self) -> list[AgentId]:
        """Whose mailboxes there are: the person's, the lead's, then all members', ended ones too."""
        team = self.team
        return list(dict.fromkeys([USER, team.lead.agent_id, *(member.agent_id for member in team.members)]))

    async def everything(self) -> list[Filed]:
        """Every message of the team, mailbox by mailbox."""
        found: list[Filed] = []
        for agent in self.mailboxes():
            try:
                found += [(agent, item) for item in await self.read(agent)]
            except UnknownMailboxError:
                continue  # another program makes a mailbox with its first message
        return found

    async def thread(self, message_id: str) -> list[Filed]:
        """The messages that belong together with this one, each once, in the order in which they were sent.

        :raises MailError: when no mailbox of the team holds this message.
        """
        known: dict[MessageId, Filed] = {}
        for filed in await self.everything():
            known.setdefault(filed[1].message.id, filed)
        start = next((item.message for key, (_, item) in known.items() if key == message_id), None)
        if start is None:
            raise MailError(
                f"no mailbox of {self.team.name} holds the message {message_id!r}",
                remedy="Ids are shown by: pseudoclaude mail list --json.",
            )
        thread = start.thread or start.id
        same = [filed for filed in known.values() if thread in (filed[1].message.thread, filed[1].message.id)]
        return sorted(same, key=lambda filed: filed[1].message.timestamp)

    async def dead(self) -> list[Filed]:
        """Mail that nobody will read: unread messages of members that have ended."""
        found: list[Filed] = []
        for member in self.team.members:
            if member.ended_at is not None:
                found += [(member.agent_id, item) for item in await self.store.read_unread(member.agent_id)]
        return found

    async def examine(self, agent: AgentId, *, mend: bool = False) -> list[Finding]:
        """What is wrong with a mailbox; with ``mend``, also do about it what loses nothing."""
        store = self.store
        try:
            if isinstance(store, _Examinable):
                return await (store.mend(agent) if mend else store.examine(agent))
            await store.read(agent)
        except UnknownMailboxError as error:
            return [] if self.program else [Finding(Flaw.UNREADABLE, str(agent), error.explain())]
        except (MailError, StorageError) as error:
            return [Finding(Flaw.UNREADABLE, str(agent), error.explain())]
        return []
