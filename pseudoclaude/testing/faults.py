"""What a Messages API server can do wrong, on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..providers.scripted import Answer

_TYPE_OF_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of the server; make it with the class methods.

    ``after`` counts the deltas of ``turn`` that are sent before it happens; None means before the first byte.
    """

    kind: Literal["status", "error", "cut", "drop", "reset", "stall"]
    turn: Answer = ""
    after: int | None = 0
    status: int = 0
    error_type: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    ping_seconds: float | None = None

    @classmethod
    def http(
        cls, status: int, message: str = "refused", *, error_type: str = "", headers: Mapping[str, str] | None = None
    ) -> Fault:
        """An answer with this HTTP status, an error body and ``headers`` (``{"retry-after": "0"}``)."""
        kind = error_type or _TYPE_OF_STATUS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return cls("status", status=status, error_type=kind, message=message, headers=headers or {})

    @classmethod
    def error_event(
        cls, error_type: str = "overloaded_error", message: str = "Overloaded", *, turn: Answer = "", after: int = 0
    ) -> Fault:
        """An ``error`` event inside a stream that began well."""
        return cls("error", turn, after, error_type=error_type, message=message)

    @classmethod
    def cut(cls, turn: Answer = "", *, after: int = 0) -> Fault:
        """A stream that ends in good order, without its stop reason."""
        return cls("cut", turn, after)

    @classmethod
    def drop(cls, turn: Answer = "", *, after: int | None = 0) -> Fault:
        """A connection closed in the middle of an answer."""
        return cls("drop", turn, after)

    @classmethod
    def reset(cls, turn: Answer = "", *, after: int | None = None) -> Fault:
        """A connection that is reset."""
        return cls("reset", turn, after)

    @classmethod
    def stall(cls, turn: Answer = "", *, after: int | None = 0, ping_seconds: float | None = None) -> Fault:
        """Silence, until the client leaves or the server is closed; with pings at this interval, if one is given."""
        return cls("stall", turn, after, ping_seconds=ping_seconds)
