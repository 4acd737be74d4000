"""What was predicted at the stations: kept in the link, and told apart from other sentences'.

The first answer counts, and is what the link keeps. What is tried after it is kept in this visit.
"""

from __future__ import annotations

from ...lessons import STATIONS
from ..engine.query import Question
from ..session.keys import private
from ..session.state import state

SHOWN = -1  # among those: the answer was asked for
ELSEWHERE = 9  # in the place of an option: answered about an earlier sentence or model

Answers = dict[int, int]


def answers() -> Answers:
    """The chosen option by station; of stations that there are."""
    pairs: tuple[tuple[int, int], ...] = state.predicted
    return {number: option for number, option in pairs if 1 <= number <= len(STATIONS)}


def answered(number: int) -> bool:
    """Whether something was predicted at a station, on whatever sentence."""
    return number in answers()


def chosen(number: int, options: int) -> int | None:
    """The option that was chosen at a station for the sentence of now; None: none of them."""
    option = answers().get(number)
    return option if option is not None and option < options and option != ELSEWHERE else None


def tried(number: int, options: int) -> tuple[int, ...]:
    """What was chosen at a station, the first answer first; `SHOWN` where the answer was asked for.

    Empty where nothing was chosen for the sentence of now.
    """
    first = chosen(number, options)
    return () if first is None else (first, *private.tried_later.get(number, ()))


def answer(number: int, option: int, options: int) -> None:
    """In a callback: keep a prediction, or, after the first one, another try."""
    if chosen(number, options) is None:
        _keep(answers() | {number: option})
        private.tried_later = {n: one for n, one in private.tried_later.items() if n != number}
    else:
        _try(number, option)


def show(number: int) -> None:
    """In a callback: the answer was asked for."""
    _try(number, SHOWN)


def _try(number: int, option: int) -> None:
    before = (one for one in private.tried_later.get(number, ()) if one != option)
    private.tried_later = private.tried_later | {number: (*before, option)}


def forget_stale(question: Question) -> None:
    """When another sentence or model is asked, options mean other things: only that they were
    answered is kept.

    Every page with a sentence asks this, also without a lesson: a link would say else that the
    answers are about the new one.
    """
    about = (question.model, question.text)
    if not question.text:
        return
    before, private.predicted_about = private.predicted_about, about
    if before not in (None, about):
        del private.tried_later
        _keep(dict.fromkeys(answers(), ELSEWHERE))


def read_again() -> None:
    """The state is about to be read from a link: its answers are about the sentence there."""
    del private.predicted_about, private.tried_later


def forget() -> None:
    """In a callback: begin the lesson anew."""
    del private.tried_later
    _keep({})


def _keep(found: Answers) -> None:
    state.predicted = tuple(sorted(found.items()))
