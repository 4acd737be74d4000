"""A small app around the chips, a panel and a Plotly map, with a trace made by hand.

The button "reset" begins a new visit in the same tab: nothing is chosen, and each component is
mounted anew, for its key holds the visit's number. The toggle "other chart" hands the chips to a
chart that is not there. The button "older" gives the panel data of an earlier step.
"""

from __future__ import annotations

import streamlit as st

from tests.views.conftest import make_trace
from transformer_viz.app.ui import components
from transformer_viz.components import Chip, ChipRow, Picked, spot
from transformer_viz.components.ruler import rulers
from transformer_viz.views import head_map


def choose(chip: Picked) -> None:
    state["chosen"] = chip


def set_theme(dark: bool) -> None:
    state["told"] = state.get("told", 0) + 1
    state["dark"] = dark


def reset() -> None:
    number = state["visit"] + 1
    state.clear()
    state["visit"] = number


def rows() -> list[ChipRow]:
    """Source tokens are columns, target tokens the rows that produce them."""
    chosen = state.get("chosen")
    source = [
        Chip(
            label,
            column=n,
            mark=special,
            on=bool(chosen and chosen.column == n),
            gone=n == 2,
            lights=(spot("source", n), spot("source", n)),
        )
        for n, (label, special) in enumerate(
            zip(now.source.labels, now.source.special, strict=True)
        )
    ]
    target = [
        Chip(
            label,
            row=n - 1 if n else None,
            on=bool(chosen and n and chosen.row == n - 1),
            lights=(spot("produced", n - 1) if n else None, spot("target", n)),
        )
        for n, label in enumerate(now.target.labels)
    ]
    return [ChipRow("source", source), ChipRow("target", target)]


state = st.session_state
st.set_page_config(layout="wide")
state.setdefault("visit", 0)
visit = state["visit"]
now = make_trace(temperature=3.0, probability=0.25)
state.setdefault("dark", False)
state.setdefault("seq", 3)
other = st.toggle("other chart", key=f"other-{visit}")
if not st.toggle("without chips", key=f"without-{visit}"):
    components.tokens(
        rows(),
        key=f"tokens-{visit}",
        chart="elsewhere" if other else "map",
        sides=rulers(now, "cross"),
        dark=state["dark"],
        chosen=choose,
        theme=set_theme,
    )
words = "".join(
    f'<b data-row="produced:{n}" tabindex="0">{label}</b> '
    for n, label in enumerate(now.produced.labels)
)
with st.container(key="panel"):
    components.panel(
        {"part": "outcome", "seq": state["seq"], "html": f"<p>step {state['seq']}: {words}</p>"},
        key=f"panel-{visit}",
        picked=lambda value: state.update(word=value),
    )
picture = head_map(now, "cross", state.get("layer", 1), 2, dark=state["dark"])
with st.container(key="map"):
    config = {"displayModeBar": False}
    st.plotly_chart(picture, key=f"map-{visit}", theme=None, config=config)
st.button("reset", on_click=reset)
st.button("again")
st.button("older", on_click=lambda: state.update(seq=2))
st.button("newer", on_click=lambda: state.update(seq=5))
st.button("other layer", on_click=lambda: state.update(layer=0))
st.text(
    f"chosen {state.get('chosen')} · told {state.get('told', 0)} {state['dark']} · "
    f"word {state.get('word')} · visit {visit}"
)
