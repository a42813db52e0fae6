from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pseudoclaude.providers.anthropic import AnthropicProvider
from pseudoclaude.testing import MessagesServer

Asking = Callable[..., AbstractAsyncContextManager[AnthropicProvider]]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, server, profile or proxy of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def asking() -> Asking:
    """A provider that asks the given server, without retries, and is closed at the end of the block."""

    @asynccontextmanager
    async def ask(server: MessagesServer | None = None, **options: Any) -> AsyncIterator[AnthropicProvider]:
        if server is not None:
            options = {"base_url": server.base_url, "api_key": "sk-ant-test-key-0001", **options}
        provider = AnthropicProvider(**{"max_retries": 0, **options})
        try:
            yield provider
        finally:
            await provider.aclose()

    return ask
