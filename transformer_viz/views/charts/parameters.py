"""Where in the model are its parameters?"""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from ...core.palette import Palette, palette
from ...i18n import join_words, mark, numeral, say
from .theme import captioned, figure

ROW, AROUND = 26, 100  # pixels of a row, and of the parts around the rows
CALLED = {
    "embedding": mark("embedding"),
    "self": mark("self"),
    "cross": mark("cross"),
    "feed-forward": mark("feed-forward"),
    "norms": mark("norms"),
    "output": mark("output"),
    "other": mark("other"),
}
BLOCKS = tuple(CALLED)


def parameters(blocks: pd.DataFrame, *, dark: bool = False) -> go.Figure:
    """Draw a stacked bar for each layer and for the parts around the layers, divided by block.

    Args:
        blocks: The columns ``place`` (``encoder L0``, ``embedding``; one bar each, in this order),
            ``block`` (one of `BLOCKS`) and ``parameters`` (their number).
        dark: Use colours for a dark background.
    """
    places = list(dict.fromkeys(blocks["place"]))
    tall = ROW * max(1, len(places))
    picture = figure(
        dark,
        barmode="stack",
        height=AROUND + tall,
        margin={"l": 96, "r": 16, "t": 34, "b": 64},
        showlegend=True,
        legend={
            "orientation": "h",
            "y": -16 / tall,
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        xaxis={
            "side": "top",
            "showgrid": True,
            "gridcolor": palette(dark).line,
            "rangemode": "tozero",
        },
        yaxis={"autorange": "reversed", "categoryorder": "array", "categoryarray": places},
    )
    colours = _colours(palette(dark))
    for block in BLOCKS:
        mine = blocks[blocks["block"] == block]
        if len(mine):
            picture.add_bar(
                x=mine["parameters"],
                y=mine["place"],
                orientation="h",
                name=say(CALLED[block]),
                marker={"color": colours[block], "line": {"width": 0}},
                hovertemplate=say("%{{y}}, {block}: %{{x:,}} numbers", block=say(CALLED[block]))
                + "<extra></extra>",
            )
    return captioned(picture, _caption(blocks))


def _colours(colours: Palette) -> dict[str, str]:
    return {
        "embedding": colours.quiet,
        "self": colours.accent,
        "cross": colours.amounts[3],
        "feed-forward": colours.warm,
        "norms": colours.ink,
        "output": colours.hatch,
        "other": colours.line,
    }


def _caption(blocks: pd.DataFrame) -> str:
    """Return the total, and the share of each kind of block, largest first."""
    whole = int(blocks["parameters"].sum())
    kinds = blocks.groupby("block", sort=False)["parameters"].sum().sort_values(ascending=False)
    shares = join_words(
        f"{say(CALLED.get(block, block))} {numeral(count / max(1, whole), '.0%')}"
        for block, count in kinds.items()
    )
    return say(
        "{count:,} parameters: {shares} · tables that are shared count once, where they come first",
        count=whole,
        shares=shares,
    )
