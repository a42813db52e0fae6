from __future__ import annotations

import subprocess
import sys

import pytest

from pseudoclaude import testing


def test_importing_the_fakes_loads_neither_the_sdk_nor_a_server() -> None:
    code = (
        "import sys; from pseudoclaude import testing; from pseudoclaude.testing import ScriptedProvider, call;"
        "print(*({'anthropic', 'http.server'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(testing, name) is not None
    assert name in dir(testing)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = testing.nonsense
