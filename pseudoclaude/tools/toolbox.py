"""The tools of one agent, and how a call becomes a result: whatever goes wrong, the model reads about it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any

from anyio import CancelScope, move_on_after, to_thread

from ..chat import JsonObject, ToolCall, ToolResult, ToolSpec
from ..errors import PseudoclaudeError, ToolError
from ..logs import Log
from ..mail import Role
from .base import Tool, ToolContext, ToolOutput

LONGEST_RESULT = 100_000
"""Characters of text in one result; of more, the head and the tail are kept."""

_LONGEST_CRASH = 300

_log = Log(__name__)


class Toolbox:
    """The tools that an agent has.

    :raises ValueError: when two tools have one name.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in sorted(tools, key=lambda tool: tool.name):
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools, sorted."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told, sorted by name: the same in every request, so that it can be cached."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name, None when there is none."""
        return self._tools.get(name)

    def subset(self, names: Iterable[str]) -> Toolbox:
        """A toolbox of these tools only; a name given twice counts once.

        :raises ToolError: when there is no tool of one of the names.
        """
        return Toolbox(self._require(name) for name in dict.fromkeys(names))

    def all_read_only(self, calls: Iterable[ToolCall]) -> bool:
        """Whether these calls change nothing, and so may run at the same time."""
        return all(tool is not None and tool.read_only for tool in (self.get(call.name) for call in calls))

    async def run(self, ctx: ToolContext, call: ToolCall) -> ToolResult:
        """Carry out one call. Nothing is raised except cancellation: every fault is a result that tells what it was."""
        content: ToolOutput
        try:
            content, is_error = await self._call(ctx, call), False
        except PseudoclaudeError as fault:
            content, is_error = _presentable(fault.explain()), True
        return ToolResult(tool_use_id=call.id, content=content, is_error=is_error)

    async def _call(self, ctx: ToolContext, call: ToolCall) -> ToolOutput:
        tool = self._require(call.name)
        if tool.lead_only and ctx.role is Role.MEMBER:
            raise ToolError(f"only the lead may use {tool.name}", remedy="Write to the lead what you need.")
        output: ToolOutput = ""
        with move_on_after(tool.timeout) as limit:
            try:
                output = _presentable(await tool.run(ctx, call.input))
            except (Exception, SystemExit) as fault:
                raise await _told(tool, fault) from fault
        if limit.cancelled_caught:
            partly = "" if tool.read_only else "; what it did until then stays done"
            raise ToolError(f"{tool.name} ran longer than {tool.timeout:g} s and was stopped{partly}")
        return output

    def _require(self, name: str) -> Tool:
        if tool := self._tools.get(name):
            return tool
        near = get_close_matches(name.casefold(), [known.casefold() for known in self._tools], n=1)
        guess = next((known for known in self._tools if near and known.casefold() == near[0]), "")
        raise ToolError(
            f"there is no tool {name!r}" + (f"; did you mean {guess!r}?" if guess else ""),
            remedy=f"The tools are: {', '.join(self._tools) or 'none'}.",
        )


async def _told(tool: Tool, fault: BaseException) -> PseudoclaudeError:
    """The fault itself when it was raised to be read, else what the model is told about a crash."""
    while isinstance(fault, BaseExceptionGroup) and len(fault.exceptions) == 1:
        fault = fault.exceptions[0]
    if isinstance(fault, PseudoclaudeError):
        return fault
    with CancelScope(shield=True):  # in a thread, since a traceback is made from source files
        await to_thread.run_sync(partial(_log.error, "tool crashed", tool=tool.name, exc_info=fault))
    try:
        text = f"{type(fault).__name__}: {fault}".rstrip(": ")
    except Exception:  # a fault that cannot even be printed
        text = type(fault).__name__
    return ToolError(f"{tool.name} crashed: {text if len(text) <= _LONGEST_CRASH else text[:_LONGEST_CRASH] + '...'}")


def _presentable(content: ToolOutput) -> ToolOutput:
    """The content as the API accepts it: valid Unicode, not too long, nothing empty."""
    if isinstance(content, str):
        return _shortened(_clean(content), LONGEST_RESULT) if content.strip() else "(no output)"
    blocks = [block for block in content if block.get("type") != "text" or str(block.get("text", "")).strip()]
    texts = [block for block in blocks if block.get("type") == "text"]
    room = LONGEST_RESULT
    if sum(len(str(block["text"])) for block in texts) > room:
        room //= len(texts)
    return [_block(block, room) for block in blocks] or "(no output)"


def _block(block: JsonObject, room: int) -> JsonObject:
    cleaned: JsonObject = _clean_json(block)
    if block.get("type") == "text":
        cleaned["text"] = _shortened(str(cleaned["text"]), room)
    return cleaned


def _clean_json(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_clean_json(key): _clean_json(item) for key, item in value.items()}
    return [_clean_json(item) for item in value] if isinstance(value, list | tuple) else value


def _clean(text: str) -> str:
    """The text with lone surrogates replaced, and pairs of them joined to the character they stand for."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _shortened(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    kept = max(room - 80, 0) // 2
    note = f"\n\n... {len(text) - 2 * kept:,} characters left out here ...\n\n"
    return text[:kept] + note + text[len(text) - kept :]
