"""What the decorator makes of a function: the schema, the call, the result."""

from __future__ import annotations

import enum
import functools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import anyio
import pytest
from pydantic import BaseModel, Field

from pseudoclaude.chat import JsonObject
from pseudoclaude.errors import ToolError
from pseudoclaude.ids import AgentId, MessageId, TeamName
from pseudoclaude.mail import Role
from pseudoclaude.tools.base import Services, Tool, ToolContext, ToolOutput
from pseudoclaude.tools.decorator import tool

if TYPE_CHECKING:
    from decimal import Decimal


def context() -> ToolContext:
    return ToolContext(
        team=TeamName("survey"),
        agent_id=AgentId("alice-1"),
        agent_name="alice",
        role=Role.MEMBER,
        workspace=Path("/nowhere"),
        call_id=MessageId("m1"),
        services=cast(Services, None),
    )


async def call(made: Tool, **given: Any) -> ToolOutput:
    return await made.run(context(), given)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Spot(BaseModel):
    x: int
    y: int = 0


@tool
def paint(title: str, colour: Colour, spots: list[Spot], mode: Literal["wet", "dry"] = "wet") -> str:
    """Paint a picture.

    It takes a while.

    Args:
        title: What is written
            below it.
        colour: The only one.
        spots: Where.

    Returns:
        Nothing of interest.
    """
    return f"{title} {colour.value} {[spot.x for spot in spots]} {mode}"


def test_name_description_and_argument_texts_come_from_the_function() -> None:
    assert paint.name == "paint"
    assert paint.description == "Paint a picture.\n\nIt takes a while."
    assert paint.input_schema["properties"]["title"] == {"type": "string", "description": "What is written\nbelow it."}
    assert paint.input_schema["required"] == ["title", "colour", "spots"]
    assert paint.input_schema["properties"]["mode"] == {"type": "string", "enum": ["wet", "dry"], "default": "wet"}
    assert (paint.read_only, paint.needs_approval, paint.lead_only, paint.repeatable) == (False,) * 4
    assert paint.timeout == 120


def test_a_schema_has_no_titles_but_an_argument_may_be_named_so() -> None:
    def titles(value: Any) -> int:
        if isinstance(value, dict):
            return isinstance(value.get("title"), str) + sum(map(titles, value.values()))
        return sum(map(titles, value)) if isinstance(value, list) else 0

    assert titles(paint.input_schema) == 0
    assert paint.input_schema["type"] == "object"
    assert paint.input_schema["additionalProperties"] is False
    assert set(paint.input_schema["$defs"]) == {"Colour", "Spot"}
    json.dumps(paint.input_schema)


def test_a_default_keeps_a_key_named_title() -> None:
    @tool
    def act(card: dict[str, str] = {"title": "none"}) -> None: ...  # noqa: B006

    assert act.input_schema["properties"]["card"]["default"] == {"title": "none"}


async def test_arguments_arrive_with_the_types_of_the_hints() -> None:
    assert await call(paint, title="Sea", colour="blue", spots=[{"x": 1}, {"x": "2"}]) == "Sea blue [1, 2] wet"


@pytest.mark.parametrize(
    "doc",
    [
        "Do it.\n\nArgs:\n    size: How big.\n",
        "Do it.\n\n:param size: How big.\n",
        "Do it.\n\nParameters\n----------\nsize : int\n    How big.\n",
    ],
    ids=["google", "rest", "numpy"],
)
def test_argument_texts_are_read_from_every_common_docstring(doc: str) -> None:
    def act(size: int) -> None: ...

    act.__doc__ = doc
    made = tool(act)
    assert made.description == "Do it."
    assert made.input_schema["properties"]["size"]["description"] == "How big."


async def test_a_field_in_the_hint_gives_limits_text_and_name_and_wins_over_the_docstring() -> None:
    @tool
    def act(
        size: Annotated[int, Field(ge=1, description="From the hint.")],
        sender: Annotated[str, Field(alias="from")] = "me",
        count: int = Field(3, le=5),
    ) -> str:
        """Act.

        Args:
            size: From the docstring.
            count: How often.
        """
        return f"{size} {sender} {count}"

    assert act.input_schema["properties"] == {
        "size": {"type": "integer", "minimum": 1, "description": "From the hint."},
        "from": {"type": "string", "default": "me"},
        "count": {"type": "integer", "maximum": 5, "default": 3, "description": "How often."},
    }
    assert await call(act, **{"size": 1, "from": "you"}) == "1 you 3"
    with pytest.raises(ToolError, match="size: Input should be greater than or equal to 1"):
        await call(act, size=0)


def test_options_override_what_the_function_says() -> None:
    @tool(name="Act", description="Other.", read_only=True, timeout=None, needs_approval=True, lead_only=True)
    def act() -> None:
        """Act."""

    assert (act.name, act.description, act.timeout) == ("Act", "Other.", None)
    assert act.read_only
    assert act.needs_approval
    assert act.lead_only
    assert act.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_the_context_is_known_by_its_hint_and_hidden_from_the_model() -> None:
    @tool
    async def act(where: ToolContext, ctx: str) -> str:
        return f"{where.agent_name} {ctx}"

    assert set(act.input_schema["properties"]) == {"ctx"}
    assert await call(act, ctx="text") == "alice text"


async def test_names_that_a_model_class_uses_itself_are_fine_for_arguments() -> None:
    @tool
    def act(self: str, schema: str, copy: str, model_config: str, _private: str, name: str, json: str) -> str:
        return self + schema + copy + model_config + _private + name + json

    given = dict(zip(("self", "schema", "copy", "model_config", "_private", "name", "json"), "abcdefg", strict=True))
    assert await act.run(context(), given) == "abcdefg"


