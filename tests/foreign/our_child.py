"""A process of ours at work on a mailbox of another program.

Arguments: ``write FORMAT ROOT NAME COUNT LOCK_WAIT``, ``read FORMAT ROOT``, ``stop FORMAT ROOT``,
``lock FORMAT PATH ROUNDS`` or ``all ROOT``. Each prints ``ready`` and waits for a line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from pseudoclaude.errors import MailboxBusyError
from pseudoclaude.ids import AgentId
from pseudoclaude.mail import Message
from pseudoclaude.mailbox.foreign import BoxStore, ClaudeInboxStore
from pseudoclaude.mailbox.foreign.locks import FileLock, FolderLock, Waiter
from pseudoclaude.storage.system import System

LEAD = AgentId("lead")
STORES = {"box": BoxStore, "claude": ClaudeInboxStore}
LOCKS = {"box": FileLock, "claude": FolderLock}


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201


def ready() -> None:
    say("ready")
    sys.stdin.readline()


async def write(format_: str, root: str, name: str, count: str, lock_wait: str) -> None:
    store = STORES[format_](root, durability="os", lock_wait=float(lock_wait))
    sender = AgentId(name)
    ready()
    for number in range(int(count)):
        text = f"{name}-{number}"
        try:
            await store.write(LEAD, Message(sender=sender, recipient=LEAD, summary=text, content=text))
        except MailboxBusyError:
            say("refused", text)
        else:
            say("stored", text)


async def read(format_: str, root: str) -> None:
    """Read and mark until a message says so; nothing once marked may be unread again."""
    store = STORES[format_](root, durability="os")
    marked: set[str] = set()
    ready()
    while True:
        unread = await store.read_unread(LEAD)
        again = marked & {item.message.content for item in unread}
        assert not again, again
        await store.mark_read(LEAD, [item.index for item in unread])
        marked |= {item.message.content for item in unread}
        if any(item.message.content == "stop" for item in unread):
            return
        await anyio.lowlevel.checkpoint()


def lock(format_: str, path: str, rounds: str) -> None:
    """Be inside once a round, and find nobody else there."""
    made = LOCKS[format_](System(), path, stale_after=10, unchanged_for=0.01)
    ready()
    for _ in range(int(rounds)):
        waiter = Waiter(made)
        while (hold := waiter.attempt()) is None:
            time.sleep(0.002)
        os.mkdir(path + ".inside")
        os.rmdir(path + ".inside")
        hold.release()
        say("done")
        sys.stdin.readline()


async def stop(format_: str, root: str) -> None:
    """Tell the reader to stop."""
    ready()
    await STORES[format_](root).write(LEAD, Message(sender=LEAD, recipient=LEAD, summary="stop", content="stop"))
    say("stored", "stop")


async def everything(root: str) -> None:
    """All that a store does, with letters beyond ASCII."""
    ready()
    for format_, kind in STORES.items():
        store = kind(os.path.join(root, format_), durability="os")
        agent = AgentId("zoë-日本")
        text = "é 日本 \U0001f600"
        await store.create(agent)
        for _ in range(2):
            await store.write(agent, Message(sender=agent, recipient=agent, summary=text, content=text))
        (first, second) = await store.read_unread(agent)
        assert first.message.content == second.message.content == text
        await store.mark_read(agent, [first.index])
        assert await store.agents() == [agent]
        say(json.dumps([format_, (await store.peek(agent)).unread]))


if __name__ == "__main__":
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "lock":
        lock(*arguments)
    else:
        work: dict[str, Callable[..., Awaitable[None]]]
        work = {"write": write, "read": read, "all": everything, "stop": stop}
        anyio.run(work[verb], *arguments)
