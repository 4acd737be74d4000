"""Live frames: the pictures of one step of a slider, made while it is dragged, without a page run.

Each run of Explore notes what its visitor looks at. A browser that names the visit's token and a
step gets the pictures of that step, from the same runs and the same functions as the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import ref

import numpy as np

from ...components.blob import pack
from ...components.edit_sliders import Slider
from ...components.js_texts import taught
from ...i18n import speaking
from ..engine.turns.priority import PRIORITY
from ..render.payloads import PARTS
from ..session.keys import private
from ..session.scene import Scene, scene_at
from . import ahead, tiles
from .registry import EXCHANGE, PATH, LiveSession, ViewState
from .tiles import Region

Parts = Mapping[str, Callable[[Scene], bytes]]


def line(scene: Scene, parts: Parts = PARTS) -> str:
    """The address that gives this visitor's live frames; empty where the server gives none.

    It is relative to the page's own, so that a proxy may serve the app below any path; all pages
    stand side by side, the first one at the path itself.

    Args:
        parts: what a frame holds, by the name of its component; it is drawn in another thread.
    """
    if not EXCHANGE.is_open:
        return ""
    view = ViewState(
        scene.engine,
        scene.question,
        scene.kind,
        scene.place,
        scene.changes,
        scene.look,
        parts,
    )
    if scene.is_long:
        view = replace(view, long=True, before=ref(scene.before), now=ref(scene.now))
        view = replace(view, awaited=scene.awaited)
    held: LiveSession | None = private.live
    if held is None:
        held = private.live = LiveSession(view)
        EXCHANGE.add(held)
    made = ahead.of_scene(scene)
    if made is None or held.ahead is None or held.ahead.of != made.of:
        held.ahead = made  # else that of a frame knows something of it already
    held.view = view
    return f"{PATH.lstrip('/')}/{held.token}"


def long_frame(line: LiveSession, slider: Slider, value: Any, seq: int, shown: Region) -> bytes:
    """The part of a long map that a browser shows, with one slider moved: one blob, whose only part
    is the opened head.

    Raises:
        LookupError: a map that has to wait for its run; says why.
        ValueError: a part that the map does not have.
        Abandoned: a newer frame of the same visit was asked for.
    """
    view = line.view
    changes = slider.moved(view.changes, view.place, value)
    if line.following is not None and changes != view.changes:
        line.following.abandon()  # the hand moves on, and its page asks for another run then
    made = tiles.ahead_of(view, changes)
    line.ahead = made
    with speaking(view.look.lang), taught():
        part = tiles.quick_part(line, made, shown.level, shown.rows, shown.columns, seq)
    return pack({"part": "frame", "seq": seq}, head=np.frombuffer(part, np.uint8))


def frame(line: LiveSession, slider: Slider, value: Any, seq: int) -> bytes:
    """All pictures of a visit with one slider moved: one blob, an array of bytes for each part.

    Raises:
        ValueError: an edit that the model cannot take; says why.
        Abandoned: a newer frame of the same visit was asked for.
    """
    task, view = line.begin(), line.view
    # set_temperature or set_window of core/editing/edit_controls.py: the value becomes an edit
    changes = slider.moved(view.changes, view.place, value)
    look = replace(view.look, seq=seq)
    parts = {}
    with speaking(look.lang), taught():
        scene = scene_at(
            view.engine,
            view.question,
            view.kind,
            view.place,
            changes,
            look,
            task,
            long=view.long,
        )
        for name, draw in (view.parts or PARTS).items():
            task.check()
            PRIORITY.give_way()  # one of a visitor who has had its share of late
            parts[name] = np.frombuffer(draw(scene), np.uint8)
    return pack({"part": "frame", "seq": seq}, **parts)
