"""Appending to a mailbox that holds N messages, and taking 10 unread of N."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from .peers import PEERS, Durability, Peer
from .table import Row
from .timing import Cell, in_turn, messages

_TAKEN = 10
_GROWING = 30
"""Appends to one mailbox of a system whose cost follows its length."""


async def run(folder: Path, parts: Sequence[str], sizes: Sequence[int], *, quick: bool) -> list[Row]:
    """The rows of ``append`` and ``take``, whichever is wanted; both use the same mailboxes."""
    rows: list[Row] = []
    for durability in ("os", "disk"):
        rows += await _class(folder, parts, sizes, durability, quick=quick)
    return rows


async def _class(
    folder: Path, parts: Sequence[str], sizes: Sequence[int], durability: Durability, *, quick: bool
) -> list[Row]:
    """All systems of one durability and all sizes in one rotation, so that sizes can be compared as well."""
    peers = [peer for peer in PEERS if peer.durability == durability]
    opened: dict[tuple[type[Peer], int], Peer] = {}
    for peer in peers:
        for size in sizes if not peer.missing() else ():
            if size <= peer.most:
                place = folder / f"{peer.__name__}-{size}"
                place.mkdir()
                opened[peer, size] = mailbox = peer(place)
                await mailbox.open()
                await mailbox.fill(messages(size))
    os.sync()  # what the filling left to be written would slow whoever syncs first
    rows: list[Row] = []
    pace = {"rounds": 4, "batch": 5, "budget": 0.25} if quick else {"rounds": 40, "batch": 20, "budget": 2.0}
    for part, call in (("take", _take), ("append", _append)):
        if part not in parts:
            continue
        cells = {
            key: Cell(partial(call, mailbox), most=_GROWING if mailbox.grows else 1 << 30)
            for key, mailbox in opened.items()
        }
        await in_turn(list(cells.values()), rounds=int(pace["rounds"]), batch=int(pace["batch"]), budget=pace["budget"])
        for peer in peers:
            for size in sizes:
                case = f"{durability}, N={size:,}"
                if (peer, size) in cells:
                    rows.append(Row(part, case, peer.name, cells[peer, size].figures()))
                else:
                    rows.append(Row(part, case, peer.name, absent=peer.missing() or "left out"))
    for mailbox in opened.values():
        mailbox.close()
    return rows


async def _append(mailbox: Peer) -> float:
    (message,) = messages(1)
    mailbox.prepare(message)
    began = time.perf_counter()
    await mailbox.append(message)
    return time.perf_counter() - began


async def _take(mailbox: Peer) -> float:
    for message in messages(_TAKEN):
        mailbox.prepare(message)
        await mailbox.append(message)
    began = time.perf_counter()
    await mailbox.take(_TAKEN)
    return time.perf_counter() - began
