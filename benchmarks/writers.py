"""Many processes that write to one mailbox at the same time.

Run as a program it is the starter: it imports everything once, forks the writers, lets them all begin at one moment
and prints what each measured.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from .peers import PEERS, Peer
from .table import Row
from .timing import messages, percentile

_SLOW = 5.0
"""Seconds after which a system is not asked again."""


async def run(folder: Path, counts: Sequence[int], each: int, *, rounds: int) -> list[Row]:
    """The rows of ``writers``: all systems in turn, some rounds of it, and the latencies of all rounds together."""
    rows: list[Row] = []
    for count in counts:
        case = f"{count} x {each}"
        found: dict[type[Peer], list[dict[str, float]]] = {}
        samples: dict[type[Peer], list[float]] = {peer: [] for peer in PEERS}
        for number in range(rounds):
            for peer in PEERS:
                if peer.missing() or any(one["seconds"] > _SLOW for one in found.get(peer, ())):
                    continue
                place = folder / f"{peer.__name__}-{count}-{number}"
                place.mkdir()
                figures, seconds = await _one(peer, place, count, each)
                found.setdefault(peer, []).append(figures)
                samples[peer] += seconds
        for peer in PEERS:
            if peer not in found:
                rows.append(Row("writers", case, peer.name, absent=peer.missing()))
                continue
            sums = {name: sum(one[name] for one in found[peer]) for name in ("lost", "failed", "doubled")}
            rates = [one["seconds"] / one["stored"] if one["stored"] else float("inf") for one in found[peer]]
            latencies = samples[peer] or [float("nan")]
            quantiles = {name: percentile(latencies, share) for name, share in _QUANTILES.items()}
            rows.append(Row("writers", case, peer.name, {"each": percentile(rates, 0.5), **quantiles, **sums}))
    return rows


_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "worst": 1.0}


async def _one(peer: type[Peer], folder: Path, count: int, each: int) -> tuple[dict[str, float], list[float]]:
    mailbox = peer(folder)
    await mailbox.open()  # whoever makes tables or folders does it before the race
    mailbox.close()
    os.sync()
    command = [sys.executable, "-m", "benchmarks.writers", peer.__name__, str(folder), str(count), str(each)]
    results = _results(command)
    acknowledged = [one for result in results for one in result["stored"]]
    mailbox = peer(folder)
    await mailbox.open()
    stored = Counter(await mailbox.ids())
    mailbox.close()
    figures = {
        "seconds": max(result["ended"] for result in results) - min(result["began"] for result in results),
        "stored": float(len(acknowledged)),
        "failed": float(sum(result["failed"] for result in results)),
        "lost": float(sum(1 for one in acknowledged if one not in stored)),
        "doubled": float(sum(times - 1 for times in stored.values())),
    }
    return figures, [second for result in results for second in result["seconds"]]


def _results(command: Sequence[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _write(peer: type[Peer], folder: Path, each: int, ready: int, go: int) -> dict[str, object]:
    mailbox = peer(folder)
    await mailbox.open()
    letters = list(messages(each))
    for letter in letters:
        mailbox.prepare(letter)
    stored: list[str] = []
    seconds: list[float] = []
    failed = 0
    os.write(ready, b".")
    os.read(go, 1)
    began = time.monotonic()
    for letter in letters:
        at = time.perf_counter()
        try:
            await mailbox.append(letter)
        except Exception:  # whatever it is: the sender was told that it is not stored
            failed += 1
        else:
            stored.append(letter.id)
        seconds.append(time.perf_counter() - at)
    ended = time.monotonic()
    return {"began": began, "ended": ended, "failed": failed, "stored": stored, "seconds": seconds}


def _start(peer: type[Peer], folder: Path, count: int, each: int) -> None:
    ready_read, ready = os.pipe()
    go, go_write = os.pipe()
    gc.freeze()
    readers: list[int] = []
    for _ in range(count):
        result, result_write = os.pipe()
        if os.fork() == 0:
            os.close(go_write)
            found = anyio.run(partial(_write, peer, folder, each, ready, go))
            with os.fdopen(result_write, "w") as file:
                file.write(json.dumps(found) + "\n")
            os._exit(0)
        os.close(result_write)
        readers.append(result)
    waiting = count
    while waiting:
        waiting -= len(os.read(ready_read, waiting))
    os.close(go_write)  # all of them are told at once
    for reader in readers:
        with os.fdopen(reader) as file:
            sys.stdout.write(file.read())


if __name__ == "__main__":
    _start(next(peer for peer in PEERS if peer.__name__ == sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]))
