"""Card of the open head: map, lines, or the numbers behind one weight; and its chosen tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from ...core.sites import Site, called
from ...i18n import mark, say
from ...metrics.attention.map_cells import Cells, cells
from ..render import payloads
from ..session import notices, url_state, view_options, widget_sync
from ..session.scene import Scene
from ..session.state import state
from ..session.view_options import FURTHER
from ..shell import presenter
from ..ui import components, layout
from ..ui.text_format import escape_markdown, spoken
from . import token_chips
from .downloads import take

VIEWS = {"map": mark("Map"), "lines": mark("Lines"), "qk": mark("q·k")}
DRAWN = {key.name: key for key in url_state.KEYS if key.name in url_state.DRAWN}
NO_COLUMN = mark("any column")
CHANGED = mark("q·k shows the changed run: a difference of two runs is no sum of its own.")


def clamp_selection(scene: Scene) -> tuple[Scene, Cells]:
    """Clamp the chosen row and column to the map; return the scene and the cells of that map."""
    found = cells_of(scene)
    clamp_row(found)
    token_chips.apply_picked(found)
    key = state.key
    column = found.column_of(key)
    state.key = None if key is None or column is None else found.parts[column][0]
    return replace(scene, look=view_options.look()), found


def cells_of(scene: Scene) -> Cells:
    """Return the cells of the open head in the shown run; q·k uses the model's tokens only."""
    seen, place = scene.look, scene.place
    grouped = seen.view != "qk"
    return cells(
        scene.shown[0],
        place.map_name,
        place.layer,
        place.head,
        words=seen.words and grouped,
        special=seen.special or not grouped,
    )


def clamp_row(found: Cells) -> None:
    """Set the chosen row to the first token of a shown row."""
    row = found.row_of(state.token)
    if row is None:
        notices.clamp_index("token", 1 + max(map(max, found.members)), mark("word"))
        row = found.row_of(state.token) or 0
    state.token = found.members[row][0]


def opened(scene: Scene, found: Cells) -> None:
    """Draw the card of the open head."""
    place = scene.place
    with layout.row("center", spread=True, key="hand-head"):
        kind = layout.quiet_span(called(place.map_name))
        layout.heading(f"{place.site.label} {kind}", fit=True)
        with layout.row(fit=True):
            presenter.steps(scene)
            st.segmented_control(
                say("view"),
                list(VIEWS),
                key="view",
                format_func=lambda view: say(VIEWS[view]),
                required=True,
                label_visibility="collapsed",
            )
            take(scene)
    try:
        components.head(
            payloads.head(scene), key="head-view", picked=pick, zoomed=zoom, drawn=take_drawing
        )
    except (ValueError, LookupError) as error:
        st.caption(escape_markdown(spoken(error)))
    if scene.look.view == "qk" and scene.shown[1] is not None:
        st.caption(say(CHANGED))
    with layout.row("bottom", key="fold-row"):
        _words(scene, found)
        if scene.look.view == "lines":
            _further(scene)


def _words(scene: Scene, found: Cells) -> None:
    """Draw the chosen row and column as lists, as an alternative to clicking a cell."""
    rows, columns = found.rows.labels, found.columns.labels
    notices.rewrite_widget("token")
    notices.rewrite_widget("key")
    st.selectbox(
        say("row"),
        [tokens[0] for tokens in found.members],
        key="token",
        format_func=lambda token: rows[found.row_of(token) or 0],
        width=layout.TOKEN_WIDTH,
        help=say("The word that looks; a click into the picture chooses it too."),
    )
    st.selectbox(
        say("column"),
        [tokens[0] for tokens in found.parts],
        index=None,
        key="key",
        format_func=lambda token: columns[found.column_of(token) or 0],
        placeholder=say("the strongest") if scene.look.view == "qk" else say(NO_COLUMN),
        width=layout.TOKEN_WIDTH,
        help=say("The word that is looked at."),
    )


def _further(scene: Scene) -> None:
    """Draw the list of heads whose lines are drawn beside those of the open one."""
    place = scene.place
    layers, heads = scene.now.thumbnail(place.map_name).shape[:2]
    own = (place.layer, place.head)
    widget_sync.show({"also": [at for at in scene.look.overlay if at != own]})
    st.multiselect(
        say("also show"),
        [(n, h) for n in range(layers) for h in range(heads) if (n, h) != own],
        key="also",
        format_func=lambda at: Site("", "", *at).label,
        max_selections=FURTHER,
        on_change=lambda: widget_sync.moved("also", _also),
        placeholder=say("other heads of this block"),
        width=320,
    )


def _also() -> None:
    chosen = (at for at in st.session_state["also"] if isinstance(at, tuple))
    state.overlay = tuple(chosen)


def pick(said: object) -> None:
    """Choose the row and column of a click in the picture, or clear the column without one."""
    if not isinstance(said, Mapping):
        return
    row, column = (_number(said.get(name)) for name in ("row", "column"))
    widget_sync.choose(key=column, **({} if row is None else {"token": row}))


def _number(said: object) -> int | None:
    return said if isinstance(said, int) and not isinstance(said, bool) and said >= 0 else None


def zoom(said: object) -> None:
    """Store the enlarged part of the map; `look.settle` drops parts outside the map."""
    match said:
        case {"rows": [int(a), int(b)], "columns": [int(c), int(d)]}:
            state.zoom = ((a, b), (c, d))
        case _:
            state.zoom = None


def take_drawing(said: object) -> None:
    """Keep a picture's display options for the link, if valid."""
    if not isinstance(said, Mapping):
        return
    for name, key in DRAWN.items():
        if name in said:
            try:
                st.session_state[name] = key.read(str(said[name]))
            except ValueError:  # browser input is untrusted
                continue
