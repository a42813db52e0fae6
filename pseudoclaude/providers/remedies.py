"""Which refusals of the Messages API may pass, and what a person can do about each. Pure."""

from __future__ import annotations

NO_KEY = "Set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, or ANTHROPIC_BASE_URL for a server that needs no key."
WRONG_KEY = "Set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN to a key that this server accepts."
CHECK_SERVER = "Check ANTHROPIC_BASE_URL and the network."

_OVERLOAD = "The server is overloaded; this is usually over within minutes."
_CHANGE_REQUEST = "The same request will be refused again: change what the message names."
_BY_STATUS = {
    400: _CHANGE_REQUEST,
    401: WRONG_KEY,
    402: "Add credit to the account of this key, or set ANTHROPIC_API_KEY to another one.",
    403: "This key may not do that: use another model (ANTHROPIC_MODEL) or another ANTHROPIC_API_KEY.",
    404: "Check the name of the model (ANTHROPIC_MODEL) and ANTHROPIC_BASE_URL.",
    408: _OVERLOAD,
    409: "Another request is in its way; this is usually over within minutes.",
    413: "The request is too large: shorten the conversation or leave out large attachments.",
    422: _CHANGE_REQUEST,
    429: "The limit of this key is used up for now: wait, or let fewer members work at once.",
}
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def status_of(status: int, kind: str) -> int:
    """The status to judge by: an error inside a stream arrives under status 200, and its type says more."""
    return status if status >= 400 else _STATUS_OF_TYPE.get(kind, 400 if kind else 500)


def is_passing(status: int) -> bool:
    """Whether the same request may succeed in a while."""
    return status in (408, 409, 429) or status >= 500


def remedy_of(status: int) -> str:
    """What to do about it, as one sentence."""
    return _BY_STATUS.get(status, _OVERLOAD if is_passing(status) else CHECK_SERVER)
