"""``@tool``: a plain function becomes a tool, described to the model by its type hints and its docstring."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

from anyio import to_thread
from docstring_parser import Docstring, parse
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import to_jsonable_python

from ..chat import JsonObject
from ..errors import ToolError
from .base import Tool, ToolContext, ToolOutput

_MOST_FAULTS = 20
_DATA = frozenset({"default", "const", "enum", "examples", "discriminator"})
"""The keys of a JSON schema that hold values, not schemas."""
_BLOCKS = {
    "text": "text",
    "image": "source",
    "document": "source",
    "search_result": "content",
    "tool_reference": "tool_name",
}
"""The content blocks that a tool result may hold, each with a key that it cannot be without."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    timeout: float | None = 120.0,
    needs_approval: bool = False,
    lead_only: bool = False,
    repeatable: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    timeout: float | None = 120.0,
    needs_approval: bool = False,
    lead_only: bool = False,
    repeatable: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a :class:`Tool` of a sync or async function.

    Argument types and limits come from its hints (``Annotated[..., Field(...)]`` included), their texts from its
    docstring. A first parameter annotated ``ToolContext`` gets the context and is not shown to the model. The function
    returns text, a pydantic model, any JSON value or a list of content blocks, or raises ``ToolError``. A sync function
    runs in a worker thread; when it is stopped, its thread goes on alone and what it returns is dropped.

    :param name: what the model calls; the function's name when None.
    :param description: what the model is told; the docstring without its sections when None.
    :param timeout: seconds, None for no limit.
    :raises TypeError: when the function has parameters that no JSON object can fill.
    :raises ValueError: when the API would refuse the name.
    """

    def make(function: Callable[..., Any]) -> Tool:
        if not inspect.isroutine(function):
            raise TypeError(f"only a function can become a tool, not {function!r}")
        tool_name = name or function.__name__
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool_name):
            raise ValueError(f"{tool_name!r} cannot be a tool's name: 1 to 64 of ASCII letters, digits, '-' and '_'")
        doc = parse(inspect.getdoc(function) or "")
        inputs = _Inputs(tool_name, function, doc)
        return Tool(
            name=tool_name,
            description=(doc.description or "").strip() if description is None else description,
            input_schema=inputs.schema,
            run=partial(_run, tool_name, function, inputs),
            read_only=read_only,
            repeatable=repeatable,
            lead_only=lead_only,
            needs_approval=needs_approval,
            timeout=timeout,
        )

    return make if function is None else make(function)


async def _run(
    name: str, function: Callable[..., Any], inputs: _Inputs, ctx: ToolContext, given: JsonObject
) -> ToolOutput:
    call = inputs.bind(function, ctx, given)
    if inspect.iscoroutinefunction(function):
        return _output(name, await call())
    # In a tuple, since trio takes no coroutine out of a thread.
    (value,) = await to_thread.run_sync(lambda: (call(),), abandon_on_cancel=True)
    return _output(name, await value if inspect.isawaitable(value) else value)


class _Inputs:
    """The parameters of a function as a pydantic model, whose fields are numbered so that no name can clash."""

    def __init__(self, tool_name: str, function: Callable[..., Any], doc: Docstring) -> None:
        self._tool_name = tool_name
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints(tool_name, function)
        self._takes_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
        self._parameters = parameters[1:] if self._takes_context else parameters
        texts = {text.arg_name: text.description for text in doc.params}
        fields: dict[str, Any] = {}
        for number, parameter in enumerate(self._parameters):
            if why := _refusal(parameter, hints):
                raise TypeError(f"tool {tool_name}: parameter {parameter} {why}")
            default = ... if parameter.default is parameter.empty else parameter.default
            ours = Field(alias=parameter.name, description=texts.get(parameter.name))
            fields[f"input_{number}"] = (_behind(ours, hints[parameter.name]), default)
        try:
            self._model: type[BaseModel] = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
            self.schema: JsonObject = _untitled(self._model.model_json_schema(schema_generator=_QuietSchema))
        except PydanticUserError as fault:
            raise TypeError(f"tool {tool_name}: no JSON can fill its parameters: {fault.message}") from fault

    def bind(self, function: Callable[..., Any], ctx: ToolContext, given: JsonObject) -> Callable[[], Any]:
        """The call, ready to be made.

        :raises ToolError: when the arguments do not fit, naming each and what is wrong with it.
        """
        try:
            checked = self._model.model_validate(given)
        except ValidationError as fault:
            raise ToolError(f"the arguments of {self._tool_name} do not fit: {_faults(fault)}") from None
        positional: list[Any] = [ctx] if self._takes_context else []
        named: dict[str, Any] = {}
        for number, parameter in enumerate(self._parameters):
            value = getattr(checked, f"input_{number}")
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[parameter.name] = value
        return partial(function, *positional, **named)


def _hints(tool_name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The hints of the parameters, with the names of the module and of the functions around, if those still run."""
    inner = inspect.unwrap(function)
    known = {"ToolContext": ToolContext, **getattr(inner, "__globals__", {})}
    for namespace in reversed(list(_scopes_around(inner))):
        known |= namespace

    annotations: dict[str, Any] = getattr(inner, "__annotations__", {})

    # The hint of the return value need not mean anything at run time, so it is left out.
    def bare() -> None: ...

    bare.__annotations__ = {key: hint for key, hint in annotations.items() if key != "return"}
    try:
        return get_type_hints(bare, globalns=known, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as fault:
        raise TypeError(f"tool {tool_name}: a type hint cannot be resolved: {fault}") from fault


def _scopes_around(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """The local names of the running functions and classes that a function is defined in, innermost first."""
    where, module = getattr(function, "__qualname__", ""), getattr(function, "__globals__", None)
    frame: FrameType | None = sys._getframe()
    while frame and (frame := frame.f_back):
        if frame.f_globals is module and where.startswith(f"{frame.f_code.co_qualname}."):
            yield frame.f_locals


def _refusal(parameter: inspect.Parameter, hints: dict[str, Any]) -> str:
    """Why no model can fill this parameter; empty if it can."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return "has no fixed name: take a list or a dict instead"
    if parameter.name not in hints:
        return "has no type hint"
    return "must be the first" if hints[parameter.name] is ToolContext else ""


def _behind(ours: Any, hint: Any) -> Any:
    """The hint with our description of the field put where the author's own, if there is one, overrides it."""
    if get_origin(hint) is Annotated:
        bare, *extras = get_args(hint)
        return Annotated[(bare, ours, *extras)]
    return Annotated[hint, ours]


class _QuietSchema(GenerateJsonSchema):
    """A default that is not JSON is left out of the schema without a warning."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012


def _untitled(schema: Any) -> Any:
    """The schema without titles: models do not need them, and every request would carry them."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "title"}
    for key in kept.keys() - _DATA:
        named = key in ("properties", "patternProperties", "$defs")
        kept[key] = {name: _untitled(item) for name, item in kept[key].items()} if named else _untitled(kept[key])
    return kept


def _faults(fault: ValidationError) -> str:
    errors = fault.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors[:_MOST_FAULTS]]
    return "; ".join(told) + (f"; and {len(errors) - _MOST_FAULTS} more" if len(errors) > _MOST_FAULTS else "")


def _output(name: str, value: Any) -> ToolOutput:
    """What the model gets for what a function returned."""
    if value is None:
        return "done"
    if isinstance(value, str):
        return str(value)
    try:
        plain = to_jsonable_python(value, by_alias=True)
    except ValueError as fault:
        raise TypeError(f"{name} returned a {type(value).__name__}, which is not JSON: {fault}") from fault
    if isinstance(plain, str):
        return plain
    if isinstance(plain, list) and plain and all(_is_block(item) for item in plain):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _is_block(item: Any) -> bool:
    return isinstance(item, dict) and _BLOCKS.get(str(item.get("type"))) in item
