"""The composition root: which storage, store, provider and tools a team has. Only here are the classes known."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyio import to_thread

from . import paths, settings
from .client import TeamClient
from .errors import (
    SettingsError,
    TeamError,
    TeamExistsError,
    UnknownTeamError,
)
from .ids import RUNTIME, USER, AgentId, TeamName
from .journal import Journal
from .mail_client import MailClient
from .mailbox.native import NativeStore
from .mailbox.store import MailStore
from .paths import TeamPaths
from .post import Post
from .providers.environment import anthropic_configured
from .settings import MailSettings, Settings
from .storage.files import FileStorage
from .teams.catalog import TeamCatalog
from .teams.foreign import PERSON, ForeignRoster, ForeignTeam, Program
from .teams.models import LeadRecord, TeamRecord
from .teams.registry import Registry

if TYPE_CHECKING:
    from .mailbox.foreign.store import StoreOptions
    from .providers.base import Provider
    from .tools.base import Tool

MailFormat = Literal["log", "box"]
"""How a team's mail is stored: in our logs, or in the boxes of PseudoClaude, the Go program."""


@dataclass(frozen=True, slots=True)
class Home:
    """The stored part of one team, opened: nothing of it runs."""

    paths: TeamPaths
    storage: FileStorage
    registry: Registry
    store: MailStore

    @classmethod
    def at(cls, root: Path, name: TeamName, mail_format: MailFormat, chosen: Settings) -> Home:
        """A team's folder; touches nothing."""
        places = TeamPaths(root, name)
        storage = _storage(places, chosen)
        roster = storage.document(TeamPaths.ROSTER)
        registry = Registry(roster, name, where=places.folder / TeamPaths.ROSTER)
        store = _store(storage, places, mail_format, chosen.mail)
        return cls(places, storage, registry, store)

    @classmethod
    async def open(cls, root: Path, name: TeamName, chosen: Settings) -> Home:
        """Open an existing team, with its roster loaded and every mailbox there.

        :raises UnknownTeamError: when there is none.
        :raises TeamError: when its roster cannot be used.
        """
        places = TeamPaths(root, name)
        roster = _storage(places, chosen).document(TeamPaths.ROSTER)
        record = await Registry(roster, name, where=places.folder / TeamPaths.ROSTER).load()
        home = cls.at(root, name, record.format, chosen)
        await home.registry.load()
        await home.make_mailboxes()
        return home

    async def make_mailboxes(self) -> None:
        """Make the mailboxes that whoever made the team did not live to make."""
        team = self.registry.team
        for agent_id in (USER, RUNTIME, *(agent.agent_id for agent in team.agents)):
            if team.format == "box" or not await self.storage.marked_log(f"{TeamPaths.INBOXES}/{agent_id}").exists():
                await self.store.create(agent_id)


def _storage(places: TeamPaths, chosen: Settings) -> FileStorage:
    mail = chosen.mail
    return FileStorage(
        places.folder,
        durability=mail.durability,
        lock_wait=mail.lock_wait,
        notify=mail.notify,
        segment_bytes=mail.segment_bytes,
    )


def _store(storage: FileStorage, places: TeamPaths, mail_format: MailFormat, mail: MailSettings) -> MailStore:
    if mail_format == "box":
        from .mailbox.foreign import BoxStore  # only such teams pay for the import

        return BoxStore(places.folder / TeamPaths.INBOXES, **_foreign_options(mail))
    return NativeStore(
        storage,
        prefix=TeamPaths.INBOXES,
        max_message_bytes=mail.max_content_bytes,
        max_unread=mail.max_unread,
        max_unread_bytes=mail.max_unread_bytes,
    )


async def open_team(name: str, *, root: Path | None = None) -> TeamClient:
    """A client of an existing team of ours: reads and writes its mail, and commands whoever runs it.

    :raises UnknownTeamError: when there is no such team.
    """
    where = root or paths.root()
    chosen = await to_thread.run_sync(settings.load, where)
    home = await Home.open(where, await existing_team(where, name), chosen)
    post = Post(home.store, home.registry, max_content_bytes=chosen.mail.max_content_bytes)
    journal = Journal(home.storage.log(TeamPaths.JOURNAL))
    return TeamClient(home.storage, home.registry, home.store, post, journal)


