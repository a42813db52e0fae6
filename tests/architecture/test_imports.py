"""What imports what, and what a start costs."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pseudoclaude

PACKAGE = Path(pseudoclaude.__file__).parent
PROJECT = PACKAGE.parent
SLOW = ("anthropic", "pydantic", "structlog", "textual", "mcp")


def rooms() -> set[str]:
    """The modules and packages right below the package."""
    packages = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")}
    return packages | {file.stem for file in PACKAGE.glob("*.py")} - {"__init__", "__main__", "_version"}


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a clean interpreter has after running this."""
    report = "print(json.dumps(list(sys.modules)), file=sys.stderr)"
    script = f"import sys, json\ntry:\n    {code}\nexcept SystemExit:\n    pass\n{report}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_the_import_contracts_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_loads_nothing_else() -> None:
    assert loaded_after("import pseudoclaude").isdisjoint({*SLOW, "click", "anyio"})


def test_the_version_loads_nothing_slow() -> None:
    assert loaded_after("from pseudoclaude.cli import main; main(['--version'])").isdisjoint(SLOW)


def test_only_the_anthropic_provider_loads_the_sdk() -> None:
    code = "import pseudoclaude.app, pseudoclaude.testing; pseudoclaude.app.builtin_tools()"
    assert "anthropic" not in loaded_after(code)


@pytest.mark.parametrize("module", ["pseudoclaude", "pseudoclaude.testing"])
def test_every_public_name_resolves(module: str) -> None:
    loaded = importlib.import_module(module)
    assert len(set(loaded.__all__)) == len(loaded.__all__)
    for name in loaded.__all__:
        assert getattr(loaded, name) is not None
    assert set(loaded.__all__) <= set(dir(loaded))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = loaded.no_such_name


def test_type_checkers_see_the_public_names_that_are_loaded_late() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    seen = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == set(pseudoclaude.__all__) - {"__version__"}


def test_the_layers_name_every_room_once() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    (layers,) = [c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    named = [name.strip() for layer in layers for name in re.split(r"[|:]", layer)]
    assert sorted(named) == sorted(rooms())


def test_the_map_of_the_package_names_every_room() -> None:
    assert pseudoclaude.__doc__
    block = pseudoclaude.__doc__.partition("::")[2].partition("\nImporting")[0]
    named = {
        name.strip().rstrip("/")
        for line in block.splitlines()
        if line.startswith("    ") and not line.startswith("     ")
        for name in re.split(r"\s{2,}", line.strip())[0].split(",")
    }
    assert named == rooms()
