"""The composition root: which storage, store, provider and tools a team has. Only here are the classes known."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
from .mailbox.native import NativeStore
from .paths import TeamPaths
from .post import Post
from .providers.base import Provider
from .providers.environment import anthropic_configured
from .settings import Settings
from .storage.files import FileStorage
from .teams.board import Board
from .teams.catalog import TeamCatalog
from .teams.models import LeadRecord, TeamRecord
from .teams.registry import Registry
from .tools.base import Tool


@dataclass(frozen=True, slots=True)
class Home:
    """The stored part of one team, opened: nothing of it runs."""

    paths: TeamPaths
    storage: FileStorage
    registry: Registry
    store: NativeStore
    board: Board

    @classmethod
    def open(cls, root: Path, name: TeamName, chosen: Settings) -> Home:
        """Open a team's folder; touches nothing."""
        places = TeamPaths(root, name)
        mail = chosen.mail
        storage = FileStorage(
            places.folder,
            durability=mail.durability,
            lock_wait=mail.lock_wait,
            notify=mail.notify,
            segment_bytes=mail.segment_bytes,
        )
        return cls(
            places,
            storage,
            Registry(storage.document(TeamPaths.ROSTER), name),
            NativeStore(storage, prefix=TeamPaths.INBOXES, max_message_bytes=mail.max_content_bytes),
            Board(storage.document(TeamPaths.BOARD)),
        )

    async def make_mailboxes(self) -> None:
        """Make the mailboxes that whoever made the team did not live to make."""
        team = self.registry.team
        for agent_id in (USER, RUNTIME, *(agent.agent_id for agent in team.agents)):
            if not await self.storage.marked_log(f"{TeamPaths.INBOXES}/{agent_id}").exists():
                await self.store.create(agent_id)


async def open_team(name: str, *, root: Path | None = None) -> TeamClient:
    """A client of an existing team: reads and writes its mail, and commands whoever runs it.

    :raises UnknownTeamError: when there is no such team.
    """
    where = root or paths.root()
    chosen = settings.load(where)
    home = Home.open(where, existing_team(where, name), chosen)
    await home.registry.load()
    await home.make_mailboxes()
    post = Post(home.store, home.registry, max_content_bytes=chosen.mail.max_content_bytes)
    journal = Journal(home.storage.log(TeamPaths.JOURNAL))
    return TeamClient(home.storage, home.registry, home.store, post, home.board, journal)


def existing_team(root: Path, name: str) -> TeamName:
    """The team of that name, in any case.

    :raises UnknownTeamError: when there is none.
    """
    known = TeamCatalog(root).names()
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
    name: str, workspace: Path, *, provider: str = "", model: str = "", root: Path | None = None
) -> TeamRecord:
    """Make a team with its lead and no members; nothing runs.

    :raises TeamExistsError: when the name is taken, by us or another program.
    :raises TeamError: when the workspace is no folder.
    """
    where = root or paths.root()
    team = TeamName(name)
    workspace = folder_at(workspace)
    if TeamCatalog(where).is_taken(team):
        raise TeamExistsError(TeamPaths(where, team).folder)
    home = Home.open(where, team, settings.load(where))
    lead = LeadRecord(agent_id=AgentId.new("lead"), model=model)
    record = TeamRecord(name=team, workspace=workspace, lead=lead, provider=provider)
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
