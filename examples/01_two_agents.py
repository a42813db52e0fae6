"""Two agents: a lead spawns a member, the member reports by mail, the lead answers.

A scripted provider plays the model, so this runs without a key: `python examples/01_two_agents.py`.
"""

import anyio

from pseudoclaude import ScriptedProvider, Team
from pseudoclaude.testing import call

SCRIPT = {
    "lead": [
        [call("Agent", name="alice", prompt="Greet the lead by mail.", description="greets")],
        "Alice is at work; I wait for her mail.",
        "Alice says: good morning!",
    ],
    "alice": [
        [call("SendMessage", to="lead", summary="Greetings", content="Good morning!")],
        "Sent.",
    ],
}


async def main() -> None:
    async with Team("two-agents", provider=ScriptedProvider(SCRIPT)) as team:
        result = await team.run("Have somebody greet me.")
        print(result.text)
        print("everything is in", team.folder)


if __name__ == "__main__":
    anyio.run(main)
