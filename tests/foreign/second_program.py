"""Another program that writes to the same mailboxes, with its own lock code and nothing of ours.

Arguments: format (``box`` or ``claude``), folder, mailbox, own name, count, and ``rename`` or ``in-place``. Prints
``ready``, waits for a line, then prints ``stored NAME-N`` or ``refused NAME-N`` for each message.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

STALE = 10.0


def waits(format_: str) -> Iterator[float]:
    if format_ == "box":
        yield from (random.uniform(0.005, 0.1) for _ in range(9))
    else:
        yield from (0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.1, 0.1, 0.1, 0.1)


def make_lock(format_: str, path: str) -> None:
    if format_ == "box":
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, datetime.now(UTC).isoformat().encode())
        os.close(descriptor)
    else:
        os.mkdir(path)


def drop_lock(format_: str, path: str) -> None:
    if format_ == "box":
        os.remove(path)
    else:
        os.rmdir(path)


def lock(format_: str, path: str) -> bool:
    tries = waits(format_)
    while True:
        try:
            make_lock(format_, path)
            return True
        except FileExistsError:
            try:
                if time.time() - os.stat(path).st_mtime > STALE:
                    drop_lock(format_, path)
            except FileNotFoundError:
                pass
        delay = next(tries, None)
        if delay is None:
            return False
        time.sleep(delay)


def load(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def append(format_: str, path: str, name: str, text: str, way: str) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    data = load(path)
    if format_ == "box":
        data = data or {"messages": []}
        messages = data["messages"]
        messages.append(
            {
                "from": name,
                "to": "lead",
                "type": "text",
                "summary": text,
                "content": text,
                "timestamp": now,
                "read": False,
            }
        )
        known = ("from", "to", "type", "summary", "content", "payload", "timestamp", "read")
        data = {"messages": [{key: entry[key] for key in known if key in entry} for entry in messages]}
        written = json.dumps(data, indent=2) + "\n"
        temporary = os.path.join(os.path.dirname(path), f".tmp-{random.randrange(10**9)}.json")
    else:
        data = data or []
        data.append({"from": name, "text": text, "timestamp": now, "color": "blue", "type": "message", "read": False})
        written = json.dumps(data, indent=2)
        temporary = f"{path}.tmp.{random.randrange(16**8):08x}"
    if way == "in-place":
        with open(path, "w", encoding="utf-8") as file:
            for start in range(0, len(written), 1000):
                file.write(written[start : start + 1000])
                file.flush()
        return
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(written)
    os.rename(temporary, path)


def say(*words: str) -> None:
    print(*words, flush=True)  # noqa: T201


def main(format_: str, folder: str, mailbox: str, name: str, count: str, way: str) -> None:
    path = os.path.join(folder, f"{mailbox}.json")
    say("ready")
    sys.stdin.readline()
    for number in range(int(count)):
        text = f"{name}-{number}"
        if not lock(format_, path + ".lock"):
            say("refused", text)
            continue
        append(format_, path, name, text, way)
        drop_lock(format_, path + ".lock")
        say("stored", text)


if __name__ == "__main__":
    main(*sys.argv[1:])
