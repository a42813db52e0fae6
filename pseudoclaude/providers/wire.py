"""The Messages API's JSON: a request as a body and back, a reply from its stream events. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_core import from_json

from ..chat import ChatMessage, JsonObject, ModelReply, ModelRequest, ToolSpec, Usage
from ..errors import ProviderError

_BREAKPOINT = {"type": "ephemeral"}
_CACHED_TURNS = 2


def request_body(request: ModelRequest) -> JsonObject:
    """The body to post, with cache breakpoints at the end of system, tools and the last two user messages.

    Blank text blocks are left out and lone surrogates become U+FFFD: the API refuses both.
    """
    messages = [sendable for message in request.messages if (sendable := _message(message))["content"]]
    for message in [message for message in messages if message["role"] == "user"][-_CACHED_TURNS:]:
        message["content"][-1]["cache_control"] = dict(_BREAKPOINT)
    body: JsonObject = {"model": request.model, "max_tokens": request.max_tokens, "messages": messages}
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": dict(_BREAKPOINT)}]
    if request.tools:
        body["tools"] = [tool.model_dump() for tool in request.tools]
        body["tools"][-1]["cache_control"] = dict(_BREAKPOINT)
    sendable_body: JsonObject = _encodable(body)
    return sendable_body


def request_from_body(body: JsonObject) -> ModelRequest:
    """The request that a posted body carries. ``agent`` is empty, and cache breakpoints are left out.

    :raises pydantic.ValidationError: when the body has not the shape of a request.
    """
    return ModelRequest(
        model=body.get("model", ""),
        system="\n".join(block.get("text", "") for block in _blocks(body.get("system") or [])),
        messages=tuple(
            ChatMessage.model_validate({"role": message["role"], "content": _blocks(message.get("content") or [])})
            for message in body.get("messages") or []
        ),
        tools=tuple(
            ToolSpec(
                name=tool.get("name", ""),
                description=tool.get("description", ""),
                input_schema=tool.get("input_schema", {}),
            )
            for tool in body.get("tools") or []
        ),
        max_tokens=body.get("max_tokens", ModelRequest.model_fields["max_tokens"].default),
    )


class ReplyBuilder:
    """Puts a reply together from the stream's events, given as they were parsed; unknown blocks stay as they came."""

    def __init__(self, request_id: str = "") -> None:
        self.started = False
        self._request_id = request_id
        self._model = ""
        self._stop_reason: str | None = None
        self._usage: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> str:
        """Take one event and return the prose in it, which is empty for most kinds.

        :raises LookupError, TypeError: when the event has not the shape that its type asks for.
        """
        kind = event["type"]
        if kind == "message_start":
            self.started = True
            self._model = event["message"].get("model") or ""
            self._count(event["message"].get("usage"))
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            return self._grow(event["index"], event["delta"])
        elif kind == "message_delta":
            self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
            self._count(event.get("usage"))
        return ""

    def build(self) -> ModelReply:
        """The whole reply, once the stream has ended.

        :raises ProviderError: when it was cut off, or when a tool call's input is no JSON object.
        """
        if self._stop_reason is None:
            raise ProviderError("the answer was cut off before its end", passing=True)
        for (index, key), pieces in self._pieces.items():
            if key == "partial_json":
                self._blocks[index]["input"] = self._tool_input(self._blocks[index], "".join(pieces))
            else:
                self._blocks[index][key] = (self._blocks[index].get(key) or "") + "".join(pieces)
        return ModelReply.model_validate(
            {
                "content": [self._blocks[index] for index in sorted(self._blocks)],
                "stop_reason": self._stop_reason,
                "usage": Usage(**{name: self._usage.get(name) or 0 for name in Usage.model_fields}),
                "model": self._model,
                "request_id": self._request_id,
            }
        )

    def _grow(self, index: int, delta: JsonObject) -> str:
        block = self._blocks[index]
        for key, value in delta.items():
            if key == "type":
                continue
            if key == "citation":
                block["citations"] = [*(block.get("citations") or []), value]
            elif isinstance(value, str):
                self._pieces.setdefault((index, key), []).append(value)
            else:
                block[key] = value
        prose = delta.get("text", "") if delta["type"] == "text_delta" else ""
        return prose if isinstance(prose, str) else ""

    def _count(self, usage: JsonObject | None) -> None:
        self._usage.update({name: count for name, count in (usage or {}).items() if count is not None})

    def _tool_input(self, block: JsonObject, text: str) -> JsonObject:
        if not text.strip():
            return block.get("input") or {}
        # A call cut by the token limit is shown to the model as far as it got; it must not run.
        cut = self._stop_reason == "max_tokens"
        try:
            value = from_json(text, allow_partial=cut)
        except ValueError as error:
            if cut:
                return {}
            raise self._malformed(block, str(error)) from error
        if not isinstance(value, dict):
            raise self._malformed(block, "not an object")
        return value

    def _malformed(self, block: JsonObject, why: str) -> ProviderError:
        return ProviderError(f"the model called {block.get('name')!r} with malformed input: {why}", passing=True)


def _blocks(content: str | Iterable[JsonObject]) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = [{key: value for key, value in block.items() if key != "cache_control"} for block in content]
    return [{"content": "", **block} if block.get("type") == "tool_result" else block for block in blocks]


def _message(message: ChatMessage) -> JsonObject:
    content = [block.model_dump() for block in message.content]
    content = [block for block in content if not _is_blank(block)]
    for block in content:
        if block["type"] == "tool_result" and isinstance(block["content"], list):
            block["content"] = [part for part in block["content"] if not _is_blank(part)]
    return {"role": message.role, "content": content}


def _is_blank(part: JsonObject) -> bool:
    return part.get("type") == "text" and not str(part.get("text", "")).strip()


def _encodable(value: Any) -> Any:
    """``value`` with every string valid UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return value
