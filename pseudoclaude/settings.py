"""Settings, parsed once at the edge into frozen models; below that, plain constructor arguments.

Sources, strongest first: environment variables ``PSEUDOCLAUDE_<SETTING>__<SUB>`` (``PSEUDOCLAUDE_MAIL__DURABILITY=os``),
then ``settings.json`` in the data root. Keys may be written in snake_case.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from .errors import SettingsError


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


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
    reminder_tokens: int = Field(default=20_000, gt=0)
    """Budget of one reminder, at four characters a token; what does not fit stays unread."""


class TeamSettings(_Group):
    """A team and its runs."""

    members: int = Field(default=16, gt=0)
    """How many members a team may have."""
    stop_grace: float = Field(default=10.0, ge=0)
    """Seconds that a stopped run has to end by itself before it is cancelled."""
    retry_delays: tuple[float, ...] = (30.0, 120.0, 600.0)
    """Seconds until a member that failed for a passing reason is started again; after the last it stays failed."""
    hops: int = Field(default=12, ge=0)
    pair_rate: int = Field(default=20, gt=0)
    """Messages a minute between one pair."""


class ModelSettings(_Group):
    """Model requests."""

    name: str = ""
    """The model asked for; empty for the provider's default."""
    max_tokens: int = Field(default=16_000, gt=0)
    max_retries: int = Field(default=2, ge=0)
    timeout: float = Field(default=600.0, gt=0)
    """Seconds for one request."""


class Settings(BaseSettings):
    """Everything a person can set; see the groups."""

    model_config = SettingsConfigDict(
        env_prefix="PSEUDOCLAUDE_", env_nested_delimiter="__", frozen=True, extra="forbid", env_parse_none_str="null"
    )

    mail: MailSettings = MailSettings()
    team: TeamSettings = TeamSettings()
    model: ModelSettings = ModelSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over what is passed in, which is what the file holds."""
        return env_settings, init_settings


def load(root: Path) -> Settings:
    """The settings in force for a data root.

    :raises SettingsError: when the file cannot be read, or a value does not fit; it names the key.
    """
    file = root / "settings.json"
    values: dict[str, Any] = {}
    try:
        if file.exists():
            values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}", remedy="Mend the file or move it away.") from error
    if not isinstance(values, dict):
        raise SettingsError(f"{file}: not a JSON object", remedy="Mend the file or move it away.")
    try:
        return Settings(**{key: value for key, value in values.items() if key in Settings.model_fields})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SettingsError(
            f"setting {key}: {first['msg']}", remedy=f"Look in {file} and at the variables PSEUDOCLAUDE_…"
        ) from error
