"""A run from its first step to its end: go on where the transcript stops, take turns, close the transcript."""

from __future__ import annotations

import structlog

from ..errors import ProviderError, PseudoclaudeError
from ..mail import IdleStatus
from .records import Ended, Source
from .run import Run, RunCut
from .turn import refuse, run_tool, take_turn

INTERRUPTED = (
    "interrupted: the process ended while this call was running. It may have run, wholly, in part or not at all. "
    "Look before you repeat it."
)
STOPPED = "interrupted: this run was stopped while the call was running. It may have run, wholly, in part or not at all."

_log = structlog.get_logger(__name__)


async def run_to_end(run: Run) -> Ended:
    """Take turns until the model stops calling tools, and close the transcript; how the run ended.

    Never raises but for cancellation, and where not even the end can be written.
    """
    try:
        await _begin(run)
        while await take_turn(run):
            pass
    except RunCut as cut:
        return await close(run, cut.status, str(cut))
    except ProviderError as error:
        return await close(run, IdleStatus.FAILED, error.explain(), passing=error.passing)
    except PseudoclaudeError as error:
        return await close(run, IdleStatus.FAILED, error.explain())
    except Exception as error:
        _log.exception("a run crashed", agent=run.identity.name, run_id=run.run_id)
        return await close(run, IdleStatus.FAILED, f"{type(error).__name__}: {error}")
    return await close(run, IdleStatus.FINISHED)


async def close(run: Run, status: IdleStatus, error: str | None = None, *, passing: bool = False) -> Ended:
    """Write the end of a run into its transcript; calls that are still without a result get a truthful one."""
    conversation = run.conversation
    await refuse(run, conversation.pending_calls, STOPPED)
    return await conversation.end_run(
        status, result=unreported(run), error=error, passing=passing, mail_end=await run.mailbox.end()
    )


def unreported(run: Run) -> str | None:
    """The last text of the run, if it sent no mail: its result would be lost otherwise."""
    text = run.conversation.last_text.strip()
    return None if run.conversation.sent_mail or not text else text


async def _begin(run: Run) -> None:
    """Open an empty conversation; in one that was cut off, settle the calls that were running.

    A call that finds what it did before, or changes nothing, is run again. Any other is answered with the truth:
    nobody knows how far it came.
    """
    conversation = run.conversation
    if conversation.is_empty and run.identity.opening:
        await conversation.add_input(Source.PROMPT, run.identity.opening)
    for pending in conversation.pending_calls:
        tool = run.toolbox.get(pending.call.name)
        if tool is not None and (tool.read_only or tool.repeatable):
            await run_tool(run, pending, repeated=True)
        else:
            await refuse(run, (pending,), INTERRUPTED)
