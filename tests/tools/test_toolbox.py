"""A call always becomes a result, and the result tells what went wrong."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from structlog.testing import capture_logs

from pseudoclaude.chat import ToolCall, ToolResult
from pseudoclaude.errors import TaskTakenError, ToolError
from pseudoclaude.ids import AgentId, MessageId, TeamName
from pseudoclaude.mail import Role
from pseudoclaude.tools.base import Services, Tool, ToolContext, ToolOutput
from pseudoclaude.tools.decorator import tool
from pseudoclaude.tools.toolbox import LONGEST_RESULT, Toolbox


def context(role: Role = Role.MEMBER) -> ToolContext:
    return ToolContext(
        team=TeamName("survey"),
        agent_id=AgentId("alice-1"),
        agent_name="alice",
        role=role,
        workspace=Path("/nowhere"),
        call_id=MessageId("m1"),
        services=cast(Services, None),
    )


def asked(name: str, **given: Any) -> ToolCall:
    return ToolCall(id=f"call-{name}", name=name, input=given)


@tool(name="Look", read_only=True)
async def look(size: int = 1) -> str:
    """Look."""
    return "x" * size


@tool(name="Change")
async def change() -> None:
    """Change."""


def failing(fault: BaseException) -> Tool:
    @tool(name="Fail")
    async def fail() -> None:
        raise fault

    return fail


def giving(output: Any) -> Tool:
    async def run(ctx: ToolContext, given: dict[str, Any]) -> ToolOutput:
        return cast(ToolOutput, output)

    return Tool(name="Give", description="", input_schema={"type": "object"}, run=run)


async def result_of(made: Tool, role: Role = Role.MEMBER, **given: Any) -> ToolResult:
    return await Toolbox([made]).run(context(role), asked(made.name, **given))


async def error_of(made: Tool, role: Role = Role.MEMBER, **given: Any) -> str:
    result = await result_of(made, role, **given)
    assert result.is_error
    return result.text


async def test_a_call_is_answered_with_its_id() -> None:
    result = await Toolbox([look, change]).run(context(), asked("Look", size=3))
    assert result == ToolResult(tool_use_id="call-Look", content="xxx", is_error=False)


def test_specs_come_in_one_order_however_the_tools_are_given() -> None:
    assert Toolbox([look, change]).specs == Toolbox([change, look]).specs == (change.spec, look.spec)
    assert Toolbox([look, change]).names == ("Change", "Look")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named 'Look'"):
        Toolbox([look, change, look])


def test_a_subset_has_the_named_tools_and_refuses_a_name_that_is_none() -> None:
    box = Toolbox([look, change])
    assert box.subset(["Look", "Look"]).names == ("Look",)
    assert box.subset(["Look"]).get("Change") is None
    assert box.get("Look") is look
    with pytest.raises(ToolError, match="there is no tool 'look'; did you mean 'Look'"):
        box.subset(["Change", "look"])


def test_calls_are_read_only_when_each_of_their_tools_is() -> None:
    box = Toolbox([look, change])
    assert box.all_read_only([])
    assert box.all_read_only([asked("Look"), asked("Look")])
    assert not box.all_read_only([asked("Look"), asked("Change")])
    assert not box.all_read_only([asked("Look"), asked("Unknown")])


async def test_an_unknown_tool_is_answered_with_the_known_ones_and_the_nearest() -> None:
    result = await Toolbox([look, change]).run(context(), asked("Lock"))
    assert result.is_error
    assert result.text == "there is no tool 'Lock'; did you mean 'Look'? The tools are: Change, Look."


async def test_wrong_arguments_are_answered_with_each_of_them() -> None:
    told = await error_of(look, size="big", colour="red")
    assert told.startswith("the arguments of Look do not fit: size: ")
    assert "colour: Extra inputs are not permitted" in told


async def test_a_tool_error_is_answered_with_its_text_and_remedy() -> None:
    assert await error_of(failing(ToolError("no ink", remedy="Buy some."))) == "no ink. Buy some."


async def test_every_other_error_of_the_package_is_answered_with_its_text_and_remedy() -> None:
    told = await error_of(failing(TaskTakenError("3", "bob")))
    assert told == "task 3 belongs to bob. Take another one, or ask its owner."


async def test_an_error_that_arrives_alone_in_a_group_is_told_as_itself() -> None:
    group = ExceptionGroup("unhandled errors", [ExceptionGroup("inner", [ToolError("no ink")])])
    assert await error_of(failing(group)) == "no ink"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ValueError("x < 0"), "Fail crashed: ValueError: x < 0"),
        (ZeroDivisionError(), "Fail crashed: ZeroDivisionError"),
        (TimeoutError(), "Fail crashed: TimeoutError"),
        (SystemExit(3), "Fail crashed: SystemExit: 3"),
        (ValueError("y" * 1_000), f"Fail crashed: ValueError: {'y' * 288}..."),
    ],
)
async def test_a_crash_is_answered_briefly_and_logged_with_its_traceback(fault: BaseException, told: str) -> None:
    with capture_logs() as logs:
        assert await error_of(failing(fault)) == told
    assert [(log["event"], log["tool"], log["exc_info"]) for log in logs] == [("tool crashed", "Fail", fault)]


async def test_a_crash_whose_text_cannot_be_made_is_still_answered() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    with capture_logs():
        assert await error_of(failing(Odd())) == "Fail crashed: Odd"


async def test_a_tool_that_returns_what_it_must_not_has_crashed() -> None:
    with capture_logs():
        assert (await error_of(giving(None))).startswith("Give crashed: ")


async def test_a_tool_that_runs_too_long_is_stopped_and_told_apart_from_a_crash() -> None:
    stopped: list[bool] = []

    @tool(name="Wait", timeout=0.05)
    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.append(True)

    with anyio.fail_after(5):
        told = await error_of(wait)
    assert told == "Wait ran longer than 0.05 s and was stopped; what it did until then stays done"
    assert stopped == [True]


async def test_a_sync_tool_that_runs_too_long_is_not_waited_for() -> None:
    go = threading.Event()

    @tool(name="Wait", timeout=0.05, read_only=True)
    def wait() -> None:
        go.wait(10)

    with anyio.fail_after(5):
        assert await error_of(wait) == "Wait ran longer than 0.05 s and was stopped"
    go.set()


async def test_cancellation_passes_through() -> None:
    begun = anyio.Event()

    @tool(name="Wait", timeout=None)
    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    answered: list[ToolResult] = []

    async def run() -> None:
        answered.append(await result_of(wait))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert answered == []


async def test_calls_of_one_toolbox_can_run_at_the_same_time() -> None:
    here, there = anyio.Event(), anyio.Event()

    def meeting(name: str, mine: anyio.Event, other: anyio.Event) -> Tool:
        @tool(name=name, read_only=True)
        async def meet() -> str:
            mine.set()
            await other.wait()
            return name

        return meet

    box = Toolbox([meeting("One", here, there), meeting("Two", there, here)])
    results: dict[str, str] = {}

    async def run(name: str) -> None:
        results[name] = (await box.run(context(), asked(name))).text

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "One")
            tasks.start_soon(run, "Two")
    assert results == {"One": "One", "Two": "Two"}


async def test_a_tool_of_the_lead_refuses_a_member() -> None:
    @tool(name="Hire", lead_only=True)
    def hire() -> str:
        return "hired"

    assert (await error_of(hire)).startswith("only the lead may use Hire")
    assert (await result_of(hire, Role.LEAD)).text == "hired"


@pytest.mark.parametrize("output", ["", " \n", [], [{"type": "text", "text": ""}]])
async def test_empty_output_says_so(output: ToolOutput) -> None:
    result = await result_of(giving(output))
    assert (result.content, result.is_error) == ("(no output)", False)


async def test_long_output_keeps_its_head_and_its_tail_and_says_how_much_is_missing() -> None:
    result = await result_of(giving("a" * 300_000 + "z" * 300_000))
    text = result.text
    assert len(text) <= LONGEST_RESULT
    assert text.startswith("aaa")
    assert text.endswith("zzz")
    left = 600_000 - text.count("a" * 49_960) * 49_960 - text.count("z" * 49_960) * 49_960
    assert f"\n\n... {left:,} characters left out here ...\n\n" in text
    exactly = "b" * LONGEST_RESULT
    assert (await result_of(giving(exactly))).text == exactly


async def test_long_blocks_share_the_room_and_other_blocks_stay_whole() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "d" * 200_000}}
    result = await result_of(
        giving([{"type": "text", "text": "a" * 90_000}, image, {"type": "text", "text": "b" * 90_000}])
    )
    assert isinstance(result.content, list)
    assert result.content[1] == image
    assert len(result.text) <= LONGEST_RESULT + 1
    assert "characters left out here" in result.content[0]["text"]


async def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert (await result_of(giving("a\ud800b\udc80c"))).content == "a\ufffdb\ufffdc"
    assert (await result_of(giving("\ud83d\ude00 \ud83d"))).content == "😀 \ufffd"
    block = {"type": "text", "text": "\udfff", "note": ["\ud800"]}
    assert (await result_of(giving([block]))).content == [{"type": "text", "text": "\ufffd", "note": ["\ufffd"]}]
    assert await error_of(failing(ToolError("no \udcff"))) == "no \ufffd"


async def test_whatever_the_input_is_the_answer_is_a_result() -> None:
    odd: list[dict[str, Any]] = [
        {"size": None},
        {"": {}},
        {"size": "\ud800"},
        {"size": 10**400},
        {"size": float("nan")},
    ]
    for given in odd:
        with capture_logs():
            assert (await Toolbox([look]).run(context(), ToolCall(id="c", name="Look", input=given))).is_error
