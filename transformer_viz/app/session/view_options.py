"""View options of the maps, apart from model, text and edits."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

import streamlit as st

from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.thumbnails import sentences
from . import notices, visit
from .keys import private

FURTHER = 7  # heads drawn as lines beside the opened one: eight colours can be distinguished

Span = tuple[int, int]
LayerHead = tuple[int, int]


@dataclass(frozen=True)
class Look:
    """View options of a session.

    Attributes:
        token: Chosen row.
        key: Chosen column or None.
        answer: Position whose alternative tokens are shown.
        zoom: Rows and columns of the enlarged part of the map, as half-open ranges.
        overlay: Further heads (layer, head) of the same block drawn as lines.
        top: Number of links per row; weaker ones are left out, as are those below ``threshold``.
        seq: Number that grows with each change, so that a browser can order frames.
    """

    token: int = 0
    answer: int = 0
    key: int | None = None
    words: bool = False
    special: bool = True
    compare: str = "now"
    view: str = "map"
    blocks: str = "one"
    sort: str = "layer"
    scale: str = "head"
    ramp: str = "ink"
    gamma: float = 1.0
    threshold: float = 0.0
    top: int = 0
    overlay: tuple[LayerHead, ...] = ()
    zoom: tuple[Span, Span] | None = None
    lang: str = "en"
    dark: bool = False
    seq: int = 0


#: Fields that are keys of the link too.
LINKED = tuple(field.name for field in fields(Look) if field.name not in ("dark", "seq"))


def look() -> Look:
    """Return the view options of this session."""
    state = st.session_state
    chosen: dict[str, Any] = {name: state[name] for name in LINKED}
    return Look(**chosen, dark=visit.dark(), seq=newest())


def newest() -> int:
    """Return the number of the newest change that the server has received.

    It starts at the clock. A page that outlives its session (restarted server, suspended laptop)
    shows later frames only if their numbers are higher.
    """
    if not private.frame_number:
        private.frame_number = time.time_ns() // 1_000_000
    return private.frame_number


def clamp_view_options(trace: Trace, block: str, about: object) -> None:
    """Clamp view options to this map, and report unusable values of a link.

    Args:
        about: Current input; if it or the block has changed, the selected column, the zoom and the
            overlaid heads are cleared.
    """
    state = st.session_state
    if private.looked_about not in (None, (block, about)):
        state.update(key=None, zoom=None, overlay=())
    private.looked_about = (block, about)
    layers, heads = trace.thumbnail(block).shape[:2]
    rows, columns = map(len, sentences(trace, block))
    if state["key"] is not None and state["key"] >= columns:
        notices.about_link(
            say(
                "There is no column {column} here; there are 0 to {last}.",
                column=state["key"],
                last=columns - 1,
            )
        )
        state["key"] = None
    known = tuple(at for at in state["overlay"] if at[0] < layers and at[1] < heads)[:FURTHER]
    if known != state["overlay"]:
        notices.about_link(
            say(
                "In the link, overlay names heads that are not in this block, or more than "
                "{most}; those were left out.",
                most=FURTHER,
            )
        )
        state["overlay"] = known
    if state["zoom"] is not None and not all(
        0 <= first < last <= count
        for (first, last), count in zip(state["zoom"], (rows, columns), strict=True)
    ):
        notices.about_link(
            say(
                "In the link, zoom is no part of a map of {rows} rows and {columns} columns.",
                rows=rows,
                columns=columns,
            )
        )
        state["zoom"] = None
