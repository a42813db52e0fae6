"""The HTTP side of the test server: sockets, threads, and connections broken on purpose."""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

from ..chat import JsonObject, ModelReply
from ..providers.scripted import reply_of
from .faults import Fault
from .sse import encode_event, message_json, stream_events

_JOIN_SECONDS = 5.0
_NO_LINGER = struct.pack("ii", 1, 0)


class LoopbackServer:
    """Answers each request in a thread; ``left`` is released whenever a client leaves a stalled answer.

    :param take: told of each message request, before it is answered.
    :param decide: gives the reply or the fault; called in the request's thread.
    :param errors: gets what goes wrong in answering, except for clients that leave.
    """

    def __init__(
        self,
        take: Callable[[JsonObject, dict[str, str]], None],
        decide: Callable[[JsonObject], ModelReply | Fault],
        errors: list[Exception],
    ) -> None:
        self.take = take
        self.decide = decide
        self.errors = errors
        self.left = threading.Semaphore(0)
        self.closing, self._close = socket.socketpair()
        self._http = _HttpServer(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """Where it listens; from the moment it is made."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """End every answer, and close every socket."""
        self._http.shutdown()
        self._thread.join(_JOIN_SECONDS)
        self._close.close()
        self._http.end_requests()
        self._http.server_close()
        self.closing.close()


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: LoopbackServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner
        self._threads_by_connection: dict[socket.socket, threading.Thread] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._threads_by_connection[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._threads_by_connection.pop(request, None)

    def end_requests(self) -> None:
        """Shut down what clients hold open, and wait for the threads behind it."""
        for connection, thread in list(self._threads_by_connection.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(_JOIN_SECONDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.owner.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._fail(Fault.http(404, f"there is no {self.path}"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self._fail(Fault.http(400, "the body is no JSON object"))
        elif path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": max(1, len(raw) // 4)})
        elif path == "/v1/messages":
            self._answer(body)
        else:
            self._fail(Fault.http(404, f"there is no {path}"))

    def _answer(self, body: JsonObject) -> None:
        owner = self.server.owner
        owner.take(body, {name.lower(): value for name, value in self.headers.items()})
        outcome = owner.decide(body)
        if isinstance(outcome, ModelReply):
            if body.get("stream"):
                self._stream(outcome, None)
            else:
                self._send(200, message_json(outcome, _message_id()))
        elif outcome.kind == "status":
            self._fail(outcome)
        elif outcome.kind == "error" and not body.get("stream"):
            self._fail(replace(outcome, status=529))
        elif outcome.after is None or not body.get("stream"):
            self._break(outcome, begun=False)
        else:
            self._stream(reply_of(outcome.turn, body.get("model", "")), outcome)

    def _stream(self, reply: ModelReply, fault: Fault | None) -> None:
        self.close_connection = True
        self._headers(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        deltas = 0
        for event in stream_events(reply, _message_id()):
            if event["type"] == "content_block_delta":
                deltas += 1
            if fault and (event["type"] == "message_delta" or deltas > (fault.after or 0)):
                self._break(fault, begun=True)
                return
            self._event(event)
        self._chunk(b"")

    def _break(self, fault: Fault, *, begun: bool) -> None:
        self.close_connection = True
        if fault.kind == "error":
            self._event(_error_json(fault))
        if fault.kind in ("error", "cut") and begun:
            self._chunk(b"")
        elif fault.kind == "stall":
            self._stall(fault.ping_seconds if begun else None)
        elif fault.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.rfile.close()  # it keeps the socket open
            self.connection.close()

    def _stall(self, ping_seconds: float | None) -> None:
        owner = self.server.owner
        while True:
            ready, _, _ = select.select([self.connection, owner.closing], [], [], ping_seconds)
            if ready:
                break
            try:
                self._event({"type": "ping"})
            except OSError:
                break
        if owner.closing not in ready:
            owner.left.release()

    def _fail(self, fault: Fault) -> None:
        self._send(fault.status, _error_json(fault), dict(fault.headers))

    def _send(self, status: int, value: JsonObject, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.close_connection = True
        self._headers(status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})})
        self.wfile.write(data)

    def _headers(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"request-id": f"req_{uuid4().hex}", "connection": "close", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, event: JsonObject) -> None:
        self._chunk(encode_event(event))

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()


def _message_id() -> str:
    return f"msg_{uuid4().hex}"


def _error_json(fault: Fault) -> JsonObject:
    return {"type": "error", "error": {"type": fault.error_type, "message": fault.message}}
