"""A Redis server, whose blocking read is the quickest wake-up that one would pick instead."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any


class RedisServer:
    """A server of our own on a Unix socket; XADD by one client, XREAD BLOCK by another. Keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @staticmethod
    def missing() -> str:
        """Why it cannot be measured here; empty when it can."""
        if shutil.which("redis-server") is None:
            return "redis-server is not installed"
        if importlib.util.find_spec("redis") is None:
            return "not installed (pip install redis)"
        return ""

    def start(self) -> None:
        """Start the server, and connect."""
        command = ["redis-server", "--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self._socket.parent)
        until = time.monotonic() + 10
        while not self._socket.exists():
            if time.monotonic() > until:
                raise TimeoutError("redis-server did not start")
            time.sleep(0.01)
        self._connect()

    def push(self, data: bytes) -> None:
        """Store a message."""
        self._client.xadd("reader", {"body": data})

    def read(self) -> None:
        """Print that it waits, then the time of each wake-up, until killed."""
        self._connect()
        last: Any = "$"
        os.write(1, b"waiting\n")
        while True:
            for _, items in self._client.xread({"reader": last}, block=0):
                last = items[-1][0]
                os.write(1, b"%.9f\n" % time.monotonic())

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _connect(self) -> None:
        self._client = importlib.import_module("redis").Redis(unix_socket_path=str(self._socket), protocol=2)
        self._client.ping()
