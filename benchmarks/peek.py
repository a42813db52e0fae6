"""Looking at 1,000 mailboxes, and what waiting for mail costs while none comes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio

from pseudoclaude.ids import AgentId
from pseudoclaude.mailbox.native import LogStore

from .peers.sqlite import INSERT, SCHEMA
from .table import Row
from .timing import Cell, in_turn, messages

_HISTORY = 20
_UNREAD_IN = 10
"""One mailbox in so many has an unread message; the others are wholly read."""


async def run(folder: Path, boxes: int, *, rounds: int, idle: float) -> list[Row]:
    """The rows of ``peek`` and ``idle``."""
    agents = [AgentId(f"agent-{number:04d}") for number in range(boxes)]
    store = LogStore(folder / "ours", durability="os")
    plain = folder / "original"
    plain.mkdir()
    db = sqlite3.connect(folder / "mail.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(SCHEMA)
    db.execute("BEGIN")
    for number, agent in enumerate(agents):
        await store.create(agent)
        unread = 1 if number % _UNREAD_IN == 0 else 0
        for index, message in enumerate(messages(_HISTORY + unread)):
            await store.write(agent, message)
            db.execute(INSERT, (agent, message.id, message.to_json(), int(index < _HISTORY)))
        await store.mark_read(agent, range(_HISTORY))
        letters = enumerate(messages(_HISTORY + unread))
        entries = [{**letter.model_dump(mode="json"), "read": index < _HISTORY} for index, letter in letters]
        (plain / f"{agent}.json").write_text(json.dumps({"messages": entries}, indent=2))
    db.execute("COMMIT")
    expected = len(range(0, boxes, _UNREAD_IN))

    async def ours(cold: bool) -> float:
        looking = LogStore(folder / "ours", durability="os") if cold else store
        began = time.perf_counter()
        waiting = sum([(await looking.peek(agent)).unread for agent in agents])
        taken = time.perf_counter() - began
        assert waiting == expected
        return taken

    async def sqlite() -> float:
        began = time.perf_counter()
        found = db.execute("SELECT box, count(*) FROM mail WHERE read = 0 GROUP BY box").fetchall()
        taken = time.perf_counter() - began
        assert len(found) == expected
        return taken

    async def original() -> float:
        began = time.perf_counter()
        waiting = 0
        for agent in agents:
            box = json.loads((plain / f"{agent}.json").read_text(encoding="utf-8"))
            waiting += sum(not entry["read"] for entry in box["messages"])
        taken = time.perf_counter() - began
        assert waiting == expected
        return taken

    await ours(cold=False)
    cells = {
        "ours, warm": Cell(partial(ours, cold=False)),
        "ours, cold (a new store)": Cell(partial(ours, cold=True)),
        "SQLite, one indexed query": Cell(sqlite),
        "original design, reading every JSON": Cell(original),
    }
    await in_turn(list(cells.values()), rounds=rounds, batch=1, budget=10.0)
    db.close()
    case = f"{boxes:,} mailboxes"
    rows = [Row("peek", case, name, cell.figures()) for name, cell in cells.items()]
    return rows + _idle(folder, case, idle)


def _idle(folder: Path, case: str, seconds: float) -> list[Row]:
    rows = []
    for name in _WAYS:
        command = [sys.executable, "-m", "benchmarks.peek", name, str(folder), str(seconds)]
        done = subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).parents[1])
        rows.append(Row("idle", case, name, {"share": float(done.stdout)}))
    return rows


async def _wait_for_ours(folder: Path, seconds: float, *, notify: bool) -> float:
    store = LogStore(folder / "ours", notify=notify)
    async with store.watch() as names:
        with anyio.move_on_after(seconds / 5):
            async for _ in names:  # each is named once at the start
                pass
        began = time.process_time()
        with anyio.move_on_after(seconds):
            await _next(names)
        return (time.process_time() - began) / seconds


async def _next(names: AsyncIterator[AgentId]) -> None:
    await anext(names)


async def _poll_original(folder: Path, seconds: float) -> float:
    paths: Sequence[Path] = sorted((folder / "original").iterdir())
    began, until = time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until:
        for path in paths:
            json.loads(path.read_text(encoding="utf-8"))
        await anyio.sleep(1.0)
    return (time.process_time() - began) / seconds


_WAYS: Mapping[str, Callable[[Path, float], Awaitable[float]]] = {
    "ours, watching": partial(_wait_for_ours, notify=True),
    "ours, polling only": partial(_wait_for_ours, notify=False),
    "original design, reading every JSON each second": _poll_original,
}


if __name__ == "__main__":
    print(anyio.run(_WAYS[sys.argv[1]], Path(sys.argv[2]), float(sys.argv[3])))
