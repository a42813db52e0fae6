"""One turn: mail in, request out, answer in, tools run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import anyio

from ..chat import ModelReply, ModelRequest, ToolResult
from ..events import MailDelivered, Replied, TextProgress, ToolCalled, ToolFinished, Warned
from ..mailbox import reminder
from ..providers.base import complete
from .conversation import PendingCall
from .records import Source
from .run import Flag, Run

CUT_OFF = (
    "not run: your answer was cut off at the limit of tokens, so this call may be incomplete. "
    "Make smaller calls, for instance with less text in each."
)


async def take_turn(run: Run) -> bool:
    """Take one turn; False when there was nothing to answer, so that the run is over.

    :raises RunCut: when the run is to end here.
    :raises ProviderError: when the model did not answer; everything up to its request is in the transcript.
    """
    run.check_stop()
    await deliver(run)
    if not run.conversation.awaits_model:
        return False
    run.limit.spend()
    reply = await _ask(run)
    calls = await run.conversation.add_reply(reply)
    run.publish(
        Replied,
        content=tuple(block.model_dump(mode="json") for block in reply.content),
        text=reply.text,
        stop_reason=reply.stop_reason,
        usage=reply.usage.model_dump(),
        model=reply.model,
    )
    if reply.stop_reason == "max_tokens":
        await refuse(run, calls, CUT_OFF)
    else:
        await _run_tools(run, calls)
    return True


async def deliver(run: Run) -> None:
    """Put what is new into the conversation: what the person said, then mail.

    Before a request all unread mail goes in; when the model has finished, only mail that wakes begins another turn.
    """
    conversation = run.conversation
    while run.inputs:
        await conversation.add_input(Source.USER, run.inputs[0])
        run.inputs.popleft()
    if not conversation.awaits_model and not (await run.mailbox.peek()).waking:
        return
    found = await run.mailbox.collect(seen=conversation.delivered)
    if not found.messages:
        if found.trouble:
            run.publish(Warned, text=found.trouble)
        return
    team = run.services.registry.team
    block = reminder.render(
        found.messages,
        name_of=team.display_name,
        now=datetime.now(UTC),
        budget_tokens=run.reminder_tokens,
        trouble=found.trouble,
    )
    await conversation.add_input(Source.MAIL, block.text, mail=block.message_ids, hops=block.hops)
    run.publish(MailDelivered, message_ids=tuple(block.message_ids))
    if trouble := await run.mailbox.acknowledge(block.indices):
        run.publish(Warned, text=trouble)


async def _ask(run: Run) -> ModelReply:
    who = run.identity
    request = ModelRequest(
        model=who.model or run.provider.default_model,
        system=who.system,
        messages=run.conversation.messages,
        tools=run.toolbox.specs,
        max_tokens=run.max_tokens,
        agent=who.name,
    )
    reply = await complete(run.provider, request, lambda delta: run.publish(TextProgress, text=delta.text))
    run.accepted += 1
    return reply


async def _run_tools(run: Run, calls: Sequence[PendingCall]) -> None:
    """Run the calls of one answer: all at once when none changes anything, else in their order."""
    if len(calls) > 1 and run.toolbox.all_read_only([pending.call for pending in calls]):
        async with anyio.create_task_group() as group:
            for pending in calls:
                group.start_soon(run_tool, run, pending)
        return
    for pending in calls:
        run.check_stop()
        await run_tool(run, pending)


async def run_tool(run: Run, pending: PendingCall, repeated: bool = False) -> None:
    """Run one call, and keep its result."""
    call = pending.call
    sent = Flag()
    run.publish(ToolCalled, call_id=call.id, tool=call.name, input=call.input)
    result = await run.toolbox.run(run.context(pending, repeated=repeated, on_sent=sent), call)
    await _keep(run, pending, result, sent_mail=sent.raised)


async def refuse(run: Run, calls: Sequence[PendingCall], why: str) -> None:
    """Answer calls that do not run with the reason."""
    for pending in calls:
        await _keep(run, pending, ToolResult(tool_use_id=pending.call.id, content=why, is_error=True))


async def _keep(run: Run, pending: PendingCall, result: ToolResult, *, sent_mail: bool = False) -> None:
    call = pending.call
    await run.conversation.add_result(result, tool=call.name, sent_mail=sent_mail)
    run.publish(ToolFinished, call_id=call.id, tool=call.name, content=result.content, is_error=result.is_error)
