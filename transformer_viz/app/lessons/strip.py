"""Strip of a lesson above a page: the station's text, its question, and the navigation."""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ...core.interventions import Intervention
from ...i18n import say
from ...lessons import STATIONS, Ask, Seen, Station, numbered
from ...lessons.term_markup import marked
from ..engine.engine import Engine
from ..engine.model_kind import Kind
from ..session import changes, query_state
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..shell.presenter import presenting
from ..ui import layout
from ..ui.progress import Stopped, run_with_progress
from ..ui.text_format import escape_markdown, spoken
from . import answers, navigation
from .evidence import seen_of, serves


def strip(engine: Engine, kind: Kind) -> DeltaGenerator | None:
    """Draw the parts of the strip that need no run; return the container of the question.

    The result is None without a lesson. It is also None if the model cannot show the station; the
    strip then offers one that can.
    """
    navigation.clamp_station()
    navigation.go_to_station(engine)
    answers.forget_stale(query_state.question(engine, kind))
    station = numbered(state.station)
    if station is None:
        return None
    with st.container(border=True, key="station"):
        only_looks = station.looks and navigation.at(station)
        with st.container(key="station-looks" if only_looks else "station-does"):
            _head(station)
        place = _one_side(station) if presenting() else _both_sides(station, only_looks)
    if place is None or serves(station, kind):
        return place
    with place:
        _offer(engine)
    return None


def _both_sides(station: Station, only_looks: bool) -> DeltaGenerator:
    """Draw the text; return the container of the question beside it."""
    text, question = st.columns(layout.WIDER_LEFT, gap="medium")
    text.html(_text(station) + (_later() if only_looks else ""))
    return question.container(key="station-question")


def _one_side(station: Station) -> DeltaGenerator | None:
    """Draw the text, or return the container of the question; for presenting."""
    if not _asking():
        st.html(_text(station))
        return None
    return st.container(key="station-question")


def _text(station: Station) -> str:
    return f'<p class="tv-station-text">{marked(say(station.text))}</p>'


def _later() -> str:
    """Return a note on the station at which the hidden controls appear."""
    first = state.station
    number = next(n for n, one in enumerate(STATIONS[first:], first + 1) if not one.looks)
    words = say("Sliders and masks are put away; they come with station {number}.", number=number)
    return f'<p class="tv-quiet tv-station-later">{escape(words)}</p>'


def _asking() -> bool:
    """Return True if the question is shown: after a turn to it, or after an answer."""
    number = state.station
    turned = private.turned
    return turned[1] if turned[0] == number else answers.answered(number)


def _turn() -> None:
    private.turned = (state.station, not _asking())


def ask(scene: Scene, place: DeltaGenerator | None) -> None:
    """Draw the station's question: its options, and the explanation after a choice."""
    number = state.station
    station = numbered(number)
    if place is None or station is None:
        return
    try:
        seen = _seen(scene, station, place)
        asked = station.ask(seen)
    except Stopped:
        return
    except (ValueError, LookupError) as error:
        place.info(escape_markdown(spoken(error)))
        return
    with place:
        _question(asked, number, station, seen)


def _seen(scene: Scene, station: Station, place: DeltaGenerator) -> Seen:
    """Return the runs of the question; the progress is shown in the question's container."""
    engine, question, kind = scene.engine, scene.question, scene.kind
    return run_with_progress(
        lambda task: seen_of(engine, question, station, kind, task),
        key="lesson",
        label=say("Working out the question ..."),
        about=(question, station.name),
        where=place.container(key="waiting-lesson"),
    )


def _head(station: Station) -> None:
    number, last = state.station, len(STATIONS)
    with layout.row("center", spread=True, key="hand-station"):
        count = say("Station {number} of {last}", number=number, last=last)
        names = "tv-question tv-station"
        if station.pieces and navigation.at(station):
            names += " tv-station-pieces"
        st.html(
            f'<h2 class="{names}"><span class="tv-quiet">{escape(count)}</span>'
            f"{escape(say(station.title))}</h2>",
            width="content",
        )
        with layout.row(fit=True):
            if presenting():
                other = say("the text") if _asking() else say("the question")
                st.button(other, key="station-turn", on_click=_turn)
            _ways(number, last)


