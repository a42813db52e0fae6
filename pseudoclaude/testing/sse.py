"""A reply as the Messages API sends it: one JSON object, or the events of a stream. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..chat import JsonObject, ModelReply
from ..providers.scripted import words

_JSON_PIECE = 16


def message_json(reply: ModelReply, message_id: str) -> JsonObject:
    """The body of an answer that is not streamed."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": [block.model_dump() for block in reply.content],
        "stop_reason": reply.stop_reason,
        "stop_sequence": None,
        "usage": reply.usage.model_dump(),
    }


def stream_events(reply: ModelReply, message_id: str) -> Iterator[JsonObject]:
    """The events in order, a ping among them. Blocks of a type unknown here are sent whole, when they start."""
    whole = message_json(reply, message_id)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 0}}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        empty, deltas = _taken_apart(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": reply.stop_reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": reply.usage.output_tokens}}
    yield {"type": "message_stop"}


def encode_event(event: JsonObject) -> bytes:
    """One event in the form of server-sent events."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _taken_apart(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": word} for word in words(block["text"])]
    if block["type"] == "tool_use":
        text = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        pieces = [text[at : at + _JSON_PIECE] for at in range(0, len(text), _JSON_PIECE)] or [""]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": word} for word in words(block.get("thinking", ""))]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    return block, []
