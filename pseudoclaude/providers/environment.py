"""What the environment offers for the Anthropic API, without loading its SDK."""

from __future__ import annotations

from collections.abc import Mapping

_OFFERS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE")


def anthropic_configured(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` names a key, a token, a profile or a server, so that a request has a chance."""
    return any(environ.get(name, "").strip() for name in _OFFERS)
