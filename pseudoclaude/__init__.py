"""pseudoclaude: a local runtime for teams of LLM agents that talk by mail.

The map, in the order in which data flows (message in, store, reminder, model turn, tool, message out)::

    errors, logs, ids     exceptions; log lines; validated names and ids
    mail, chat, events    messages; what passes between runner, provider and tools; what is reported upward
    settings, paths, prompts
    storage/              everything durable: logs, documents, leases
    mailbox/              the mail store, one agent's mailbox, the reminder
    teams/                roster, addressing, task board
    post                  the one way mail is sent
    providers/            what answers a model request
    tools/                what agents can do
    runner/               one agent's conversation and turns
    tasks/                runs, the wake rule, commands
    mail_client, client   a team's mail, and one of our teams, from outside
    app, team             the composition root; a team that runs here
    journal               decisions about control, written down
    cli/, testing/        the command line; fakes and contract suites for your own tests

Importing this package does nothing and loads nothing: public names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .app import open_team
    from .client import TeamClient
    from .errors import PseudoclaudeError, ToolError
    from .mail import IndexedMessage, Message, MessageType
    from .mailbox.foreign import BoxStore, ClaudeInboxStore
    from .mailbox.native import LogStore, MemoryStore
    from .mailbox.store import MailStore
    from .providers.anthropic import AnthropicProvider
    from .providers.scripted import FunctionProvider, ScriptedProvider
    from .team import Team, TeamResult
    from .tools.base import ToolContext
    from .tools.decorator import tool

_HOMES = {
    "Team": "team",
    "TeamResult": "team",
    "open_team": "app",
    "TeamClient": "client",
    "PseudoclaudeError": "errors",
    "ToolError": "errors",
    "IndexedMessage": "mail",
    "Message": "mail",
    "MessageType": "mail",
    "BoxStore": "mailbox.foreign",
    "ClaudeInboxStore": "mailbox.foreign",
    "LogStore": "mailbox.native",
    "MemoryStore": "mailbox.native",
    "MailStore": "mailbox.store",
    "AnthropicProvider": "providers.anthropic",
    "FunctionProvider": "providers.scripted",
    "ScriptedProvider": "providers.scripted",
    "ToolContext": "tools.base",
    "tool": "tools.decorator",
}

__all__ = [
    "AnthropicProvider",
    "BoxStore",
    "ClaudeInboxStore",
    "FunctionProvider",
    "IndexedMessage",
    "LogStore",
    "MailStore",
    "MemoryStore",
    "Message",
    "MessageType",
    "PseudoclaudeError",
    "ScriptedProvider",
    "Team",
    "TeamClient",
    "TeamResult",
    "ToolContext",
    "ToolError",
    "__version__",
    "open_team",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
