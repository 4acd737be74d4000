"""Open head of a long text: a map that is fetched in tiles, and its limits."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ...components.long_map import TileLine, long_map_data
from ...core.sites import called
from ...i18n import mark, say
from ...metrics.attention.tile_pyramid import TILE, levels
from ...views.numbers import beyond
from ..engine.trace_jobs import MAX_TOKENS
from ..live import ahead, frames, tiles
from ..live.registry import FAR, WORDS
from ..live.registry import TILE as DOOR
from ..render import payloads
from ..session import notices, view_options
from ..session.scene import Scene
from ..session.state import state
from ..ui import components, layout
from ..ui.text_format import escape_markdown, spoken
from . import head_card
from .downloads import take

SHORT = mark(
    "Of a text of more than {most:,} tokens only the map is drawn, token by token: lines, q·k, "
    "whole words, leaving marks out and guesses need a shorter one."
)
CHANGES = mark(
    "The difference: each weight less what it was before the change, a coarser cell the largest of "
    "them. Two changes in a hundred lie beyond the ends of the colours. Files hold the run of now."
)


def clamp_selection(scene: Scene) -> Scene:
    """Clamp the chosen row and column to the map, and return the scene."""
    rows, columns = scene.now.map_shape(scene.place.map_name, scene.place.layer)
    notices.clamp_index("token", rows, mark("word"))
    if state.key is not None and state.key >= columns:
        state.key = None
    return replace(scene, look=view_options.look())


def opened(scene: Scene) -> None:
    """Draw the card of the open head."""
    place = scene.place
    with layout.row("center", spread=True):
        kind = layout.quiet_span(called(place.map_name))
        layout.heading(f"{place.site.label} {kind}", fit=True)
        take(scene)
    try:
        data = long_map(scene)
    except (ValueError, LookupError) as error:
        st.caption(escape_markdown(spoken(error)))
        return
    components.head(
        data,
        key="head-view",
        picked=head_card.pick,
        zoomed=head_card.zoom,
        drawn=head_card.take_drawing,
    )


def long_map(scene: Scene) -> bytes:
    """Return the head's map as bytes for the browser.

    Raises:
        LookupError: A map without tiles; the message gives the reason.
    """
    place, (run, before) = scene.place, scene.shown
    if not run.intervention:  # the changed run is not finished
        before = None
    address = frames.line(scene)
    made = ahead.of_scene(scene)
    line = TileLine(
        address and address + DOOR,
        tiles.name_of(scene) if made is None else made.of,
        TILE,
        levels(run.map_shape(place.map_name, place.layer)),
        ahead=made is not None,
        words=address and address + WORDS,
        far="" if before is not None else address and address + FAR,
    )
    return long_map_data(
        run,
        place.map_name,
        place.layer,
        place.head,
        line,
        payloads.map_look(scene),
        note=" ".join(_notes(scene, made, before is not None)),
        before=before,
    )


def _notes(scene: Scene, made: ahead.Ahead | None, change: bool) -> list[str]:
    """Return notes on omissions, and on the model and the run."""
    if scene.awaited and scene.look.compare != "before":
        return [say(ahead.OLDER) if made is None else made.note]
    notes = [*([say(CHANGES)] if change else []), say(SHORT, most=MAX_TOKENS)]
    return [*notes, *filter(None, [beyond(scene.now)])]
