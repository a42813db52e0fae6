"""What all tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """The loop that async tests run in; a test that should hold on trio, too, overrides it."""
    return "asyncio"
