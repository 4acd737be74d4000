"""How the pictures look just now: what is chosen about them, apart from model, words and edits."""

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

FURTHER = 7  # heads beside the opened one in the lines: colours can tell eight apart

Span = tuple[int, int]
LayerHead = tuple[int, int]


@dataclass(frozen=True)
class Look:
    """What is chosen about the pictures.

    ``token`` is the chosen row of the model, ``key`` the chosen column or None, ``answer`` the
    place whose other words are shown; ``zoom`` the rows
    and columns of the map that are enlarged, each from its first to behind its last; ``overlay``
    the heads (layer, head) of the same block whose lines are drawn too; ``top`` and ``threshold``
    leave out weak links; ``seq`` grows with each change, so that a browser knows what is newer.
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


#: The fields that are keys of the link as well.
LINKED = tuple(field.name for field in fields(Look) if field.name not in ("dark", "seq"))


def look() -> Look:
    """The look of this visit as it stands."""
    state = st.session_state
    chosen: dict[str, Any] = {name: state[name] for name in LINKED}
    return Look(**chosen, dark=visit.dark(), seq=newest())


def newest() -> int:
    """The number of the newest change that the server has heard of.

    It begins with the clock: a page that outlives its visit (a restarted server, a laptop that
    slept) shows the next visit's pictures only if they are newer than those that it has.
    """
    if not private.frame_number:
        private.frame_number = time.time_ns() // 1_000_000
    return private.frame_number


def clamp_view_options(trace: Trace, block: str, about: object) -> None:
    """Bring what is chosen to what this map has; what a link named in vain is told.

    Args:
        about: what was asked; where it is another than last time, or the block is, what was
            chosen among the old columns and heads is let go.
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