def _ways(number: int, last: int) -> None:
    """Draw the buttons: back, next, reset, and leave."""
    go = navigation.open_station
    st.button(
        say("‹ station before"),
        key="station-back",
        on_click=go,
        args=(number - 1,),
        disabled=number == 1,
    )
    on = say("finish") if number == last else say("next station ›")
    st.button(on, key="station-on", on_click=go, args=((number + 1) % (last + 1),), type="primary")
    with layout.row(fit=True, key="fold-station"):
        st.button(
            say("reset this page"),
            key="station-again",
            type="tertiary",
            on_click=go,
            args=(number,),
            help=say("Opens this station's page as it was at its beginning. Your sentence stays."),
        )
        st.button(
            say("leave the lesson"),
            key="station-leave",
            type="tertiary",
            on_click=navigation.leave,
            help=say("Puts this strip away; the page stays as it is. Lessons leads back here."),
        )


def _question(asked: Ask, number: int, station: Station, seen: Seen) -> None:
    st.html(f'<p class="tv-station-ask">{escape(asked.question)}</p>')
    count = len(asked.options)
    tried = answers.tried(number, count)
    solved = asked.right in tried or len(set(tried)) > 1
    large = presenting()
    options = layout.row(key="station-options")
    with options:
        for option, text in enumerate(asked.options):
            right = solved and option == asked.right
            if large and solved and not right and option not in tried:
                continue  # leaves more space for the picture
            st.button(
                escape_markdown(("✓ " if right else "✗ " if option in tried else "") + text),
                key=f"option-{number}-{option}",
                on_click=answers.answer,
                args=(number, option, count),
                type="primary" if right else "secondary",
            )
    why = _told(asked, tried, solved) if tried else _first(number, station)
    told = " data-solved" if solved else ""
    with layout.row(key="station-told"):
        st.html(f'<p class="tv-station-why" role="status"{told}>{why}</p>')
        beside = st.container(width="content", gap="xsmall", horizontal=large)
    with options if large and solved else beside:
        if station.deed:
            _deed(station, station.experiments(seen)[0])
        if tried and not solved:
            _show(number)
        if solved and asked.lab:
            st.link_button(say("open the lab"), navigation.lab_address(asked.lab))
        if solved and asked.row is not None:
            st.link_button(say("the deletion curve"), navigation.why_address(asked.row))


def _show(number: int) -> None:
    st.button(
        say("show me"),
        key="station-show",
        type="tertiary",
        on_click=answers.show,
        args=(number,),
    )


def _told(asked: Ask, tried: tuple[int, ...], solved: bool) -> str:
    """Return the reaction to an attempt: a hint after the first wrong answer, then the reason."""
    verdict = {asked.right: say("Right."), answers.SHOWN: say("The answer:")}
    said = escape(verdict.get(tried[-1], say("Not quite.")))
    if solved:
        return f"<b>{said}</b> {escape(asked.why)}"
    return f"<b>{said}</b> {escape(asked.hint)} {escape(say('Try once more.'))}"


def _deed(station: Station, edits: Intervention) -> None:
    """Draw a button that applies the station's edits or removes them; both can be undone."""
    now = changes.intervention()
    done = all(edit in now for edit in edits)
    after = [*(edit for edit in now if edit not in edits), *(() if done else edits)]
    st.button(
        say("take it back") if done else say(station.deed),
        key="station-deed",
        on_click=changes.change,
        args=(Intervention(tuple(after)),),
    )


def _first(number: int, station: Station) -> str:
    """Return the text before an option is chosen."""
    said = (
        say("The sentence or the model is another one now, so is the answer. Choose again.")
        if answers.answered(number)
        else say(station.first)
    )
    return layout.quiet_span(escape(said))


def _offer(engine: Engine) -> None:
    """Draw the alternative if the model cannot show the station."""
    name = next((name for name in engine.shelf if _translates(engine, name)), None)
    sentence = say(
        "This station needs a model that reads and writes sentences in the way it tells of; the "
        "one at hand does not."
    )
    st.info(escape_markdown(sentence))
    if name is not None:
        called = engine.shelf[name].called
        st.button(
            escape_markdown(say("take {model}", model=called)),
            key="station-model",
            on_click=_take,
            args=(name,),
        )


def _translates(engine: Engine, name: str) -> bool:
    kind = engine.kind(name)
    reads = kind is not None and kind.takes == "text" and kind.spelled
    return kind is not None and reads and kind.translates and kind.writes


def _take(name: str) -> None:
    """Choose a model that can show the station, and open the station with it."""
    state.model = name
    query_state.mark_query_changed()
    navigation.open_station(state.station)
