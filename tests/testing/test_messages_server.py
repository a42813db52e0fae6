from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import anyio
import pytest

from pseudoclaude.chat import JsonObject, ModelRequest, OtherBlock
from pseudoclaude.testing import Fault, MessagesServer, call, serve_provider

BODY: JsonObject = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}


def post(server: MessagesServer, body: object, path: str = "/v1/messages") -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(urlsplit(server.base_url).netloc, timeout=5)
    try:
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body))
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.headers.items()}, response.read()
    finally:
        connection.close()


def events(data: bytes) -> Iterator[JsonObject]:
    for part in data.decode().split("\n\n")[:-1]:
        name, _, payload = part.partition("\n")
        event = json.loads(payload.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        yield event


def test_whole_answer_has_the_shape_of_a_message() -> None:
    with MessagesServer(lambda body: ["Looking.", call("Read", file_path="a")]) as server:
        status, _, data = post(server, BODY)
    message = json.loads(data)
    assert (status, message["type"], message["role"], message["model"]) == (200, "message", "assistant", "m")
    assert (message["stop_reason"], [block["type"] for block in message["content"]]) == (
        "tool_use",
        ["text", "tool_use"],
    )
    assert server.requests == [BODY]


def test_stream_has_the_events_of_the_api_in_order() -> None:
    future = OtherBlock.model_validate({"type": "future", "data": {"a": 1}})
    with MessagesServer(lambda body: ["a b", future]) as server:
        _, headers, data = post(server, {**BODY, "stream": True})
    seen = list(events(data))
    assert headers["content-type"] == "text/event-stream"
    assert [event["type"] for event in seen] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert seen[6]["content_block"] == {"type": "future", "data": {"a": 1}}


def test_tokens_can_be_counted() -> None:
    with MessagesServer(lambda body: "x") as server:
        status, _, data = post(server, BODY, "/v1/messages/count_tokens")
    assert status == 200
    assert json.loads(data)["input_tokens"] > 0
    assert server.requests == []


def test_fault_carries_status_headers_and_body() -> None:
    with MessagesServer(lambda body: Fault.http(429, "slow down", headers={"retry-after": "7"})) as server:
        status, headers, data = post(server, BODY)
    assert (status, headers["retry-after"]) == (429, "7")
    assert json.loads(data) == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


def test_error_event_comes_after_the_given_number_of_deltas() -> None:
    with MessagesServer(lambda body: Fault.error_event(turn="a b c d", after=3)) as server:
        _, _, data = post(server, {**BODY, "stream": True})
    kinds = [event["type"] for event in events(data)]
    assert kinds.count("content_block_delta") == 3
    assert kinds[-1] == "error"


def test_error_event_of_an_answer_that_is_not_streamed_is_a_status() -> None:
    with MessagesServer(lambda body: Fault.error_event()) as server:
        assert post(server, BODY)[0] == 529


@pytest.mark.parametrize("fault", [Fault.reset(), Fault.drop(after=None), Fault.drop("a b", after=1), Fault.cut()])
def test_broken_connection(fault: Fault) -> None:
    with MessagesServer(lambda body: fault) as server, pytest.raises((OSError, HTTPException)):
        post(server, BODY)
    if fault.kind == "drop":
        with MessagesServer(lambda body: fault) as server, pytest.raises((OSError, HTTPException)):
            post(server, {**BODY, "stream": True})


@pytest.mark.parametrize(("body", "path", "status"), [(b"{", "/v1/messages", 400), (BODY, "/v1/other", 404)])
def test_request_that_is_none_is_refused(body: object, path: str, status: int) -> None:
    with MessagesServer(lambda body: "x") as server:
        assert post(server, body, path)[0] == status


def test_served_function_sees_the_request_and_may_be_async() -> None:
    seen: list[ModelRequest] = []

    async def answer(request: ModelRequest) -> str:
        await anyio.lowlevel.checkpoint()
        seen.append(request)
        return "async"

    with serve_provider(answer) as server:
        assert json.loads(post(server, {**BODY, "system": "s"})[2])["content"] == [{"type": "text", "text": "async"}]
    assert (seen[0].system, seen[0].messages[0].text, seen[0].agent) == ("s", "hi", "")


def test_answer_that_crashes_fails_the_test() -> None:
    def crash(body: JsonObject) -> str:
        raise ZeroDivisionError

    def serve() -> None:
        with MessagesServer(crash) as server:
            status, headers, _ = post(server, BODY)
            assert (status, headers["x-should-retry"]) == (500, "false")

    with pytest.raises(ZeroDivisionError):
        serve()


def test_listens_on_loopback_only() -> None:
    with MessagesServer(lambda body: "x") as server:
        assert urlsplit(server.base_url).hostname == "127.0.0.1"