async def open_mail(name: str, *, root: Path | None = None) -> MailClient:
    """A client of the mail of any team: ours, the Go program's, Claude Code's, in this order where names agree.

    :raises UnknownTeamError: when there is no such team.
    """
    where = root or paths.root()
    catalog = TeamCatalog(where, paths.claude_root())
    if any(team.key() == name.casefold() for team in await to_thread.run_sync(catalog.names)):
        return await open_team(name, root=where)
    found = await to_thread.run_sync(catalog.foreign)
    place = next((team for team in found if team.name == name), None)
    if place is None:
        ours = await to_thread.run_sync(catalog.names)
        raise UnknownTeamError(name, [*ours, *(team.name for team in found)])
    roster = ForeignRoster(place)
    await roster.load()
    chosen = await to_thread.run_sync(settings.load, where)
    store = _foreign_store(place, roster, chosen.mail)
    return MailClient(roster, store, Post(store, roster), program=place.program)


def _foreign_store(place: ForeignTeam, roster: ForeignRoster, mail: MailSettings) -> MailStore:
    from .mailbox.foreign import BoxStore, ClaudeInboxStore  # only such teams pay for the import

    inboxes = place.folder / "inboxes"
    if place.program is Program.GO:
        return BoxStore(inboxes, **_foreign_options(mail))
    return ClaudeInboxStore(inboxes, names={USER: PERSON}, colours=roster.colours, **_foreign_options(mail))


def _foreign_options(mail: MailSettings) -> StoreOptions:
    return {
        "durability": mail.durability,
        "notify": mail.notify,
        "max_message_bytes": mail.max_content_bytes,
        "max_unread": mail.max_unread,
        "max_unread_bytes": mail.max_unread_bytes,
    }


async def existing_team(root: Path, name: str) -> TeamName:
    """The team of that name, in any case.

    :raises UnknownTeamError: when there is none.
    """
    known = await to_thread.run_sync(TeamCatalog(root).names)
    match = next((team for team in known if team.key() == TeamName(name).key()), None)
    if match is None:
        raise UnknownTeamError(name, known)
    return match


def folder_at(path: Path) -> Path:
    """The folder a team is to work on, absolute and without links.

    :raises TeamError: when there is none.
    """
    if not path.exists():
        raise TeamError(f"{path}: there is no such folder", remedy="Name the folder that the team is to work on.")
    if not path.is_dir():
        raise TeamError(f"{path}: not a folder", remedy="Name the folder that the file is in.")
    return path.resolve()


async def create_team(
    name: str,
    workspace: Path,
    *,
    provider: str = "",
    model: str = "",
    mail_format: MailFormat = "log",
    root: Path | None = None,
) -> TeamRecord:
    """Make a team with its lead and no members; nothing runs.

    :raises TeamExistsError: when the name is taken, by us or another program.
    :raises TeamError: when the workspace is no folder.
    """
    where = root or paths.root()
    team = TeamName(name)
    workspace = await to_thread.run_sync(folder_at, workspace)
    if await to_thread.run_sync(TeamCatalog(where).is_taken, team):
        raise TeamExistsError(TeamPaths(where, team).folder)
    home = Home.at(where, team, mail_format, await to_thread.run_sync(settings.load, where))
    lead = LeadRecord(agent_id=AgentId.new("lead"), model=model)
    record = TeamRecord(name=team, workspace=workspace, lead=lead, provider=provider, format=mail_format)
    await home.registry.create(record)
    await home.make_mailboxes()
    return record


def provider_named(name: str, chosen: Settings) -> Provider:
    """The provider of that name: ``anthropic`` or ``offline``.

    :raises SettingsError: for another name, or when the environment holds no key.
    """
    if name == "offline":
        from .providers.offline import OfflineProvider  # only its users pay for the import

        return OfflineProvider()
    if name != "anthropic":
        raise SettingsError(f"there is no provider {name!r}", remedy="Providers: anthropic, offline.")
    if not anthropic_configured(os.environ):
        raise SettingsError(
            "there is no key for a model",
            remedy="Set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL for a server of your own; "
            "without any, --provider offline runs the built-in survey.",
        )
    from .providers.anthropic import AnthropicProvider  # the SDK takes a second to import

    model = chosen.model
    return AnthropicProvider(model=model.name or None, max_retries=model.max_retries, timeout=model.timeout)


def builtin_tools() -> tuple[Tool, ...]:
    """Every tool that comes with the package."""
    from .tools import board, crew, files, mail  # decorating them takes a moment that other commands need not pay

    return (
        mail.send_message,
        mail.read_message,
        crew.spawn_agent,
        crew.control_member,
        board.create_task,
        board.update_task,
        board.list_tasks,
        board.get_task,
        files.read,
        files.glob,
        files.grep,
    )
