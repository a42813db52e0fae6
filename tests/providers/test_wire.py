from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pseudoclaude.chat import (
    Block,
    ChatMessage,
    ModelReply,
    ModelRequest,
    OtherBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)
from pseudoclaude.errors import ProviderError
from pseudoclaude.providers.wire import ReplyBuilder, request_body, request_from_body
from pseudoclaude.testing.sse import encode_event, stream_events


def other(kind: str, **fields: object) -> OtherBlock:
    return OtherBlock.model_validate({"type": kind, **fields})


EPHEMERAL = {"type": "ephemeral"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
BLOCKS: st.SearchStrategy[Block] = st.one_of(
    st.builds(TextBlock, text=st.text()),
    st.builds(ToolCall, id=st.text(min_size=1), name=st.text(min_size=1), input=OBJECTS),
    st.builds(lambda text, mark: other("thinking", thinking=text, signature=mark), st.text(), st.text()),
    st.builds(lambda data: other("future", data=data), JSON),
)


def conversation(*messages: tuple[str, list[Block]]) -> ModelRequest:
    chat = tuple(ChatMessage.model_validate({"role": role, "content": content}) for role, content in messages)
    tools = tuple(ToolSpec(name=name, description="", input_schema={"type": "object"}) for name in ("A", "B"))
    return ModelRequest(model="m", system="Be brief.", messages=chat, tools=tools)


def test_cache_breakpoints_are_at_the_ends_of_system_tools_and_the_last_user_messages() -> None:
    text: list[Block] = [TextBlock(text="x"), TextBlock(text="y")]
    body = request_body(conversation(*[("user", text), ("assistant", text)] * 3, ("user", text)))
    assert body["system"][-1]["cache_control"] == EPHEMERAL
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    marked = [
        (place, at)
        for place, message in enumerate(body["messages"])
        for at, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(4, 1), (6, 1)]


def test_blank_texts_are_never_sent() -> None:
    result = ToolResult(tool_use_id="t", content=[{"type": "text", "text": " "}, {"type": "text", "text": "x"}])
    body = request_body(conversation(("user", [TextBlock(text=" \n"), result, TextBlock(text="")])))
    assert [block["type"] for block in body["messages"][0]["content"]] == ["tool_result"]
    assert body["messages"][0]["content"][0]["content"] == [{"type": "text", "text": "x"}]


def test_blank_system_is_left_out() -> None:
    assert "system" not in request_body(ModelRequest(model="m", system=" ", messages=()))


@pytest.mark.parametrize(("text", "sent"), [("a\ud83d", "a\ufffd"), ("\ud83d\ude00", "\U0001f600"), ("é", "é")])
def test_every_body_is_valid_utf8(text: str, sent: str) -> None:
    body = request_body(conversation(("user", [ToolResult(tool_use_id="t", content=text)])))
    assert body["messages"][0]["content"][0]["content"] == sent
    json.dumps(body, ensure_ascii=False).encode()


def test_body_reads_back_as_the_request() -> None:
    calls: list[Block] = [
        other("thinking", thinking="h", signature="s"),
        ToolCall(id="t", name="A", input={}),
    ]
    results: list[Block] = [ToolResult(tool_use_id="t", content="ok"), TextBlock(text="go on")]
    request = conversation(("user", [TextBlock(text="hi")]), ("assistant", calls), ("user", results))
    assert request_from_body(request_body(request)) == request


def test_body_in_short_form_is_understood() -> None:
    result = {"type": "tool_result", "tool_use_id": "t"}
    messages = [{"role": "user", "content": "hi"}, {"role": "user", "content": [result]}]
    request = request_from_body({"model": "m", "max_tokens": 5, "system": "s", "messages": messages})
    assert (request.system, request.messages[0].text, request.max_tokens) == ("s", "hi", 5)
    assert request.messages[1].content == (ToolResult(tool_use_id="t", content=""),)


@given(st.lists(BLOCKS, max_size=4))
def test_streamed_reply_is_the_reply(content: list[Block]) -> None:
    reply = ModelReply(content=tuple(content), stop_reason="end_turn", model="m", usage=Usage(output_tokens=3))
    builder = ReplyBuilder()
    for event in stream_events(reply, "msg"):
        builder.add(json.loads(encode_event(event).partition(b"data: ")[2]))
    assert builder.build() == reply


def built(partial_json: str, stop_reason: str) -> ModelReply:
    builder = ReplyBuilder()
    start = {"type": "tool_use", "id": "t", "name": "Write", "input": {}}
    builder.add({"type": "content_block_start", "index": 0, "content_block": start})
    delta = {"type": "input_json_delta", "partial_json": partial_json}
    builder.add({"type": "content_block_delta", "index": 0, "delta": delta})
    builder.add({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {}})
    return builder.build()


def test_call_cut_by_the_token_limit_shows_what_there_is_of_it() -> None:
    assert built('{"path": "a.py", "content": "def f(', "max_tokens").tool_calls[0].input["path"] == "a.py"
    assert built("][", "max_tokens").tool_calls[0].input == {}


@pytest.mark.parametrize("text", ['{"path": ', "[1]", "nonsense"])
def test_malformed_tool_input_is_a_failure_that_may_pass(text: str) -> None:
    with pytest.raises(ProviderError, match="Write") as caught:
        built(text, "tool_use")
    assert caught.value.passing


def test_deltas_of_unknown_kinds_grow_their_block() -> None:
    builder = ReplyBuilder()
    start = {"type": "compaction", "content": None}
    builder.add({"type": "content_block_start", "index": 0, "content_block": start})
    for piece in ("a", "b"):
        delta = {"type": "compaction_delta", "content": piece}
        builder.add({"type": "content_block_delta", "index": 0, "delta": delta})
    builder.add({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None})
    assert builder.build().content[0].model_dump() == {"type": "compaction", "content": "ab"}
