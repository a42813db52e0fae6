"""Every exception of the package, in one tree.

::

    PseudoclaudeError
    ├── InvalidNameError          a name that must not become a path
    ├── SettingsError             a settings file or variable that cannot be used
    ├── StorageError              a disk, permission or damage problem below the mail
    │   ├── ConflictError             a document changed since it was read
    │   └── LeaseHeldError            somebody else holds a lock
    ├── MailError
    │   ├── UnknownMailboxError
    │   ├── UnknownIndexError
    │   ├── UnknownRecipientError
    │   ├── NotAllowedError           this sender may not send that
    │   ├── InvalidMessageError       too large, unknown type, payload of the wrong shape
    │   ├── MailboxBusyError
    │   ├── MailboxFullError          too much unread mail
    │   ├── MailboxDamagedError
    │   └── MessageLostError          another program wrote over it, twice
    ├── TeamError
    │   ├── UnknownTeamError
    │   ├── TeamExistsError
    │   ├── TeamLedElsewhereError     another process holds ``lead.lock``
    │   ├── UnknownMemberError
    │   ├── MemberExistsError
    │   └── TooManyMembersError
    ├── BoardError
    │   ├── UnknownTaskError
    │   ├── TaskCycleError
    │   ├── TaskBlockedError
    │   └── TaskTakenError
    ├── ProviderError             the model did not answer
    │   └── ScriptExhaustedError      a scripted provider has no turn left
    ├── TranscriptError           a conversation that cannot be continued
    └── ToolError                 what a tool wants the model to read

The text of an exception says what happened and to which file; ``remedy`` says what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class PseudoclaudeError(Exception):
    """The base of everything this package raises on purpose."""

    remedy: str = ""

    def __init__(self, text: str, *, remedy: str = "") -> None:
        super().__init__(text)
        if remedy:
            self.remedy = remedy

    def explain(self) -> str:
        """The text and the remedy, as one paragraph for a person or a model."""
        text = str(self)
        if not self.remedy:
            return text
        return f"{text} {self.remedy}" if text.endswith((".", "?", "!")) else f"{text}. {self.remedy}"


class InvalidNameError(PseudoclaudeError, ValueError):
    """Raised when a name of a team, an agent or a message breaks the rules of :mod:`pseudoclaude.ids`."""

    def __init__(self, kind: str, name: str, why: str) -> None:
        shown = name if len(name) <= 80 else name[:77] + "..."
        super().__init__(f"{shown!r} cannot be a {kind}: {why}")
        self.name = name
        self.why = why


class SettingsError(PseudoclaudeError):
    """Raised when settings cannot be read or hold a value of the wrong kind."""


class StorageError(PseudoclaudeError):
    """Raised when the layer below the mail fails: a full disk, a missing permission, a folder that is gone."""

    def __init__(self, path: Path | str, why: str, *, remedy: str = "") -> None:
        super().__init__(f"{path}: {why}", remedy=remedy)
        self.path = str(path)


class ConflictError(StorageError):
    """Raised when a document is not in the version that its writer had read."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(path, "changed since it was read", remedy="Read it again and repeat the change.")


class LeaseHeldError(StorageError):
    """Raised when a lease is held by somebody else. ``holder`` is what the holder wrote about itself, or empty."""

    def __init__(self, path: Path | str, holder: str) -> None:
        super().__init__(path, f"held by {holder}" if holder else "held by another process")
        self.holder = holder


class MailError(PseudoclaudeError):
    """The base of everything that concerns mail."""


class UnknownMailboxError(MailError):
    """Raised when an agent has no mailbox: it was never created, or it was removed."""

    def __init__(self, agent: str, where: Path | str) -> None:
        super().__init__(f"{where}: no mailbox of {agent}", remedy="A mailbox is created with its member.")
        self.agent = agent


class UnknownIndexError(MailError):
    """Raised when an index is not that of a stored message; nothing has been marked."""

    def __init__(self, agent: str, index: int, end: int) -> None:
        held = f"indices 0 to {end - 1}" if end else "no message"
        super().__init__(f"{agent} has no message {index}: its mailbox holds {held}", remedy="Nothing was marked.")
        self.index = index


class UnknownRecipientError(MailError):
    """Raised when a recipient is no agent of the team; nothing has been sent to anybody."""

    def __init__(self, received: str, known: Iterable[str]) -> None:
        self.received = received
        self.known = tuple(known)
        near = get_close_matches(received.casefold(), [name.casefold() for name in self.known], n=1)
        guess = next((name for name in self.known if near and name.casefold() == near[0]), "")
        text = f"{received!r} is no agent of this team" if received.strip() else "no recipient was named"
        if guess:
            text += f"; did you mean {guess!r}?"
        super().__init__(text, remedy=f"Nothing was sent. You can send to: {', '.join(self.known) or 'nobody yet'}.")


class NotAllowedError(MailError):
    """Raised when this sender may not send this kind of message (the table in :mod:`pseudoclaude.mail`)."""


class InvalidMessageError(MailError, ValueError):
    """Raised when a message cannot be sent as it is: too large, of an unknown type, with a payload of another shape."""


