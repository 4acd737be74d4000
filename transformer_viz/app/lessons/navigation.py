"""Going from station to station: which page a station opens, and in which state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ...core.editing.edit_controls import Place
from ...core.interventions import Intervention
from ...i18n import say
from ...lessons import STATIONS, Spot, Station, numbered
from ..engine.engine import Engine
from ..engine.query import DetailRequest
from ..engine.task import Task
from ..session import changes, notices, visit
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from ..session.url_state import DEFAULTS
from ..ui.progress import run_with_progress
from ..ui.streamlit_private import came_by_history
from . import answers as lessons_answers
from .evidence import serves, spot_of

CHOSEN, THERE = "chosen", "there"  # who goes on from an arriving station's page is not brought back
HOME = "lessons"
FIRST = "explore"  # the page that has no name in an address
#: What every station begins with, whatever was chosen before: the model's own pieces, no changes.
PLAIN = ("words", "special", "view", "compare", "key", "zoom", "overlay", "number", "top")


def register_pages(pages: Sequence[StreamlitPage], chosen: StreamlitPage) -> None:
    """Note the pages of the app by their addresses, and which one is open."""
    private.pages = {page.url_path or FIRST: page for page in pages}
    private.here = chosen.url_path or FIRST
    _notice()
    if came_by_history():
        lessons_answers.read_again()


def _notice() -> None:
    """Note that the page of the chosen station is open; gone from it again, the wish is over.

    Its state may never come about there: no sentence, a stopped run, a model still loading.
    """
    if not private.arriving:
        return
    if private.here == _page():
        private.arriving = THERE
    elif private.arriving == THERE:
        del private.arriving


def _page() -> str:
    """The address of the page of the station that is open."""
    station = numbered(st.session_state.get("station", 0))
    return HOME if station is None else station.page


def at(station: Station) -> bool:
    """Whether the page of this station is the one that is open."""
    return private.here == station.page


def open_station(number: int) -> None:
    """In a callback: go to a station; 0 goes back to the page Lessons, and leaves the lesson."""
    state.station, private.arriving = number, CHOSEN


def leave() -> None:
    """In a callback: put the strip away; all else stays as it is."""
    state.station = 0
    del private.arriving


def go_to_station(engine: Engine) -> None:
    """Open the page of the station that was chosen, if it is another one than this."""
    _notice()
    page = _page()
    if page == HOME == private.here:
        del private.arriving  # nothing is to be set up there
    if not private.arriving or private.here == page:
        return
    visit.save(engine)
    open_page(page)


def open_page(address: str) -> None:
    """Go to the page of this address; the run ends here."""
    st.switch_page(private.pages[address])


def lab_address(name: str) -> str:
    """The address of a lab for the sentence and model of now, without the lesson and changes."""
    here = ("station", "predicted", "tried", "edits")
    kept = {key: text for key, text in st.query_params.to_dict().items() if key not in here}
    return f"labs?{urlencode(kept | {'lab': name})}"


def why_address(row: int) -> str:
    """The address of Why this word for one word of the sentence and model of now."""
    here = ("station", "predicted", "edits")
    kept = {key: text for key, text in st.query_params.to_dict().items() if key not in here}
    return f"why?{urlencode(kept | {'answer': row})}"


def open_station_state(scene: Scene) -> None:
    """Bring the page into the state that the station begins with, once, and draw it anew.

    Raises:
        Stopped: the visitor stopped it; the station is still to be set up.
    """
    if not private.arriving:
        return
    station = numbered(state.station)
    if station is None or not serves(station, scene.kind):
        del private.arriving
        return
    found = run_with_progress(
        lambda task: set_up(scene, station, task),
        key="station",
        label=say("Opening the station ..."),
        about=(scene.question, station.name),
    )
    del private.arriving
    changes.change(Intervention())
    st.session_state.update(found)
    visit.save(scene.engine)
    st.rerun(scope="app")


def set_up(scene: Scene, station: Station, task: Task) -> dict[str, Any]:
    """The state of a station: sentence and model stay. Asks nothing of the visit.

    Raises:
        Abandoned: the task was given up.
    """
    found = {name: DEFAULTS[name] for name in PLAIN}
    try:
        spot, _ = spot_of(scene.engine, scene.question, station, scene.kind, task)
    except ValueError:  # the strip says why this sentence will not do
        return found
    found |= station.state(spot)
    if station.stage:
        found["step"] = _step(scene, spot, station.stage, task)
    if station.free:
        found["search"] = _search(scene, task)
    return found


def _step(scene: Scene, spot: Spot, stage: str, task: Task) -> int:
    """At which step of Step inside a kind of stage stands for this head and word."""
    place = Place(spot.map_name, spot.layer, spot.head)
    clean = replace(scene, place=place, changes=Intervention(), now=scene.before)
    try:
        stages = clean.inside(spot.row, task).stages
    except (ValueError, LookupError):  # the page says why
        return 0
    return next((n for n, one in enumerate(stages) if one.kind == stage), 0)


def _search(scene: Scene, task: Task) -> str:
    """How Play is to search, so that it writes the words that the question is about.

    The plain way is greedy; where the model's beam finds other words, it is the beam.
    """
    question = replace(scene.question, target="")
    answers = [
        scene.engine.clean(asked, DetailRequest(()), task)
        for asked in (replace(question, beam=1), question)
    ]
    return "greedy" if answers[0].text == answers[1].text else "beam"


def clamp_station() -> None:
    """Let the station of the link be one that there is; an unknown one is told."""
    if state.station > len(STATIONS):
        notices.about_link(
            say(
                "There is no station {number}; there are 1 to {last}.",
                number=state.station,
                last=len(STATIONS),
            )
        )
        state.station = 0
