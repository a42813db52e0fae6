"""One turn: mail in, request out, answer in, tools run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import anyio

from ..chat import ModelReply, ModelRequest, ToolResult
from ..errors import MailError, ProviderError, StorageError
from ..events import MailDelivered, Replied, TextProgress, ToolCalled, ToolFinished, Warned
from ..mail import IdleStatus
from ..mailbox import reminder
from ..providers.base import complete
from .history import CUT_SHORT, PendingCall
from .records import Source
from .run import Flag, Run, RunCut

MOST_CUT_SHORT = 5
"""Answers that may break off in a row, before the run is ended."""

NOT_BEGUN = "not run: {what} before this call began. Call it again if it is still needed."
BEGUN = "interrupted: {what} while this call was running. It may have run, wholly, in part or not at all."


async def take_turn(run: Run) -> bool:
    """Take one turn; False when there was nothing to answer, so that the run is over.

    :raises RunCut: when the run is to end here.
    :raises ProviderError: when the model did not answer; everything up to its request is in the transcript.
    """
    run.check_stop()
    await deliver(run)
    if not run.conversation.awaits_model:
        return False
    if run.interrupted:  # mail that cannot wait came while the rest was read
        return True
    run.limit.spend()
    reply: ModelReply | None = None
    with run.interruptible():
        reply = await _ask(run)
    if reply is None:  # interrupted by mail, which the next turn begins with
        return True
    calls = await run.conversation.add_reply(reply)
    _report(run, reply)
    if reply.stop_reason == "refusal":
        raise ProviderError("the model declined to answer", passing=False)
    if reply.stop_reason in CUT_SHORT:
        await refuse(run, calls, cut_off(reply.stop_reason))
        _count_cut(run)
        return True
    run.cut_short = 0
    if not run.interrupted:
        with run.interruptible():
            await _run_tools(run, calls)
    await settle_calls(run, "mail that could not wait came")
    return True


async def deliver(run: Run) -> None:
    """Put what is new into the conversation: what was said, then mail.

    Before a request all unread mail goes in; when the model has finished, only mail that wakes begins another turn.

    :raises RunCut: when mail that wakes can be neither read nor marked, so that the run has nothing to go on with.
    """
    conversation, waiting = run.conversation, run.inputs.waiting
    run.look()
    while waiting:
        await conversation.add_input(*waiting[0])
        waiting.popleft()
    has_finished = not conversation.awaits_model
    if has_finished and not await _mail_wakes(run):
        return
    found = await run.mailbox.collect(seen=conversation.delivered)
    if not found.messages:
        if found.trouble and has_finished:
            raise RunCut(IdleStatus.FAILED, f"its mail cannot be delivered: {found.trouble}", passing=True)
        if found.trouble:
            run.publish(Warned, text=found.trouble)
        return
    block = reminder.render(
        found.messages,
        name_of=run.services.registry.team.display_name,
        now=datetime.now(UTC),
        budget_tokens=run.reminder_tokens,
        trouble=found.trouble,
    )
    await conversation.add_input(Source.MAIL, block.text, mail=block.message_ids, hops=block.hops)
    run.publish(MailDelivered, message_ids=tuple(block.message_ids))
    if trouble := await run.mailbox.acknowledge(block.indices):
        run.publish(Warned, text=trouble)
    run.looks += 1


async def run_tool(run: Run, pending: PendingCall, repeated: bool = False) -> None:
    """Run one call, and keep its result."""
    call = pending.call
    sent = Flag()
    run.started.add(call.id)
    run.publish(ToolCalled, call_id=call.id, tool=call.name, input=call.input)
    result = await run.toolbox.run(run.context(pending, repeated=repeated, on_sent=sent), call)
    await _keep(run, pending, result, sent_mail=sent.raised)


async def refuse(run: Run, calls: Sequence[PendingCall], why: str) -> None:
    """Answer calls that do not run with the reason."""
    for pending in calls:
        await _keep(run, pending, ToolResult(tool_use_id=pending.call.id, content=why, is_error=True))


async def settle_calls(run: Run, what: str) -> None:
    """Answer the calls that are still without a result: ``what`` happened before them, or in the middle of them."""
    for pending in run.conversation.pending_calls:
        if pending.cut:
            why = cut_off(pending.cut)
        else:
            why = (BEGUN if pending.call.id in run.started else NOT_BEGUN).format(what=what)
        await refuse(run, (pending,), why)


def cut_off(stop_reason: str) -> str:
    """What the model is told about a call of an answer that broke off."""
    return (
        f"not run: your answer was cut off ({stop_reason}), so this call may be incomplete. "
        "Make smaller calls, for instance with less text in each."
    )


async def _mail_wakes(run: Run) -> bool:
    try:
        return (await run.mailbox.peek()).waking > 0
    except (MailError, StorageError) as error:  # the run ends, and whoever starts runs looks again
        run.publish(Warned, text=error.explain())
        return False


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


def _report(run: Run, reply: ModelReply) -> None:
    run.publish(
        Replied,
        content=tuple(block.model_dump(mode="json") for block in reply.content),
        text=reply.text,
        stop_reason=reply.stop_reason,
        usage=reply.usage.model_dump(),
        model=reply.model,
    )


def _count_cut(run: Run) -> None:
    run.cut_short += 1
    if run.cut_short > MOST_CUT_SHORT:
        raise RunCut(IdleStatus.LIMIT, f"its answers were cut off {run.cut_short} times in a row")


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


async def _keep(run: Run, pending: PendingCall, result: ToolResult, *, sent_mail: bool = False) -> None:
    call = pending.call
    await run.conversation.add_result(result, tool=call.name, sent_mail=sent_mail)
    run.publish(ToolFinished, call_id=call.id, tool=call.name, content=result.content, is_error=result.is_error)
