"""A small app around the two components and a map, with a trace made by hand.

Parameters: ``block``; ``change`` (any text: the change since another run); ``layers`` and ``heads``
(a model of that size instead); ``dark`` (draw for a dark page whatever it is); ``tiles`` (the key
of the chart whose rows and columns the tiles share, if it is not the map). The toggle "other
chart" hands the chips to a chart that is not there.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import streamlit as st

from tests.views.conftest import make_trace
from transformer_viz.components import Chip, ChipRow, Picked
from transformer_viz.pages import mount
from transformer_viz.records import Trace
from transformer_viz.views import head_map


def large(layers: int, heads: int) -> Trace:
    """A model of any size: each head looks a few words back, further from head to head."""
    query, key = np.mgrid[:64, :64]
    back = np.arange(heads)[:, None, None] % 12
    tile = np.where(query - key == back, 255, np.where(key == 0, 60, 0)).astype(np.uint8)
    layer, head = np.mgrid[:layers, :heads].reshape(2, -1)
    table = pd.DataFrame(
        {"stack": "encoder", "block": "self", "layer": layer, "head": head}
        | {"entropy": 1.5, "max": 1.0}
    )
    tiles = {"encoder": np.broadcast_to(tile, (layers, heads, 64, 64))}
    return dataclasses.replace(make_trace(), heads=table, thumbnails=tiles)


def open_head(layer: int, head: int) -> None:
    state["place"] = (layer, head)


def choose(chip: Picked) -> None:
    state["chosen"] = chip


def set_theme(dark: bool) -> None:
    state["told"] = state.get("told", 0) + 1
    state["dark"] = dark


def rows() -> list[ChipRow]:
    """Source tokens are columns, target tokens the rows that produce them."""
    chosen = state.get("chosen")
    source = [
        Chip(label, column=n, mark=special, on=bool(chosen and chosen.column == n), gone=n == 2)
        for n, (label, special) in enumerate(
            zip(now.source.labels, now.source.special, strict=True)
        )
    ]
    target = [
        Chip(label, row=n - 1 if n else None, on=bool(chosen and n and chosen.row == n - 1))
        for n, label in enumerate(now.target.labels)
    ]
    return [ChipRow("source", source), ChipRow("target", target)]


state, asked = st.session_state, st.query_params
st.set_page_config(layout="wide")
place = state.setdefault("place", (1, 2))
block = asked.get("block", "cross")
now, before = make_trace(temperature=3.0, probability=0.25), make_trace()
if "layers" in asked:
    now, before, block = large(int(asked["layers"]), int(asked["heads"])), None, "encoder"
state.setdefault("dark", "dark" in asked)
other = st.toggle("other chart")
if not st.toggle("without chips"):
    mount.tokens(
        rows(),
        key="tokens",
        chart="elsewhere" if other else "map",
        dark=state["dark"],
        chosen=choose,
        theme=set_theme,
    )
left, right = st.columns([10, 9])
with left.container(border=True):
    mount.heads(
        now,
        block,
        key="heads",
        before=before if "change" in asked else None,
        selected=place,
        opened=open_head,
        chart=asked.get("tiles", "map"),
    )
    st.text("below the tiles")
with right.container(border=True):
    if "layers" not in asked:
        picture = head_map(now, block, *place, dark=state["dark"])
        st.plotly_chart(picture, key="map", theme=None, config={"displayModeBar": False})
st.button("again")
st.text(
    f"place {place} · chosen {state.get('chosen')} · told {state.get('told', 0)} {state['dark']}"
)
