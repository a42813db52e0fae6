"""What passes between runner, provider and tools: blocks, messages, requests, replies.

The shapes are those of the Messages API, frozen. A block type this program does not know is kept as it came
(:class:`OtherBlock`) and sent back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

JsonObject = dict[str, Any]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)


class _Block(_Frozen):
    """Unknown keys of a block survive; the API adds some from time to time."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class TextBlock(_Block):
    """Prose."""

    type: Literal["text"] = "text"
    text: str


class ToolCall(_Block):
    """The model asks for a tool."""

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: JsonObject


class ToolResult(_Block):
    """The answer to one tool call; ``content`` is text or a list of content blocks in the API's shape."""

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: str | list[JsonObject]
    is_error: bool = False

    @property
    def text(self) -> str:
        """The textual part of the content."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


class OtherBlock(_Block):
    """Any other block: thinking, images, what the API may add. Kept and returned as it came."""

    type: str


def _tag(value: Any) -> str:
    kind = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return kind if kind in ("text", "tool_use", "tool_result") else "other"


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ToolCall, Tag("tool_use")]
    | Annotated[ToolResult, Tag("tool_result")]
    | Annotated[OtherBlock, Tag("other")],
    Discriminator(_tag),
]


class ChatMessage(_Frozen):
    """One message of a conversation. Roles alternate and content is never empty in what is sent."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        """All its prose."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


class ToolSpec(_Frozen):
    """What the model is told about a tool; ``input_schema`` is a JSON Schema object."""

    name: str
    description: str
    input_schema: JsonObject


class Usage(_Frozen):
    """Tokens of one request, as the API counts them: cache reads and writes are not part of ``input_tokens``."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class ModelRequest(_Frozen):
    """One request to a model. ``agent`` names who asks; it is for stand-ins and logs and not sent to a server."""

    model: str
    system: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 16_000
    agent: str = ""


class ModelReply(_Frozen):
    """A complete answer. ``stop_reason`` is the API's: ``end_turn``, ``tool_use``, ``max_tokens``, …"""

    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage = Usage()
    model: str = ""
    request_id: str = ""

    @property
    def text(self) -> str:
        """All its prose."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls it asks for, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))
