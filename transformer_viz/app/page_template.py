"""Template of every page around its views: waiting, notices, error messages, the footer."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ..core.errors import TooLongError, is_fault
from ..i18n import say
from .counts.server_counts import ANSWERS, REFUSALS, computing
from .engine.engine import Engine
from .engine.model_kind import Kind
from .engine.turns.priority import PRIORITY
from .lessons import navigation, strip
from .session import changes, notices, query_state, visit, widget_sync
from .session.keys import private
from .session.scene import Scene, loading, scene_of
from .session.state import state
from .shell import frame, inputs
from .shell.guess_mark import guess_mark
from .ui.progress import Stopped, run_with_progress
from .ui.streamlit_private import is_in_fragment
from .ui.text_format import escape_markdown, spoken


@dataclass(frozen=True)
class Page:
    """Page of the app.

    Attributes:
        address: Its path in the URL.
        title: Marked text in the navigation.
        question: Marked text of the question it answers.
        draw: Function that draws it.
        group: Marked text of its menu.
        framed: True if the sentence box is above it; others use no input of the model.
        first: True for the page at the root URL.
        has_map: True if it draws maps of the run for every kind of model.
    """

    address: str
    title: str
    question: str
    draw: Callable[[Engine], None]
    group: str
    framed: bool = True
    first: bool = False
    has_map: bool = False

    @property
    def path(self) -> str:
        """Path in the URL; empty for the first page."""
        return "" if self.first else self.address


#: Function that draws a scene; it may return a function to call after the rest is drawn.
Body = Callable[[Scene], Callable[[], None] | None]


def show(engine: Engine, body: Body, *, long: bool = False) -> None:
    """Draw a page, then load its model in the background.

    Args:
        long: True if it can show a text of more tokens than most pages accept (`Scene.is_long`).
    """
    _page(engine, body, long)
    engine.prepare(state.model)


@st.fragment
def _page(engine: Engine, body: Body, long: bool) -> None:
    """Draw everything that a change repaints: one fragment, so that the frame is not redrawn."""
    if private.recolour is not None or private.shortened:
        del private.recolour, private.shortened
        st.rerun(scope="app")  # the frame is outside of this fragment
    visit.restore(engine)
    widget_sync.apply_pending()
    PRIORITY.give_way()
    with computing("pages"):
        with notices_above(engine):
            visit.save(engine)
            with _explained(engine):
                _answer(engine, body, long)
        visit.save(engine)
        visit.keep_unmounted_keys()
    if is_in_fragment():  # a run of the whole page goes on
        visit.ended()


@contextmanager
def notices_above(engine: Engine) -> Iterator[None]:
    """Draw the notices above the content of the block, including those it causes.

    Notices that the user has answered by a change are cleared first.
    """
    visit.clear_answered_notices(engine)
    above = st.container()
    yield
    with above:
        for complaint in notices.complaints():
            st.warning(escape_markdown(complaint))


def _answer(engine: Engine, body: Body, long: bool) -> None:
    waiting = st.container(key="waiting")
    kind = _kind(engine, waiting)
    asked = strip.strip(engine, kind)
    question = query_state.question(engine, kind)
    ready = kind.takes in ("vectors", "audio")  # these always have an example
    if not (question.text or question.picture or question.file or ready):
        st.info(inputs.todo(kind))
        frame.footer(engine, None, None)
        return
    began = time.perf_counter()
    scene = scene_of(engine, question, kind, waiting, long)
    navigation.open_station_state(scene)
    guess_mark(scene.now, name=question.model)
    later = body(scene)
    notices.mark_answered()
    frame.footer(engine, scene.now, time.perf_counter() - began)
    strip.ask(scene, asked)
    if later is not None:
        later()
    ANSWERS.observe(time.perf_counter() - began)


def _kind(engine: Engine, where: DeltaGenerator) -> Kind:
    """Return inputs and outputs of the model; load it if only the model can determine them.

    The frame was drawn without them, so the page is drawn once more.
    """
    model = state.model
    kind = engine.kind(model)
    if kind is not None and private.suited == model:
        return kind
    run_with_progress(
        lambda task: engine.model(model, task),
        key="load",
        label=loading(engine),
        about=model,
        where=where,
    )
    st.rerun(scope="app")


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Show a message for any error in the block, and keep the footer."""
    try:
        yield
    except Stopped:  # shows its own message, with a button to go on
        frame.footer(engine, None, None)
    except (ValueError, LookupError, OSError) as error:
        REFUSALS.labels("input").inc()
        _explain(spoken(error))
        if isinstance(error, TooLongError):
            inputs.offer_beginning(engine, error)
        frame.footer(engine, None, None)
    except BaseException as error:  # last resort: users never see a traceback
        if not is_fault(error):
            raise
        traceback.print_exc(file=sys.stderr)
        _explain(failed(error))
        frame.footer(engine, None, None)


def failed(error: BaseException) -> str:
    """Return the message for an unexpected error."""
    return say(
        "This did not work ({error}: {reason}).", error=type(error).__name__, reason=spoken(error)
    )


def _explain(sentence: str) -> None:
    st.error(escape_markdown(sentence))
    if changes.intervention():
        st.button(say("back to clean"), key="clean-after-error", on_click=changes.clean)
