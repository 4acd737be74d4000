"""Predictions at the stations, stored in the link and separated by sentence.

The link stores the first answer. Later attempts are stored in the session.
"""

from __future__ import annotations

from ...lessons import STATIONS
from ..engine.query import Question
from ..session.keys import private
from ..session.state import state

SHOWN = -1  # among the attempts: the answer was requested
ELSEWHERE = 9  # instead of an option: answered for an earlier sentence or model

Answers = dict[int, int]


def answers() -> Answers:
    """Return the chosen option by station, for existing stations."""
    pairs: tuple[tuple[int, int], ...] = state.predicted
    return {number: option for number, option in pairs if 1 <= number <= len(STATIONS)}


def answered(number: int) -> bool:
    """Return True if a station has a prediction, for any sentence."""
    return number in answers()


def chosen(number: int, options: int) -> int | None:
    """Return the option chosen at a station for the current sentence, or None."""
    option = answers().get(number)
    return option if option is not None and option < options and option != ELSEWHERE else None


def tried(number: int, options: int) -> tuple[int, ...]:
    """Return the attempts at a station, the first answer first.

    `SHOWN` stands for a requested answer. The result is empty if nothing was chosen for the current
    sentence.
    """
    first = chosen(number, options)
    return () if first is None else (first, *private.tried_later.get(number, ()))


def answer(number: int, option: int, options: int) -> None:
    """Store a prediction, or a later attempt (callback)."""
    if chosen(number, options) is None:
        _keep(answers() | {number: option})
        private.tried_later = {n: one for n, one in private.tried_later.items() if n != number}
    else:
        _try(number, option)


def show(number: int) -> None:
    """Show the answer on request (callback)."""
    _try(number, SHOWN)


def _try(number: int, option: int) -> None:
    before = (one for one in private.tried_later.get(number, ()) if one != option)
    private.tried_later = private.tried_later | {number: (*before, option)}


def forget_stale(question: Question) -> None:
    """Keep only which stations were answered, if the sentence or model has changed.

    Options then have another meaning. Each page with a sentence calls this, also outside a lesson,
    since the link would otherwise assign old answers to the new sentence.
    """
    about = (question.model, question.text)
    if not question.text:
        return
    before, private.predicted_about = private.predicted_about, about
    if before not in (None, about):
        del private.tried_later
        _keep(dict.fromkeys(answers(), ELSEWHERE))


def read_again() -> None:
    """Clear the session's part before the state is read from a link with its own answers."""
    del private.predicted_about, private.tried_later


def forget() -> None:
    """Delete all answers (callback)."""
    del private.tried_later
    _keep({})


def _keep(found: Answers) -> None:
    state.predicted = tuple(sorted(found.items()))
