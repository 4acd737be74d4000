"""Page Lessons: an hour in ten stations, each of which opens a page in a prepared state."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import streamlit as st

from ...core.interventions import Intervention
from ...i18n import mark, say, speaking, spoken_language
from ...lessons import STATIONS, Station
from ...lessons.glossary import GLOSSARY
from ...lessons.worksheet import Page, answer_sheet, worksheet
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..engine.query import DetailRequest, Question
from ..engine.trace_jobs import MAX_TOKENS, length
from ..lessons import answers, navigation
from ..lessons.evidence import seen_of, serves
from ..page_template import notices_above
from ..session import query_state
from ..session.state import state
from ..shell import inputs
from ..ui import layout
from ..ui.text_format import spoken

LEAD = mark(
    "Each station opens a page of this app with your own sentence in it, and asks a question. "
    "Predict, then see what the model really did: every answer is computed when you ask. The "
    "stations keep the sentence of your class; it can be changed here and on their pages."
)
TEACHER = mark(
    "Start the app on one machine, choose one sentence with the class, and share the link of "
    "station 1 (Share, above). Let everybody predict before anyone clicks, by hands or on the "
    "worksheet; then reveal together. Pupils may walk ahead, and a wrong prediction is worth more "
    "than a right one: ask what they had expected. The times are for one class hour; stations 4, "
    "7 and 8 can be left out."
)


def draw(engine: Engine) -> None:
    """Draw the page Lessons."""
    navigation.clamp_station()
    navigation.go_to_station(engine)
    with notices_above(engine):
        kind = engine.kind(state.model) or Kind()
        answers.forget_stale(query_state.question(engine, kind))
        _body(engine, kind)


def _body(engine: Engine, kind: Kind) -> None:
    with st.container(key="pictures-lessons"):
        left, right = st.columns([13, 9], gap="large")
        with left:
            _path()
        with right:
            _beginning(engine, kind)
            _sheet(engine)
    _notes()
    _glossary()


def _path() -> None:
    """Draw the list of stations: the subject of each, and if it was answered."""
    minutes = sum(station.minutes for station in STATIONS)
    title = escape(say("An hour in ten stations"))
    length = escape(say("{minutes} minutes", minutes=minutes))
    layout.heading(f"{title} {layout.quiet_span(length)}")
    with st.container(key="path", gap="small"):
        for number, station in enumerate(STATIONS, 1):
            _row(number, station)


def _row(number: int, station: Station) -> None:
    done = answers.answered(number)
    sign = f'<i class="tv-lesson-mark{" tv-done" * done}">{"✓" if done else number}</i>'
    minutes = say("{minutes} minutes", minutes=station.minutes)
    state = say("answered") if done else say("not answered yet")
    aim = say(station.aim)
    left, right = st.columns([8, 1], vertical_alignment="center")
    left.html(
        f'<div class="tv-lesson-row">{sign}<b>{escape(say(station.title))} '
        f'<span class="tv-quiet">{escape(minutes)} · {escape(state)}</span></b>'
        f"<span>{escape(aim)}</span></div>"
    )
    right.button(
        say("open"),
        key=f"open-{number}",
        on_click=navigation.open_station,
        args=(number,),
    )


def _beginning(engine: Engine, kind: Kind) -> None:
    """Draw the introduction, the sentence, and the button to begin or resume."""
    done = len([n for n in answers.answers() if n])
    with st.container(border=True, key="card-begin"):
        layout.heading(escape(say("Your sentence, ten questions")))
        st.html(
            f'<p class="tv-notes">{escape(say(LEAD))}</p><p class="tv-notes tv-quiet">'
            f"{escape(say('{done} of {all} questions answered', done=done, all=len(STATIONS)))}</p>"
        )
        if kind.takes == "text":
            inputs.box(engine, kind)
        kept = say("Your answers are kept in this page's address: bookmark it.")
        st.html(f'<p class="tv-notes tv-quiet">{escape(kept)}</p>')
        with layout.row():
            following = _following()
            st.button(
                say("begin")
                if following == 1
                else say("go on at station {number}", number=following),
                key="begin",
                type="primary",
                on_click=navigation.open_station,
                args=(following,),
            )
            st.button(
                say("delete my answers"),
                key="anew",
                on_click=answers.forget,
                disabled=not done,
                help=say("Forgets what was predicted."),
            )


def _following() -> int:
    """Return the next station: the open one, or the first without an answer."""
    open_now: int = state.station
    if open_now:
        return open_now
    missing = (n for n in range(1, len(STATIONS) + 1) if not answers.answered(n))
    return next(missing, 1)


def _sheet(engine: Engine) -> None:
    """Draw the worksheet's download buttons; it is made on request."""
    model = state.model
    kind = engine.kind(model) or Kind()
    question = query_state.question(engine, kind)
    with st.container(border=True, key="card-sheet"):
        layout.heading(escape(say("A worksheet to print")))
        told = say(
            "All ten questions, two exercises to calculate by hand and the words of the lesson; "
            "the answers are a sheet of their own, for the teacher. The numbers are those of your "
            "sentence and model."
        )
        st.html(f'<p class="tv-notes">{escape(told)}</p>')
        reason = _refusal(engine, question)
        if reason:
            layout.quiet(reason)
            return
        with layout.row():
            for label, name, made in (
                (say("download the worksheet"), "worksheet", sheet),
                (say("download the answers"), "answers", solutions),
            ):
                st.download_button(
                    label,
                    data=_maker(engine, question, kind, made),
                    file_name=f"{name}.html",
                    mime="text/html",
                    key=name,
                    on_click="ignore",
                )


