"""Text that models read, kept as files: ``prompts/`` of a checkout, ``pseudoclaude/_prompts`` of an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

_PACKAGE = Path(__file__).parent


@cache
def _folder() -> Path:
    installed = _PACKAGE / "_prompts"
    return installed if installed.is_dir() else _PACKAGE.parent / "prompts"


@cache
def _template(name: str) -> Template:
    return Template((_folder() / f"{name}.md").read_text("utf-8").strip())


def render(name: str, /, **values: object) -> str:
    """The prompt ``prompts/<name>.md`` with its ``$placeholders`` filled.

    :raises KeyError: when a placeholder has no value.
    """
    return _template(name).substitute({key: str(value) for key, value in values.items()})
