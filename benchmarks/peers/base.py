"""What every mailbox that is measured can do; one subclass a peer."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

from pseudoclaude.mail import Message

Durability = Literal["os", "disk"]
"""What an answered append survives: a killed process, or a power cut as well. Only equals are compared."""


class Peer(ABC):
    """One mailbox of one system. Messages are encoded and decoded by the same code unless the system has its own."""

    name: ClassVar[str]
    durability: ClassVar[Durability]
    note: ClassVar[str]
    """Its settings, where they are not its defaults, and what an append returns: in one line."""
    distribution: ClassVar[str] = ""
    """The package to install; empty for what comes with Python or with this program."""
    module: ClassVar[str] = ""
    most: ClassVar[int] = 100_000
    """The fullest mailbox it is measured with; the note says why it is less."""
    grows: ClassVar[bool] = False
    """Its cost follows the length of its mailbox so closely that few appends may be made to one."""

    def __init__(self, folder: Path) -> None:
        """:param folder: where it keeps its data; there already."""
        self.folder = folder

    @classmethod
    def missing(cls) -> str:
        """Why it cannot be measured here; empty when it can."""
        if cls.module and importlib.util.find_spec(cls.module) is None:
            return f"not installed (pip install {cls.distribution})"
        return ""

    @classmethod
    def version(cls) -> str:
        """Its version; empty for what is not installed, and for what comes with Python or with this program."""
        measured = cls.distribution and not cls.missing()
        return importlib.metadata.version(cls.distribution) if measured else ""

    @classmethod
    def library(cls) -> ModuleType:
        """The module that is measured."""
        return importlib.import_module(cls.module)

    @abstractmethod
    async def open(self) -> None:
        """Get a handle, which all later calls use again; several processes may have one."""

    @abstractmethod
    async def fill(self, messages: Iterable[Message]) -> None:
        """Give the mailbox a history: messages that were read. By whatever is quickest; it is not timed."""

    def prepare(self, message: Message) -> None:  # noqa: B027 - only the limit has something to prepare
        """What comes before an append and is not timed."""

    @abstractmethod
    async def append(self, message: Message) -> object:
        """Store one message; what the system knows it by from now on."""

    @abstractmethod
    async def take(self, count: int) -> list[Message]:
        """Read the oldest unread messages, decode them and mark them as read."""

    @abstractmethod
    async def ids(self) -> list[str]:
        """The ids of all messages that are stored, read or not."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """Give up the handle."""