def _refusal(engine: Engine, question: Question) -> str:
    """Return a reason if a text cannot have a worksheet, else an empty string.

    A token has at least one character, so the model is loaded for possibly too long texts only.
    """
    if len(question.text) <= MAX_TOKENS:
        return ""
    try:
        length(engine.model(question.model), question, Intervention())
    except (ValueError, LookupError) as error:
        return spoken(error)
    return ""


def _maker(
    engine: Engine, question: Question, kind: Kind, made: Callable[[Engine, Question, Kind], str]
) -> Callable[[], bytes]:
    """Return a function that makes a sheet; it runs in a thread without session state."""
    language = spoken_language()

    def make() -> bytes:
        with speaking(language):
            return made(engine, question, engine.kind(question.model) or kind).encode()

    return make


def sheet(engine: Engine, question: Question, kind: Kind) -> str:
    """Return the worksheet of a question in the current language; runs all stations."""
    written = _written(engine, question) if kind.translates and question.text else ""
    called = engine.shelf[question.model].called
    pages = _pages(engine, question, kind)
    return worksheet(pages, question.text, called, written, _guesses(engine, question))


def solutions(engine: Engine, question: Question, kind: Kind) -> str:
    """Return the answers to that worksheet in the current language."""
    called = engine.shelf[question.model].called
    pages = _pages(engine, question, kind)
    return answer_sheet(pages, question.text, called, _guesses(engine, question))


def _guesses(engine: Engine, question: Question) -> dict[str, Any]:
    """Return the guessed settings of the model whose numbers are on a sheet."""
    try:
        return engine.clean(question, DetailRequest(())).trace.guesses
    except (ValueError, LookupError):  # no station can be computed
        return {}


def _pages(engine: Engine, question: Question, kind: Kind) -> list[Page]:
    return [_page(engine, question, kind, station) for station in STATIONS]


def _written(engine: Engine, question: Question) -> str:
    try:
        return engine.clean(question, DetailRequest(())).text
    except ValueError:  # the stations show the reason
        return ""


def _page(engine: Engine, question: Question, kind: Kind, station: Station) -> Page:
    if not question.text or not serves(station, kind):
        return Page(station, None, say("This model or sentence cannot show this station."))
    try:
        return Page(station, station.ask(seen_of(engine, question, station, kind)))
    except (ValueError, LookupError) as error:
        return Page(station, None, spoken(error))


def _notes() -> None:
    """Draw the teacher's notes for each station: what to say, ask, and beware of."""
    with st.expander(say("Notes for the teacher"), key="teacher"):
        st.html(f'<p class="tv-notes">{escape(say(TEACHER))}</p>')
        for number, station in enumerate(STATIONS, 1):
            notes = station.notes
            minutes = say("{minutes} minutes", minutes=station.minutes)
            parts = (
                (say("Say"), notes.say),
                (say("Ask"), notes.ask),
                (say("Beware"), notes.beware),
                (say("Let them do"), station.do),
            )
            items = "".join(
                f"<dt>{escape(name)}</dt><dd>{escape(say(text))}</dd>" for name, text in parts
            )
            st.html(
                f'<h3 class="tv-question">{number}. {escape(say(station.title))} '
                f'<span class="tv-quiet">{escape(minutes)}</span></h3>'
                f'<dl class="tv-notes">{items}</dl>'
            )


def _glossary() -> None:
    with st.expander(say("Glossary: {count} words", count=len(GLOSSARY)), key="glossary"):
        items = "".join(
            f"<div><dt>{escape(say(term))}</dt><dd>{escape(say(meaning))}</dd></div>"
            for term, meaning in GLOSSARY.values()
        )
        st.html(f'<dl class="tv-terms">{items}</dl>')
