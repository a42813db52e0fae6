"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import structlog  # noqa: F401  a first import inside a test would count as blocking
import ulid  # noqa: F401  likewise
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings
from pydantic import TypeAdapter

from pseudoclaude.storage.system import System

settings.register_profile(
    "pseudoclaude",
    deadline=None,  # a loaded machine is no failure
    derandomize=bool(os.environ.get("CI")),  # what fails there must fail here, too
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("pseudoclaude")
TypeAdapter(int)  # the first model to be built looks for plugins on the disk


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


@pytest.fixture(autouse=True)
def no_blocking() -> Iterator[None]:
    """What blocks the event loop fails, but for the short calls of the system module and prompts, read once each."""
    short = {name for name, member in vars(System).items() if callable(member)}
    with blockbuster_ctx("pseudoclaude") as detector:
        for name, function in detector.functions.items():
            if name.endswith("Lock.acquire") or name == "threading.Lock.acquire":
                function.deactivate()  # imports take locks, and what they guard is over in no time
            function.can_block_in("pseudoclaude/storage/system.py", short)
            function.can_block_in("pseudoclaude/prompts.py", {"_template", "_folder"})
            function.can_block_in("pseudoclaude/logs.py", {"warning", "error", "exception"})  # loads its library
            function.can_block_in("tests/runner/test_resume.py", {"keep"})  # copies what a kill would leave
        yield
