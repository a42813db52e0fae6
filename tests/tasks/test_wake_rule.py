from __future__ import annotations

import pytest

from pseudoclaude.mailbox.store import Peek
from pseudoclaude.tasks.wake import Halt, Situation, owes_turn, wakeable

NOTHING = Peek()
A_NOTE = Peek(unread=1)
MAIL = Peek(unread=1, waking=1, newest_waking=4)


@pytest.mark.parametrize(
    ("situation", "owes"),
    [
        (Situation(NOTHING), False),
        (Situation(A_NOTE), False),
        (Situation(MAIL), True),
        (Situation(NOTHING, open_transcript=True), True),
        (Situation(NOTHING, waiting_input=True, said=1), True),
        (Situation(NOTHING, halt=Halt("it failed", 0)), False),
    ],
)
def test_an_agent_owes_a_turn_when_something_waits_for_the_model(situation: Situation, owes: bool) -> None:
    assert owes_turn(situation) is owes


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (Situation(MAIL), None),
        (Situation(MAIL, ended=True), "it has ended"),
        (Situation(MAIL, paused=True), "it is paused"),
        (Situation(MAIL, turns_left=0), "its turns are used up"),
        (Situation(MAIL, turns_left=1), None),
        (Situation(MAIL, ended=True, paused=True, halt=Halt("failed", 0)), "it has ended"),
    ],
)
def test_an_agent_can_be_woken_unless_there_is_a_reason(situation: Situation, why: str | None) -> None:
    assert wakeable(situation) == why


@pytest.mark.parametrize("mail_end", [4, 3, 0])
def test_mail_from_the_halt_on_lifts_it(mail_end: int) -> None:
    assert wakeable(Situation(MAIL, halt=Halt("it failed", mail_end))) is None


def test_mail_that_was_there_at_the_halt_does_not_lift_it() -> None:
    assert wakeable(Situation(MAIL, open_transcript=True, halt=Halt("it failed", 5))) == "it failed"


def test_what_was_said_after_the_halt_lifts_it() -> None:
    assert wakeable(Situation(NOTHING, waiting_input=True, said=2, halt=Halt("it failed", 0, said=1))) is None


def test_what_was_said_before_the_halt_does_not_lift_it() -> None:
    assert wakeable(Situation(NOTHING, waiting_input=True, said=1, halt=Halt("it failed", 0, said=1))) == "it failed"


def test_what_was_said_and_answered_does_not_lift_a_halt() -> None:
    assert wakeable(Situation(NOTHING, said=2, halt=Halt("it failed", 0, said=1))) == "it failed"
