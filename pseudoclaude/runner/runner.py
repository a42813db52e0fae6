"""A run from its first step to its end: go on where the transcript stops, take turns, close the transcript."""

from __future__ import annotations

from ..errors import ProviderError, PseudoclaudeError
from ..logs import Log
from ..mail import IdleStatus
from .records import Ended, Source
from .run import Run, RunCut
from .turn import NOT_BEGUN, cut_off, refuse, run_tool, settle_calls, take_turn

DIED = (
    "interrupted: the process ended while this call was running. It may have run, wholly, in part or not at all. "
    "Look before you repeat it."
)

_log = Log(__name__)


async def run_to_end(run: Run) -> Ended:
    """Take turns until the model stops calling tools, and close the transcript; how the run ended.

    Never raises but for cancellation, and where not even the end can be written.
    """
    try:
        await _begin(run)
        while await take_turn(run):
            pass
    except RunCut as cut:
        return await close(run, cut.status, str(cut), passing=cut.passing)
    except Exception as error:
        return await _close_failed(run, error)
    return await close(run, IdleStatus.FINISHED)


async def close(run: Run, status: IdleStatus, error: str | None = None, *, passing: bool = False) -> Ended:
    """Write the end of a run into its transcript; calls that are still without a result get a truthful one."""
    await settle_calls(run, "this run was stopped")
    conversation = run.conversation
    return await conversation.end_run(
        status, result=conversation.unreported, error=error, passing=passing, mail_end=await run.mailbox.end()
    )


async def _close_failed(run: Run, error: Exception) -> Ended:
    cause: BaseException = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:  # from calls that ran side by side
        cause = cause.exceptions[0]
    if isinstance(cause, PseudoclaudeError):
        passing = isinstance(cause, ProviderError) and cause.passing
        return await close(run, IdleStatus.FAILED, cause.explain(), passing=passing)
    _log.error("a run crashed", agent=run.identity.name, run_id=run.run_id, exc_info=cause)
    return await close(run, IdleStatus.FAILED, f"{type(cause).__name__}: {cause}")


async def _begin(run: Run) -> None:
    """Open an empty conversation; in one that was cut off, settle the calls that have no result.

    A call that finds what it did before, or changes nothing, is run again. Of the others, which ran one after the
    other, only the first can have begun; nobody knows how far it came.
    """
    conversation = run.conversation
    if conversation.is_empty and run.identity.opening:
        await conversation.add_input(Source.PROMPT, run.identity.opening)
    for position, pending in enumerate(conversation.pending_calls):
        tool = run.toolbox.get(pending.call.name)
        if pending.cut:
            await refuse(run, (pending,), cut_off(pending.cut))
        elif tool is not None and (tool.read_only or tool.repeatable):
            await run_tool(run, pending, repeated=True)
        else:
            await refuse(run, (pending,), NOT_BEGUN.format(what="the process ended") if position else DIED)
