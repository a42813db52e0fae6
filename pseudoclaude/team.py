"""A team that runs in this process."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from anyio import to_thread

from . import paths, prompts, settings
from .app import Home, builtin_tools, create_team, existing_team, folder_at, provider_named
from .chat import Usage
from .errors import LeaseHeldError, TeamError, TeamLedElsewhereError, ToolError
from .events import Event, EventBus, Replied, TaskChanged, Warned
from .ids import USER, TeamName
from .journal import Journal
from .mail import IdleStatus, Role
from .mailbox.store import ReportsDamage
from .paths import TeamPaths
from .post import Draft, Post, Sender, SendResult
from .providers.base import Closeable, Provider
from .runner.run import Identity
from .settings import Settings
from .tasks.manager import Parts, TaskManager
from .teams.board import Board, Task
from .teams.catalog import TeamCatalog
from .teams.models import Agent, MemberRecord, TeamRecord
from .tools.base import Tool
from .tools.toolbox import Toolbox

MEMBER_TOOLS = ("SendMessage", "ReadMessage", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet")
"""What every member has, whatever else it was given."""


@dataclass(frozen=True, slots=True)
class TeamResult:
    """What came of a goal. ``text`` is the lead's last text, ``unfinished`` says who did not go on, and why."""

    text: str
    status: IdleStatus
    error: str = ""
    passing: bool = False
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    unfinished: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the lead finished."""
        return self.status is IdleStatus.FINISHED


class Team:
    """A team that runs in this process, for the duration of an ``async with`` block.

    An existing team of that name is continued, with its members, mail and tasks; else one is made.

    :param folder: what the team works on; the folder it was made for, or the current one, if left out.
    :param tools: further tools, beside the built-in ones.
    :param provider: what answers model requests, or its name (``anthropic``, ``offline``); the one the team was made
        with if left out, which for a new team is the Anthropic API.
    :param max_turns: how many turns each agent may take in this block.
    :param listeners: called with every event as it happens, from the first one on; must be quick.
    """

    def __init__(
        self,
        name: str,
        folder: Path | str | None = None,
        *,
        tools: Iterable[Tool] = (),
        provider: Provider | str | None = None,
        model: str = "",
        max_turns: int | None = None,
        listeners: Iterable[Callable[[Event], None]] = (),
        root: Path | None = None,
        chosen: Settings | None = None,
    ) -> None:
        self._root = root or paths.root()
        self._settings = chosen or settings.load(self._root)
        self._name = TeamName(name)
        self._folder = Path(folder) if folder is not None else None
        self._own_tools = tuple(tools)
        self._provider = provider
        self._model = model
        self._max_turns = max_turns
        self._bus = EventBus()
        for listener in (self._count, *listeners):
            self._bus.tap(listener)
        self._stack = AsyncExitStack()
        self._default_model = ""
        self._turns = 0
        self._usage = Usage()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, value, trace)

    async def _open(self, stack: AsyncExitStack) -> None:
        known = await to_thread.run_sync(TeamCatalog(self._root).names)
        if self._name.key() not in {team.key() for team in known}:
            named = self._provider if isinstance(self._provider, str) else getattr(self._provider, "name", "anthropic")
            await create_team(
                self._name, self._folder or Path.cwd(), provider=named, model=self._model, root=self._root
            )
        self._home = await Home.open(self._root, await existing_team(self._root, self._name), self._settings)
        record = self.record
        if self._folder is not None and await to_thread.run_sync(folder_at, self._folder) != record.workspace:
            raise TeamError(
                f"the team {record.name} works on {record.workspace}, not on {self._folder}",
                remedy="Choose another name for a team on this folder.",
            )
        provider = self._provider
        if provider is None or isinstance(provider, str):
            name = provider or record.provider or "anthropic"
            provider = await to_thread.run_sync(provider_named, name, self._settings)
            if isinstance(provider, Closeable):
                stack.push_async_callback(provider.aclose)
        self._default_model = provider.default_model
        holder = f"process {os.getpid()}"
        try:
            stack.enter_context(self._home.storage.lease(TeamPaths.LEAD_LOCK).hold(holder))
        except LeaseHeldError as error:
            raise TeamLedElsewhereError(self._home.paths.folder, error.holder) from error
        stack.callback(self._bus.close)
        if isinstance(self._home.store, ReportsDamage):
            self._home.store.on_damage(lambda damage: self._bus.publish(Warned(text=str(damage))))
        self._manager = TaskManager(self._parts(provider, holder))
        await stack.enter_async_context(self._manager.running())

    def _parts(self, provider: Provider, holder: str) -> Parts:
        home, chosen = self._home, self._settings
        self._post = Post(home.store, home.registry, bus=self._bus, max_content_bytes=chosen.mail.max_content_bytes)
        board = Board(home.storage.document(TeamPaths.BOARD))
        board.on_change = self._task_changed
        return Parts(
            storage=home.storage,
            registry=home.registry,
            store=home.store,
            post=self._post,
            board=board,
            journal=Journal(home.storage.log(TeamPaths.JOURNAL)),
            bus=self._bus,
            provider=provider,
            identify=self._identify,
            equip=self._equip,
            holder=holder,
            max_members=chosen.team.members,
            max_turns=self._max_turns,
            max_tokens=chosen.model.max_tokens,
            reminder_tokens=chosen.mail.reminder_tokens,
            stop_grace=chosen.team.stop_grace,
            retry_delays=chosen.team.retry_delays,
            retention=timedelta(days=chosen.mail.retention_days),
        )

    def _identify(self, agent: Agent) -> Identity:
        team = self._home.registry.team
        is_member = isinstance(agent, MemberRecord)
        system = prompts.render(
            "member" if is_member else "lead", team=team.name, name=agent.name, workspace=team.workspace
        )
        return Identity(
            agent_id=agent.agent_id,
            name=agent.name,
            role=Role.MEMBER if is_member else Role.LEAD,
            team=team.name,
            workspace=team.workspace,
            system=system,
            opening=agent.prompt if isinstance(agent, MemberRecord) else "",
            model=self._model or agent.model or self._settings.model.name,
        )

    def _equip(self, agent: Agent) -> Toolbox:
        tools = (*builtin_tools(), *self._own_tools)
        if not isinstance(agent, MemberRecord):
            return Toolbox(tools)
        allowed = Toolbox(tool for tool in tools if not tool.lead_only)
        if agent.tools is None:
            return allowed
        if unknown := [name for name in agent.tools if allowed.get(name) is None]:
            names = ", ".join(spec.name for spec in allowed.specs)
            raise ToolError(f"a member cannot have these tools: {', '.join(unknown)}", remedy=f"It can have: {names}.")
        return allowed.subset({*MEMBER_TOOLS, *agent.tools})

    def _task_changed(self, task: Task) -> None:
        team = self.record
        self._bus.publish(
            TaskChanged(
                task_id=task.id,
                subject=task.subject,
                status=task.status,
                owner=team.display_name(task.owner) if task.owner else "",
                blocked_by=task.blocked_by if task.blocked else (),
            )
        )

    def _count(self, event: Event) -> None:
        if isinstance(event, Replied):
            self._turns += 1
            self._usage += Usage(**event.usage)

    @property
    def record(self) -> TeamRecord:
        """The roster, as last read."""
        return self._home.registry.team

    @property
    def folder(self) -> Path:
        """Where everything of this team is stored."""
        return self._home.paths.folder

    @property
    def model(self) -> str:
        """The model the lead runs on."""
        return self._identify(self.record.lead).model or self._default_model

    @property
    def lead_tools(self) -> list[str]:
        """The names of the lead's tools."""
        return [spec.name for spec in self._equip(self.record.lead).specs]

    @property
    def manager(self) -> TaskManager:
        """The runs of this team."""
        return self._manager

    @property
    def is_fresh(self) -> bool:
        """Whether the lead has never been told anything."""
        return self._manager.is_fresh(self.record.lead.agent_id)

    def events(self) -> AsyncIterator[Event]:
        """Everything that happens from this call on, until the team is left."""
        stream = self._bus.subscribe()

        async def follow() -> AsyncIterator[Event]:
            with stream:
                async for event in stream:
                    yield event

        return follow()

    async def run(self, goal: str) -> TeamResult:
        """Give the lead a goal, and wait until nobody in the team has anything left to do."""
        await self._manager.say(self.record.lead.agent_id, goal)
        return await self.settle()

    async def settle(self) -> TeamResult:
        """Wait until nobody in the team has anything left to do; what the lead said last."""
        started = time.monotonic()
        await self._manager.settle()
        lead = self.record.lead.agent_id
        last = self._manager.last_run(lead)
        return TeamResult(
            text=self._manager.last_text(lead),
            status=last.status or IdleStatus.FINISHED if last else IdleStatus.FINISHED,
            error=(last.error or "") if last else "",
            passing=last.passing if last else False,
            turns=self._turns,
            usage=self._usage,
            seconds=time.monotonic() - started,
            unfinished=self._manager.halted(),
        )

    async def send(self, to: str | Sequence[str], *, summary: str, content: str = "") -> SendResult:
        """Send mail as the person; it wakes its readers.

        :raises MailError: when it cannot be sent; nothing was written.
        """
        return await self._post.send(Sender(USER, Role.USER), Draft(to, summary, content))
