"""Attention over the picture: the patches that one patch attends to, and class gradients."""

from __future__ import annotations

import base64
import io
from html import escape

import numpy as np
import streamlit as st
from PIL import Image

from ... import views
from ...core.interventions import Intervention
from ...core.trace import Trace
from ...i18n import mark, say
from ..engine.query import whole_layer
from ..render.outcome_html import class_names
from ..session import notices, visit, widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..ui import layout
from ..ui.progress import run_with_progress
from .plotly_chart import STILL, clicked

CHART = "over-image"
QUESTIONS = {
    "weights": mark("Where in the picture does this patch look?"),
    "gradients": mark("Which of its links speak for a class, and which against it?"),
}
BESIDE = mark("Where in the picture does this word look?")
OVER = {"weights": mark("What it looks at"), "gradients": mark("What speaks for a class")}
GRADIENTS = mark("How the class’s logit would move if one of these weights grew a little.")
TALL = 150  # height of the plain picture in pixels


def patches(scene: Scene) -> None:
    """Draw the picture with the chosen row of the open head over it; a click chooses a row."""
    with st.container(border=True, key="card-patches"):
        with layout.row("center", spread=True):
            over = "weights" if scene.kind.eyes else state.over
            question = BESIDE if scene.kind.eyes else QUESTIONS[over]
            layout.heading(say(question), fit=True)
            if not scene.kind.eyes:  # words are no classes
                st.segmented_control(
                    say("over the picture"),
                    list(OVER),
                    key="over",
                    format_func=lambda over: say(OVER[over]),
                    required=True,
                    label_visibility="collapsed",
                )
        with st.container(key="pictures-patches"):
            left, right = st.columns(layout.WIDER_LEFT)
            shown = scene.engine.picture(scene.question)
            with right:
                _plain(shown)
                now, before = _gradients(scene) if over == "gradients" else scene.shown
            with left:
                alt = _picture(scene, now, before, over, shown)
            right.html(f'<span class="tv-quiet" data-what="patch">{escape(alt)}</span>')


def _plain(shown: np.ndarray) -> None:
    """Draw the picture alone, as the model reads it."""
    held = io.BytesIO()
    Image.fromarray(shown).save(held, "PNG")
    source = base64.b64encode(held.getvalue()).decode()
    alt = say("the picture as the model reads it")
    height, width = shown.shape[:2]
    caption = say("as the model reads it, {width} × {height} pixels", width=width, height=height)
    st.html(
        f'<figure class="tv-picture"><img height="{TALL}" alt="{alt}" '
        f'src="data:image/png;base64,{source}"><figcaption class="tv-quiet">{caption}'
        "</figcaption></figure>"
    )


def _picture(scene: Scene, now: Trace, before: Trace | None, over: str, shown: np.ndarray) -> str:
    """Draw the picture, or its change; return its alternative text."""
    place = scene.place
    figure = views.over_image(
        now,
        place.map_name,
        place.layer,
        place.head,
        state.token,
        shown,
        what=over,
        minus=before,
        dark=visit.dark(),
        most=scene.most if over == "weights" and before is None else None,
    )
    st.plotly_chart(
        figure,
        key=CHART,
        theme=None,
        config=STILL,
        on_select=_pick,
        selection_mode="points",
        alt=figure.layout.meta["alt"],
    )
    return str(figure.layout.meta["alt"])


def _gradients(scene: Scene) -> tuple[Trace, Trace | None]:
    """Choose a class; return the run with its gradients, and the one to subtract."""
    chosen = _class(scene)
    now, before = scene.shown
    clean = Intervention()
    drawn = _moved(scene, chosen, scene.changes if now is scene.now else clean)
    return drawn, None if before is None else _moved(scene, chosen, clean)


def _class(scene: Scene) -> int:
    """Return the class in question: the chosen one, or the clean run's most probable one."""
    names = class_names(scene)
    produced = scene.before.produced
    assert produced is not None
    if state.chosen is not None:
        notices.clamp_index("chosen", len(names), mark("class"))
    st.selectbox(
        say("class"),
        range(len(names)),
        index=None,
        key="chosen",
        format_func=names.__getitem__,
        placeholder=say("the most probable"),
        width=240,
    )
    st.caption(say(GRADIENTS))
    return produced.ids[0] if state.chosen is None else int(state.chosen)


def _moved(scene: Scene, chosen: int, changes: Intervention) -> Trace:
    """Return a run with the gradient of the class's logit for each weight of the open layer."""
    place = whole_layer(scene.place.map_name, scene.place.layer)
    return run_with_progress(
        lambda task: scene.engine.gradients(scene.question, chosen, changes, place, task),
        key="gradients-changed" if changes else "gradients-clean",
        label=say("Running the model for its gradients ..."),
        about=(scene.question, chosen, changes.to_json()),
    )


def _pick() -> None:
    chosen = clicked(CHART)
    if chosen:
        widget_sync.choose(token=chosen[0])
