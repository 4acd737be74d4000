"""Navigation between stations: the page that a station opens, and its state."""

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

CHOSEN, THERE = "chosen", "there"  # a user who leaves an arriving station's page is not sent back
HOME = "lessons"
FIRST = "explore"  # the page with an empty address
#: Settings that each station resets to their defaults: the model's own pieces, no edits.
PLAIN = ("words", "special", "view", "compare", "key", "zoom", "overlay", "number", "top")


def register_pages(pages: Sequence[StreamlitPage], chosen: StreamlitPage) -> None:
    """Store the pages of the app by address, and the open one."""
    private.pages = {page.url_path or FIRST: page for page in pages}
    private.here = chosen.url_path or FIRST
    _notice()
    if came_by_history():
        lessons_answers.read_again()


def _notice() -> None:
    """Note that the page of the chosen station is open; cancel its setup if it was left again.

    The setup may never complete there: no sentence, a stopped run, a model that is still loading.
    """
    if not private.arriving:
        return
    if private.here == _page():
        private.arriving = THERE
    elif private.arriving == THERE:
        del private.arriving


def _page() -> str:
    """Return the address of the open station's page."""
    station = numbered(st.session_state.get("station", 0))
    return HOME if station is None else station.page


def at(station: Station) -> bool:
    """Return True if the page of this station is open."""
    return private.here == station.page


def open_station(number: int) -> None:
    """Open a station (callback); 0 leaves the lesson for the page Lessons."""
    state.station, private.arriving = number, CHOSEN


def leave() -> None:
    """Close the strip and keep all other state (callback)."""
    state.station = 0
    del private.arriving


def go_to_station(engine: Engine) -> None:
    """Open the page of the chosen station, unless it is already open."""
    _notice()
    page = _page()
    if page == HOME == private.here:
        del private.arriving  # that page needs no setup
    if not private.arriving or private.here == page:
        return
    visit.save(engine)
    open_page(page)


def open_page(address: str) -> None:
    """Switch to the page of this address; the current run ends here."""
    st.switch_page(private.pages[address])


def lab_address(name: str) -> str:
    """Return a lab's address for the current sentence and model, without lesson and edits."""
    here = ("station", "predicted", "tried", "edits")
    kept = {key: text for key, text in st.query_params.to_dict().items() if key not in here}
    return f"labs?{urlencode(kept | {'lab': name})}"


def why_address(row: int) -> str:
    """Return the address of Why this word for a word of the current sentence, without edits."""
    here = ("station", "predicted", "edits")
    kept = {key: text for key, text in st.query_params.to_dict().items() if key not in here}
    return f"why?{urlencode(kept | {'answer': row})}"


def open_station_state(scene: Scene) -> None:
    """Set the state with which the station begins, once, and rerun the page.

    Raises:
        Stopped: The user stopped the run; the station remains to be set up.
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
    """Return the state of a station, without access to the session; sentence and model stay.

    Raises:
        Abandoned: The task was abandoned.
    """
    found = {name: DEFAULTS[name] for name in PLAIN}
    try:
        spot, _ = spot_of(scene.engine, scene.question, station, scene.kind, task)
    except ValueError:  # the strip shows the reason
        return found
    found |= station.state(spot)
    if station.stage:
        found["step"] = _step(scene, spot, station.stage, task)
    if station.free:
        found["search"] = _search(scene, task)
    return found


def _step(scene: Scene, spot: Spot, stage: str, task: Task) -> int:
    """Return the step of Step inside that shows a kind of stage for this head and word."""
    place = Place(spot.map_name, spot.layer, spot.head)
    clean = replace(scene, place=place, changes=Intervention(), now=scene.before)
    try:
        stages = clean.inside(spot.row, task).stages
    except (ValueError, LookupError):  # the page shows the reason
        return 0
    return next((n for n, one in enumerate(stages) if one.kind == stage), 0)


def _search(scene: Scene, task: Task) -> str:
    """Return the search of Play that finds the text of the question.

    The default is greedy search; it is beam search if the model's beam finds another text.
    """
    question = replace(scene.question, target="")
    answers = [
        scene.engine.clean(asked, DetailRequest(()), task)
        for asked in (replace(question, beam=1), question)
    ]
    return "greedy" if answers[0].text == answers[1].text else "beam"


def clamp_station() -> None:
    """Reset a station that does not exist, and report it if the link set it."""
    if state.station > len(STATIONS):
        notices.about_link(
            say(
                "There is no station {number}; there are 1 to {last}.",
                number=state.station,
                last=len(STATIONS),
            )
        )
        state.station = 0
