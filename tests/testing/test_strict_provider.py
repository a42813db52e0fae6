from __future__ import annotations

import pytest

from pseudoclaude.chat import (
    Block,
    ChatMessage,
    JsonObject,
    ModelReply,
    ModelRequest,
    OtherBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from pseudoclaude.errors import ProviderError
from pseudoclaude.providers.base import complete
from pseudoclaude.testing import FunctionProvider, ScriptedProvider, StrictProvider

Messages = list[tuple[str, list[Block]]]

HI = TextBlock(text="hi")
CALL = ToolCall(id="t1", name="Read", input={})
OTHER = ToolCall(id="t2", name="Read", input={})
RESULT = ToolResult(tool_use_id="t1", content="ok")
OTHER_RESULT = ToolResult(tool_use_id="t2", content="ok")
THOUGHT = OtherBlock.model_validate({"type": "thinking", "thinking": "hm", "signature": "c2ln"})


def asked(messages: Messages, **fields: object) -> ModelRequest:
    chat = tuple(ChatMessage.model_validate({"role": role, "content": content}) for role, content in messages)
    return ModelRequest.model_validate({"model": "m", "system": "s", "messages": chat, **fields})


def strict() -> StrictProvider:
    return StrictProvider(FunctionProvider(lambda request: "fine"))


VALID: list[Messages] = [
    [("user", [HI])],
    [("user", [HI]), ("assistant", [HI]), ("user", [HI])],
    [("user", [HI]), ("assistant", [HI, CALL, OTHER]), ("user", [OTHER_RESULT, RESULT, HI])],
    [("user", [HI]), ("assistant", [THOUGHT, CALL]), ("user", [RESULT])],
    [("user", [HI]), ("assistant", [CALL]), ("user", [ToolResult(tool_use_id="t1", content="")])],
]

BROKEN: list[tuple[str, Messages]] = [
    ("no message", []),
    ("not the user's", [("assistant", [HI])]),
    ("role of the one before", [("user", [HI]), ("user", [HI])]),
    ("is empty", [("user", [])]),
    ("blank text", [("user", [TextBlock(text="")])]),
    ("blank text", [("user", [HI]), ("assistant", [TextBlock(text=" \n")]), ("user", [HI])]),
    (
        "blank text",
        [
            ("user", [HI]),
            ("assistant", [CALL]),
            ("user", [ToolResult(tool_use_id="t1", content=[{"type": "text", "text": ""}])]),
        ],
    ),
    ("no result", [("user", [HI]), ("assistant", [CALL]), ("user", [HI])]),
    ("no result for tool call t2", [("user", [HI]), ("assistant", [CALL, OTHER]), ("user", [RESULT])]),
    ("no result", [("user", [HI]), ("assistant", [CALL])]),
    ("did not call", [("user", [RESULT])]),
    ("did not call", [("user", [HI]), ("assistant", [CALL]), ("user", [RESULT, OTHER_RESULT])]),
    ("two results", [("user", [HI]), ("assistant", [CALL]), ("user", [RESULT, RESULT])]),
    ("before its tool results", [("user", [HI]), ("assistant", [CALL]), ("user", [HI, RESULT])]),
    ("another tool call", [("user", [HI]), ("assistant", [CALL, CALL]), ("user", [RESULT])]),
    (
        "another tool call",
        [("user", [HI]), ("assistant", [CALL]), ("user", [RESULT]), ("assistant", [CALL]), ("user", [RESULT])],
    ),
    ("acceptable id", [("user", [HI]), ("assistant", [ToolCall(id="a b", name="R", input={})]), ("user", [HI])]),
    ("in the user's message", [("user", [HI, THOUGHT])]),
    ("in the user's message", [("user", [HI, CALL])]),
    ("in the assistant's", [("user", [HI]), ("assistant", [RESULT])]),
    ("surrogate", [("user", [TextBlock(text="cut \ud83d")])]),
    (
        "surrogate",
        [("user", [HI]), ("assistant", [ToolCall(id="t1", name="R", input={"a": ["\ud83d"]})]), ("user", [RESULT])],
    ),
]


@pytest.mark.parametrize("messages", VALID)
async def test_valid_conversation_is_passed_on(messages: Messages) -> None:
    provider = strict()
    assert (await complete(provider, asked(messages))).text == "fine"
    assert provider.violations == []


@pytest.mark.parametrize(("rule", "messages"), BROKEN)
async def test_broken_rule_is_refused_and_recorded(rule: str, messages: Messages) -> None:
    provider = strict()
    with pytest.raises(ProviderError, match=rule) as caught:
        await complete(provider, asked(messages))
    assert (caught.value.passing, caught.value.status) == (False, 400)
    assert any(rule in line for line in provider.violations)


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("no model", {"model": ""}),
        ("max_tokens", {"max_tokens": 0}),
        ("surrogate", {"system": "\udc00"}),
    ],
)
async def test_broken_frame_is_refused(rule: str, fields: dict[str, object]) -> None:
    with pytest.raises(ProviderError, match=rule):
        await complete(strict(), asked(VALID[0], **fields))


