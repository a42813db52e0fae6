"""A team with a task board: Ben's task waits for Ann's, and he is woken when it can start.

Functions play the models. Each looks at the conversation and decides on the next step, as a model would.
"""

import anyio

from pseudoclaude import FunctionProvider, Team
from pseudoclaude.chat import ModelRequest, ToolCall, ToolResult
from pseudoclaude.events import MailSent, TaskChanged
from pseudoclaude.testing import call

WORK = {"ann": "t1", "ben": "t2"}


def lead(request: ModelRequest) -> list[ToolCall] | str:
    """Spawn two members, give each a task, and answer when the second is done."""
    asked = calls_made(request)
    if not asked:
        return [
            call("Agent", name=name, prompt="Do the task you are given, then mail lead.", description="works")
            for name in WORK
        ]
    if len(asked) == 2:
        return [
            call("TaskCreate", subject="Build it", owner="ann"),
            call("TaskCreate", subject="Test it", owner="ben", blocked_by=["t1"]),
        ]
    return "It is built and tested." if "Tested" in request.messages[-1].text else ""


def member(request: ModelRequest) -> ToolCall | str:
    """Start the task when the board allows it, complete it, report."""
    task = WORK[request.agent]
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        if last.is_error:
            return ""  # it waits for another task: mail comes when it can start
        step = [made.input.get("status", made.name) for made in calls_made(request)][-1]
        if step == "in_progress":
            return call("TaskUpdate", task_id=task, status="done")
        if step == "done":
            return call("SendMessage", to="lead", summary={"t1": "Built", "t2": "Tested"}[task], content="It works.")
        return "Done."
    return call("TaskUpdate", task_id=task, status="in_progress") if task in request.messages[-1].text else ""


def calls_made(request: ModelRequest) -> list[ToolCall]:
    """Every call in the conversation so far."""
    return [block for message in request.messages for block in message.content if isinstance(block, ToolCall)]


def answer(request: ModelRequest) -> list[ToolCall] | ToolCall | str:
    return lead(request) if request.agent == "lead" else member(request)


async def main() -> None:
    async with Team("board", provider=FunctionProvider(answer)) as team:
        events = team.events()
        result = await team.run("Build and test it.")
    async for event in events:
        if isinstance(event, TaskChanged):
            print(f"task {event.task_id} [{event.status}] {event.subject}, owner {event.owner}")
        elif isinstance(event, MailSent) and event.type == "text":
            print(f"{event.agent} -> {event.recipient}: {event.summary}")
    print(result.text)


if __name__ == "__main__":
    anyio.run(main)
