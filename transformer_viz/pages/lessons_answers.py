"""What was predicted at the stations: kept in the link, and told apart from other sentences'."""

from __future__ import annotations

import streamlit as st

from ..lessons import STATIONS
from .question import Question

ABOUT = "_predicted_about"
ELSEWHERE = 9  # in the place of an option: answered about an earlier sentence or model

Answers = dict[int, int]


def answers() -> Answers:
    """The chosen option by station; of stations that there are."""
    pairs: tuple[tuple[int, int], ...] = st.session_state["predicted"]
    return {number: option for number, option in pairs if 1 <= number <= len(STATIONS)}


def answered(number: int) -> bool:
    """Whether something was predicted at a station, on whatever sentence."""
    return number in answers()


def chosen(number: int, options: int) -> int | None:
    """The option that was chosen at a station for the sentence of now; None: none of them."""
    option = answers().get(number)
    return option if option is not None and option < options and option != ELSEWHERE else None


def answer(number: int, option: int) -> None:
    """In a callback: keep a prediction."""
    _keep(answers() | {number: option})


def settle(question: Question) -> None:
    """When another sentence or model is asked, options mean other things: only that they were
    answered is kept.

    Every page with a sentence asks this, also without a lesson: a link would say else that the
    answers are about the new one.
    """
    state, about = st.session_state, (question.model, question.text)
    if question.text and state.setdefault(ABOUT, about) != about:
        state[ABOUT] = about
        _keep(dict.fromkeys(answers(), ELSEWHERE))


def read_again() -> None:
    """The state is about to be read from a link: its answers are about the sentence there."""
    st.session_state.pop(ABOUT, None)


def forget() -> None:
    """In a callback: begin the lesson anew."""
    _keep({})


def _keep(found: Answers) -> None:
    st.session_state["predicted"] = tuple(sorted(found.items()))
