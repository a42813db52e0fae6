"""What this package tests itself with, for users' own tests: fakes, a loopback server, contract suites."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..mailbox.native import MemoryStore as MemoryStore
    from ..providers.scripted import FunctionProvider as FunctionProvider
    from ..providers.scripted import ScriptedProvider as ScriptedProvider
    from ..providers.scripted import call as call
    from .faults import Fault as Fault
    from .mail_store_contract import MailStoreContract as MailStoreContract
    from .messages_server import MessagesServer as MessagesServer
    from .messages_server import serve_provider as serve_provider
    from .strict import StrictProvider as StrictProvider

_HOMES = {
    "Fault": ".faults",
    "FunctionProvider": "..providers.scripted",
    "MailStoreContract": ".mail_store_contract",
    "MemoryStore": "..mailbox.native",
    "MessagesServer": ".messages_server",
    "ScriptedProvider": "..providers.scripted",
    "StrictProvider": ".strict",
    "call": "..providers.scripted",
    "serve_provider": ".messages_server",
}

__all__ = [
    "Fault",
    "FunctionProvider",
    "MailStoreContract",
    "MemoryStore",
    "MessagesServer",
    "ScriptedProvider",
    "StrictProvider",
    "call",
    "serve_provider",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
