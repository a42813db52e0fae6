"""What the tests of runs share: a model whose agents a test directs, and teams of it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio

from pseudoclaude import Team
from pseudoclaude.chat import ModelRequest
from pseudoclaude.events import Event
from pseudoclaude.ids import AgentId, MessageId
from pseudoclaude.mail import IndexedMessage
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.providers.scripted import Answer
from pseudoclaude.settings import MailSettings, Settings, TeamSettings
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.teams.models import MemberRecord
from pseudoclaude.testing import FunctionProvider, StrictProvider
from pseudoclaude.tools.base import Tool

Part = Callable[[ModelRequest], Answer | Awaitable[Answer]]
PATIENCE = 10.0
"""Seconds after which a wait in a test has failed."""


class Model:
    """Asks one function per agent, refuses what the API would refuse, and remembers every request.

    An agent without a part says ``ok``.
    """

    def __init__(self, **parts: Part) -> None:
        self.parts = parts
        self.requests: list[ModelRequest] = []
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.provider = StrictProvider(FunctionProvider(self._answer))
        self._asked = anyio.Event()

    @property
    def violations(self) -> list[str]:
        return self.provider.violations

    def of(self, agent: str) -> list[ModelRequest]:
        """The requests of one agent, in order."""
        return [request for request in self.requests if request.agent == agent]

    async def until(self, agent: str, test: Callable[[list[ModelRequest]], bool]) -> None:
        """Wait until what an agent has asked passes the test."""
        with anyio.fail_after(PATIENCE):
            while not test(self.of(agent)):
                await self._asked.wait()

    async def until_asked(self, agent: str, times: int) -> None:
        """Wait until an agent has asked that often."""
        await self.until(agent, lambda requests: len(requests) >= times)

    async def _answer(self, request: ModelRequest) -> Answer:
        agent = request.agent
        self.requests.append(request)
        self.at_once[agent] += 1
        self.most_at_once[agent] = max(self.most_at_once[agent], self.at_once[agent])
        self._asked.set()
        self._asked = anyio.Event()
        try:
            answer = self.parts.get(agent, say_ok)(request)
            return await answer if inspect.isawaitable(answer) else answer
        finally:
            self.at_once[agent] -= 1


def say_ok(request: ModelRequest) -> Answer:
    """What an agent without a part of its own says."""
    return "ok"


def text_of(request: ModelRequest) -> str:
    """Everything in a request that is prose."""
    return "\n".join(message.text for message in request.messages)


def times(text: str, request: ModelRequest) -> int:
    """How often something stands in a request."""
    return text_of(request).count(text)


def answers(*replies: Answer) -> Part:
    """A part that gives these answers in order, then ``ok``."""
    left = list(replies)
    return lambda _: left.pop(0) if left else "ok"


def quick(**team: Any) -> Settings:
    """Settings that wait for no disk, and for nothing else for long."""
    chosen: dict[str, Any] = {"stop_grace": 0.05, "retry_delays": (0.01, 0.01, 0.01), **team}
    return Settings(mail=MailSettings(durability="os"), team=TeamSettings(**chosen))


def team_of(
    model: Model,
    root: Path,
    *,
    tools: Iterable[Tool] = (),
    listeners: Iterable[Callable[[Event], None]] = (),
    chosen: Settings | None = None,
    max_turns: int | None = None,
) -> Team:
    """A team on a folder below ``root``, with this model."""
    folder = root / "work"
    folder.mkdir(exist_ok=True)
    return Team(
        "survey",
        folder,
        provider=model.provider,
        tools=tools,
        listeners=listeners,
        chosen=chosen or quick(),
        max_turns=max_turns,
        root=root / "home",
    )


async def join(team: Team, name: str, prompt: str = "begin") -> MemberRecord:
    """Add a member without asking the lead's model."""
    return await team.manager.spawn(
        name=name, prompt=prompt, description="", model="", tools=None, spawned_by=MessageId.new()
    )


async def settled(team: Team) -> None:
    """Wait until the team has nothing left to do."""
    with anyio.fail_after(PATIENCE):
        await team.settle()


async def mail_of(team: Team, agent: AgentId) -> list[IndexedMessage]:
    """Everything in a mailbox, as another process reads it."""
    return await NativeStore(FileStorage(team.folder, durability="os")).read(agent)


def notices(mail: Iterable[IndexedMessage]) -> list[tuple[str, str]]:
    """The idle notices in a mailbox: status and error of each."""
    return [(item.message.notice.status, item.message.notice.error or "") for item in mail if item.message.notice]