@pytest.mark.parametrize(
    ("rule", "name", "schema"),
    [
        ("acceptable name", "a b", {"type": "object"}),
        ("type object", "a", {"type": "string"}),
        ("type object", "a", {}),
        ("union", "a", {"type": "object", "anyOf": []}),
        ("two tools", "same", {"type": "object"}),
    ],
)
async def test_unacceptable_tool_is_refused(rule: str, name: str, schema: JsonObject) -> None:
    tools = tuple(ToolSpec(name=each, description="", input_schema=schema) for each in (name, "same"))
    with pytest.raises(ProviderError, match=rule):
        await complete(strict(), asked(VALID[0], tools=tools))


async def thoughtful(answer: list[Block]) -> tuple[StrictProvider, list[Block]]:
    """A provider that has answered with ``answer`` once, and that answer."""
    provider = StrictProvider(ScriptedProvider([answer, "next"]))
    reply = await complete(provider, asked(VALID[0]))
    return provider, list(reply.content)


async def test_thinking_that_comes_back_unchanged_is_accepted() -> None:
    provider, answer = await thoughtful([THOUGHT, CALL])
    await complete(provider, asked([("user", [HI]), ("assistant", answer), ("user", [RESULT])]))
    assert provider.violations == []


@pytest.mark.parametrize("change", [{"thinking": "hm "}, {"signature": "other"}, {"added": 1}])
async def test_changed_thinking_is_refused(change: JsonObject) -> None:
    provider, answer = await thoughtful([THOUGHT, HI])
    changed = OtherBlock.model_validate({**THOUGHT.model_dump(), **change})
    with pytest.raises(ProviderError, match="was changed"):
        await complete(provider, asked([("user", [HI]), ("assistant", [changed, *answer[1:]]), ("user", [HI])]))


async def test_thinking_left_out_before_tool_results_is_refused() -> None:
    provider, answer = await thoughtful([THOUGHT, CALL])
    with pytest.raises(ProviderError, match="not those of the answer"):
        await complete(provider, asked([("user", [HI]), ("assistant", answer[1:]), ("user", [RESULT])]))


async def test_name_model_and_failures_are_those_of_the_wrapped_provider() -> None:
    inner = ScriptedProvider([ProviderError("busy", passing=True)], name="n", default_model="d")
    provider = StrictProvider(inner)
    assert (provider.name, provider.default_model) == ("n", "d")
    with pytest.raises(ProviderError, match="busy"):
        await complete(provider, asked(VALID[0]))
    assert provider.violations == []


async def test_reply_is_passed_on_as_it_is() -> None:
    reply = ModelReply(content=(HI,), stop_reason="refusal")
    assert await complete(StrictProvider(ScriptedProvider([reply])), asked(VALID[0])) == reply