async def test_every_wrong_argument_is_named_with_what_is_wrong() -> None:
    @tool(name="Act")
    def act(path: str, size: int, spot: Spot) -> None: ...

    with pytest.raises(ToolError) as caught:
        await call(act, size="big", spot={"y": 1}, colour="red")
    assert str(caught.value) == (
        "the arguments of Act do not fit: path: Field required; size: Input should be a valid integer, unable to parse "
        "string as an integer; spot.x: Field required; colour: Extra inputs are not permitted"
    )


async def test_a_fault_inside_the_function_is_not_taken_for_wrong_arguments() -> None:
    @tool
    def act() -> None:
        Spot.model_validate({})

    with pytest.raises(ValueError, match="Spot"):
        await call(act)


async def test_positional_only_parameters_and_defaults_arrive() -> None:
    @tool
    def act(ctx: ToolContext, first: int, second: list[int] = [], /, *, third: Path = Path("here")) -> str:  # noqa: B006
        second.append(first)
        return f"{second} {third}"

    assert await call(act, first=1) == "[1] here"
    assert await call(act, first=2, third="there") == "[2] there"


async def test_hints_may_name_what_only_the_functions_around_know() -> None:
    class Local(BaseModel):
        size: int

    def deeper() -> Tool:
        class Deeper(Local):
            width: int

        @tool
        def act(local: Local, more: Deeper | None = None) -> Decimal:  # the result's hint is not importable
            return cast("Decimal", local.size + (more.width if more else 0))

        return act

    _ = Local
    assert await call(deeper(), local={"size": 1}, more={"size": 1, "width": 2}) == "3"


def test_a_hint_that_means_nothing_at_run_time_is_an_error_that_names_it() -> None:
    def act(price: Decimal) -> None: ...

    with pytest.raises(TypeError, match="tool act: a type hint cannot be resolved: name 'Decimal' is not defined"):
        tool(act)


def _many(*items: int) -> None: ...
def _any(**items: int) -> None: ...
def _bare(item) -> None: ...  # type: ignore[no-untyped-def]
def _late(item: int, ctx: ToolContext) -> None: ...
def _lock(item: threading.Event) -> None: ...
def _function(item: Callable[[int], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_many, r"tool _many: parameter \*items.* has no fixed name: take a list"),
        (_any, r"tool _any: parameter \*\*items.* has no fixed name"),
        (_bare, "tool _bare: parameter item has no type hint"),
        (_late, "tool _late: parameter ctx.* must be the first"),
        (_lock, "tool _lock: no JSON can fill its parameters"),
        (_function, "tool _function: no JSON can fill its parameters"),
        (functools.partial(_late, 1), "only a function can become a tool"),
    ],
)
def test_a_function_that_no_model_can_call_is_refused_when_it_is_decorated(
    function: Callable[..., Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        tool(function)


def test_a_name_that_the_api_refuses_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'do it' cannot be a tool's name"):
        tool(name="do it")(lambda: None)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        ("", ""),
        (None, "done"),
        (Spot(x=1), '{"x": 1, "y": 0}'),
        ({"a": [1, None, True], "ä": "ö"}, '{"a": [1, null, true], "ä": "ö"}'),
        ([], "[]"),
        ([1, 2], "[1, 2]"),
        (3, "3"),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        ([Spot(x=1)], '[{"x": 1, "y": 0}]'),
        ([{"type": "file", "name": "a"}], '[{"type": "file", "name": "a"}]'),
        ([{"type": ["text"]}], '[{"type": ["text"]}]'),
        ([{"type": "text", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}],
        ),
    ],
)
async def test_what_a_function_returns_becomes_text_or_content_blocks(value: object, output: ToolOutput) -> None:
    @tool
    async def act() -> object:
        return value

    assert await call(act) == output


async def test_a_result_that_is_not_json_is_an_error_of_the_tool() -> None:
    @tool
    def act() -> object:
        return threading.Lock()

    with pytest.raises(TypeError, match="act returned a lock, which is not JSON"):
        await call(act)


async def test_a_sync_function_runs_in_a_thread_and_leaves_the_loop_free() -> None:
    go = threading.Event()

    @tool
    def act() -> str:
        return f"{go.wait(10)} {threading.current_thread() is threading.main_thread()}"

    results: list[ToolOutput] = []

    async def wait() -> None:
        results.append(await call(act))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            go.set()
    assert results == ["True False"]


async def test_a_sync_function_that_is_cancelled_is_not_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()

    @tool
    def act() -> None:
        begun.set()
        go.wait(10)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, act)
            await anyio.to_thread.run_sync(begun.wait)
            tasks.cancel_scope.cancel()
    go.set()


async def test_a_decorated_function_behind_another_decorator_keeps_its_parameters() -> None:
    def twice(function: Callable[[int], Any]) -> Callable[[int], Any]:
        @functools.wraps(function)
        def again(size: int) -> Any:
            return function(size * 2)

        return again

    @tool
    @twice
    async def act(size: int) -> str:
        return str(size)

    assert act.input_schema["properties"] == {"size": {"type": "integer"}}
    assert await call(act, size=2) == "4"


async def test_a_method_of_an_object_can_be_a_tool() -> None:
    class Counter:
        total = 0

        def add(self, size: int) -> int:
            self.total += size
            return self.total

    made = tool(Counter().add)
    assert await call(made, size=2) == "2"
    assert await call(made, size=2) == "4"


async def test_a_schema_is_not_changed_by_calls() -> None:
    before: JsonObject = json.loads(json.dumps(paint.input_schema))
    await call(paint, title="Sea", colour="red", spots=[])
    assert paint.input_schema == before
