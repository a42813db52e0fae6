"""A process that runs a team whose members are idle until mail comes; prints a line for each message it is shown.

Arguments: the folder of the team. Each line is ``<agent> <message id>``; the first one is ``ready``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from pseudoclaude import FunctionProvider, Team
from pseudoclaude.chat import ModelRequest, ToolCall
from pseudoclaude.events import Event, MailDelivered
from pseudoclaude.testing import call


def answer(request: ModelRequest) -> list[ToolCall] | str:
    """The lead spawns two members; everybody else has nothing to say."""
    if request.agent == "lead" and len(request.messages) == 1:
        return [call("Agent", name=name, prompt="Wait for mail.", description="waits") for name in ("alice", "bob")]
    return ""


def show(event: Event) -> None:
    """Tell the parent what an agent is shown."""
    if isinstance(event, MailDelivered):
        for message_id in event.message_ids:
            sys.stdout.write(f"{event.agent} {message_id}\n")
        sys.stdout.flush()


async def main(folder: Path) -> None:
    async with Team("held", folder, provider=FunctionProvider(answer), listeners=[show]) as team:
        await team.run("Gather your members and wait.")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
