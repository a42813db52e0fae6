"""What all tests share."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "pseudoclaude",
    deadline=None,  # a loaded machine is no failure
    derandomize=bool(os.environ.get("CI")),  # what fails there must fail here, too
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("pseudoclaude")


@pytest.fixture
def anyio_backend() -> str:
    """The loop that async tests run in; a test that should hold on trio, too, overrides it."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no setting of the person who runs the tests reaches them."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "PSEUDOCLAUDE_")):
            monkeypatch.delenv(name)
