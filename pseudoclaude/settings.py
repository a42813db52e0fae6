"""Settings, parsed once at the edge into frozen models; below that, plain constructor arguments.

Sources, strongest first: environment variables ``PSEUDOCLAUDE_<GROUP>__<SETTING>``
(``PSEUDOCLAUDE_MAIL__DURABILITY=os``), then ``settings.json`` in the data root (``{"mail": {"durability": "os"}}``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import SettingsError
from .logs import Log

_PREFIX = "PSEUDOCLAUDE_"

_log = Log(__name__)


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MailSettings(_Group):
    """The mail store and the reminder."""

    durability: Literal["disk", "os"] = "disk"
    """``os`` survives a killed process but not a power cut."""
    notify: bool = True
    """Use the system's file notification beside the doorbell; without it, mail of other processes waits 0.5 s."""
    lock_wait: float = Field(default=10.0, gt=0)
    """Seconds to wait for a locked mailbox."""
    segment_bytes: int = Field(default=1 << 20, gt=0)
    """Size at which a mailbox starts its next file."""
    max_content_bytes: int = Field(default=1 << 20, gt=0)
    max_unread: int = Field(default=10_000, gt=0)
    """Unread messages of one mailbox; more are refused until its owner has read some."""
    max_unread_bytes: int = Field(default=256 << 20, gt=0)
    retention_days: float = Field(default=30.0, ge=1)
    """Days after which files of wholly read messages are compressed; nothing is deleted."""
    reminder_tokens: int = Field(default=20_000, gt=0)
    """Budget of one reminder, at four characters a token; what does not fit stays unread."""


class TeamSettings(_Group):
    """A team and its runs."""

    members: int = Field(default=16, gt=0)
    """How many members a team may have."""
    stop_grace: float = Field(default=10.0, ge=0)
    """Seconds that a stopped run has to end by itself before it is cancelled."""
    retry_delays: tuple[Annotated[float, Field(ge=0)], ...] = (30.0, 120.0, 600.0)
    """Seconds until a member that failed for a passing reason is started again; after the last it stays failed."""


class ModelSettings(_Group):
    """Model requests."""

    name: str = ""
    """The model asked for; empty for the provider's default."""
    max_tokens: int = Field(default=16_000, gt=0)
    max_retries: int = Field(default=2, ge=0)
    timeout: float = Field(default=600.0, gt=0)
    """Seconds for one request."""


class Settings(_Group):
    """Everything a person can set; see the groups."""

    mail: MailSettings = MailSettings()
    team: TeamSettings = TeamSettings()
    model: ModelSettings = ModelSettings()


def load(root: Path) -> Settings:
    """The settings in force for a data root. A setting that does not exist is warned of in the log, and left out.

    :raises SettingsError: when the file cannot be read, or a value does not fit; it names the key and its source.
    """
    file = root / "settings.json"
    chosen = _known(_from_file(file), str(file))
    from_environment = _known(_from_environment(os.environ), "the environment", name_of=_variable)
    for group, values in from_environment.items():
        chosen[group] = {**chosen.get(group, {}), **values}
    try:
        return Settings.model_validate(chosen)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        group, key = str(first["loc"][0]), str(first["loc"][1])
        overridden = key in from_environment.get(group, {})
        source = f"variable {_variable(group, key)}" if overridden else str(file)
        raise SettingsError(
            f"{source}: setting {group}.{key}: {first['msg']}",
            remedy=f"It is {first['input']!r:.80} there; change it or leave it out.",
        ) from error


def _from_file(file: Path) -> dict[str, Any]:
    remedy = "Mend the file or move it away."
    try:
        values = json.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{file}: {error}", remedy=remedy) from error
    if not isinstance(values, dict):
        raise SettingsError(f"{file}: not a JSON object", remedy=remedy)
    for group in values.keys() & Settings.model_fields.keys():
        if not isinstance(values[group], dict):
            raise SettingsError(f"{file}: setting {group}: not a JSON object", remedy=remedy)
    return values


def _from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, dict[str, Any]] = {}
    for name, text in variables.items():
        group, separator, key = name.removeprefix(_PREFIX).lower().partition("__")
        if name.startswith(_PREFIX) and separator:
            values.setdefault(group, {})[key] = _list_or_text(text)
    return values


def _list_or_text(text: str) -> Any:
    if text.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def _variable(group: str, key: str) -> str:
    return f"{_PREFIX}{group}__{key}".upper()


def _dotted(group: str, key: str) -> str:
    return f"{group}.{key}"


def _known(
    values: Mapping[str, Any], source: str, name_of: Callable[[str, str], str] = _dotted
) -> dict[str, dict[str, Any]]:
    """The groups without what no setting is called; those are warned of."""
    kept: dict[str, dict[str, Any]] = {}
    for group, items in values.items():
        field = Settings.model_fields.get(group)
        known: Mapping[str, Any] = type(field.default).model_fields if field else {}
        for key in items if isinstance(items, dict) else ():
            if key in known:
                kept.setdefault(group, {})[key] = items[key]
            else:
                _warn_once(source, name_of(group, key))
        if not isinstance(items, dict):
            _warn_once(source, group)
    return kept


@cache
def _warn_once(source: str, name: str) -> None:
    _log.warning("there is no such setting; it is ignored", source=source, setting=name)
