"""Live frames: all views for one slider step, made while it is dragged, without a page run.

Each run of Explore stores the view state of its session. A browser that sends the session's token
and a step receives the views of that step, from the same runs and functions as the page.
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
    """Return the address of this session's live frames; empty if the server has none.

    It is relative to the page's address, so that a proxy may serve the app below any path. All
    pages are siblings; the first one has the root path.

    Args:
        parts: Functions that draw the parts of a frame, by component; called in another thread.
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
        held.ahead = made  # else the frame's one already holds computed data
    held.view = view
    return f"{PATH.lstrip('/')}/{held.token}"


def long_frame(line: LiveSession, slider: Slider, value: Any, seq: int, shown: Region) -> bytes:
    """Return the visible part of a long map with one slider moved: a blob with the opened head.

    Raises:
        LookupError: The map has to wait for its run; the message gives the reason.
        ValueError: The map has no such part.
        Abandoned: A newer frame of the same session was requested.
    """
    view = line.view
    changes = slider.moved(view.changes, view.place, value)
    if line.following is not None and changes != view.changes:
        line.following.abandon()  # the slider moves on, and its page then requests another run
    made = tiles.ahead_of(view, changes)
    line.ahead = made
    with speaking(view.look.lang), taught():
        part = tiles.quick_part(line, made, shown.level, shown.rows, shown.columns, seq)
    return pack({"part": "frame", "seq": seq}, head=np.frombuffer(part, np.uint8))


def frame(line: LiveSession, slider: Slider, value: Any, seq: int) -> bytes:
    """Return all views of a session with one slider moved: a blob, one byte array per part.

    Raises:
        ValueError: The model cannot take the edit; the message gives the reason.
        Abandoned: A newer frame of the same session was requested.
    """
    task, view = line.begin(), line.view
    # set_temperature or set_window of core/editing/edit_controls.py: converts the value to an edit
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
            PRIORITY.give_way()  # for users over their share
            parts[name] = np.frombuffer(draw(scene), np.uint8)
    return pack({"part": "frame", "seq": seq}, **parts)