class MailboxBusyError(MailError):
    """Raised when a mailbox stayed locked by somebody else for the whole wait; nothing has been written."""

    def __init__(self, path: Path | str, holder: str, seconds: float) -> None:
        who = f"process {holder}" if holder else "another process"
        super().__init__(
            f"{path}: locked by {who} for more than {seconds:g} s",
            remedy="A stopped process keeps its locks: continue it or end it, then send again.",
        )
        self.holder = holder


class MailboxFullError(MailError):
    """Raised when a mailbox holds as much unread mail as it may; nothing has been written."""

    def __init__(self, agent: str, where: Path | str, unread: str) -> None:
        super().__init__(
            f"{where}: the mailbox of {agent} is full, it holds {unread} of unread mail",
            remedy=f"Nothing was written. Send it again when {agent} has read some, or tell whoever runs {agent}.",
        )
        self.agent = agent


class MailboxDamagedError(MailError):
    """Raised, or reported once, when records of a mailbox are unreadable; the others stay readable."""

    def __init__(self, path: Path | str, what: str) -> None:
        super().__init__(f"{path}: {what}", remedy="The file is left as it is; everything else in it is readable.")


class MessageLostError(MailError):
    """Raised when a message was gone right after it had been written, twice: another program ignores the lock."""

    def __init__(self, path: Path | str, message_id: str) -> None:
        super().__init__(
            f"{path}: message {message_id} was written twice, and another program wrote over it",
            remedy="It is not stored: send it again.",
        )
        self.message_id = message_id


class TeamError(PseudoclaudeError):
    """The base of everything that concerns a team and its roster."""


class UnknownTeamError(TeamError):
    """Raised when there is no team of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        teams = sorted(known)
        near = get_close_matches(name, teams, n=1)
        text = f"there is no team {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        remedy = f"Teams: {', '.join(teams)}." if teams else "There is no team yet: pseudoclaude team create NAME."
        super().__init__(text, remedy=remedy)


class TeamExistsError(TeamError):
    """Raised when a team's name is taken by a folder, ours or another program's."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path}: this name is taken", remedy="Choose another name, or continue that team.")


class TeamLedElsewhereError(TeamError):
    """Raised when another process leads the team, that is, holds its ``lead.lock``."""

    def __init__(self, path: Path | str, holder: str) -> None:
        super().__init__(
            f"{path}: {holder or 'another process'} runs this team",
            remedy="Only one process may lead; write to its members with: pseudoclaude mail send.",
        )
        self.holder = holder


class UnknownMemberError(TeamError):
    """Raised when the roster has no such member."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.known = tuple(known)
        super().__init__(f"there is no member {name!r}", remedy=f"Members: {', '.join(self.known) or 'none yet'}.")


class MemberExistsError(TeamError):
    """Raised when a member's name is taken in this team."""

    def __init__(self, name: str) -> None:
        super().__init__(f"this team has a member {name!r} already", remedy="Choose another name, or send it mail.")


class TooManyMembersError(TeamError):
    """Raised when the team is full (setting ``team.members``)."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"this team has {limit} members, as many as it may have", remedy="Give the work to one of them."
        )


class BoardError(PseudoclaudeError):
    """The base of everything the task board refuses."""


class UnknownTaskError(BoardError):
    """Raised when the board has no task of that id."""

    def __init__(self, task_id: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no task {task_id!r}", remedy=f"Tasks: {', '.join(known) or 'none yet'}.")


class TaskCycleError(BoardError):
    """Raised when a dependency would close a circle."""

    def __init__(self, circle: Iterable[str]) -> None:
        super().__init__(f"these tasks would wait for each other: {' -> '.join(circle)}", remedy="Nothing was changed.")


class TaskBlockedError(BoardError):
    """Raised when a task cannot be started since others are not completed."""

    def __init__(self, task_id: str, blockers: Iterable[str]) -> None:
        self.blockers = tuple(blockers)
        super().__init__(f"task {task_id} waits for {', '.join(self.blockers)}", remedy="Complete those first.")


class TaskTakenError(BoardError):
    """Raised when a task belongs to somebody else."""

    def __init__(self, task_id: str, owner: str) -> None:
        super().__init__(f"task {task_id} belongs to {owner}", remedy="Take another one, or ask its owner.")
        self.owner = owner


class ProviderError(PseudoclaudeError):
    """Raised when a model request got no complete answer.

    ``passing`` tells a fault that may be gone in a while (overload, network) from one that stays (a wrong key);
    ``status`` is the HTTP status where there was one.
    """

    def __init__(self, text: str, *, passing: bool, status: int | None = None, remedy: str = "") -> None:
        super().__init__(text, remedy=remedy)
        self.passing = passing
        self.status = status


class ScriptExhaustedError(ProviderError):
    """Raised when a scripted provider is asked for a turn that its script does not have."""

    def __init__(self, agent: str, turns: int) -> None:
        super().__init__(
            f"the script of {agent or 'this provider'} has {turns} turns, and one more was asked for", passing=False
        )


class TranscriptError(PseudoclaudeError):
    """Raised when a stored conversation cannot be read or continued."""


class ToolError(PseudoclaudeError):
    """Raised by a tool to tell the model what went wrong and what to do instead; becomes an error result."""
