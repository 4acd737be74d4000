"""Differences between the heads of two runs, on the tokens that both read."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.guesses import guess_entry
from ...core.palette import palette
from ...core.sites import called
from ...i18n import say
from ...metrics.comparison.comparing import Comparison, HeadMaps
from ..charts.head_map import HEIGHTS, ROW
from ..charts.labelled_heatmap import OVERLAY, clickable, labelled_heatmap
from ..charts.theme import captioned, figure, scale

TILE = 16  # cells along a side of a tile; a larger map shows its largest changes
GAP = 2  # cells between two tiles, and twice as many below them, for the number
HIGH = 96  # pixels of a row of tiles
SIDES = ("a", "b", "difference")


def compared_atlas(
    comparison: Comparison,
    block: str,
    *,
    matched: bool = False,
    opened: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw every head of a map as a tile of weight differences, second side minus first.

    All tiles share one symmetric scale; the number below each is its divergence in bits. A click
    gives ``[layer, head]`` of the first side.

    Args:
        comparison: Comparison of two runs.
        block: ``encoder``, ``decoder`` or ``cross``.
        matched: Compare each head with its most similar one, not with that of the same site.
        opened: Layer and head to outline.
        dark: Use colours for a dark background.

    Raises:
        LookupError: A map that the two sides do not share.
    """
    pairs = comparison.pairs(block, matched)
    if not pairs:
        comparison.maps(block, 0, 0)  # raises an error that lists the maps
    tiles = {
        own: _tile(comparison.maps(block, *own, other).difference) for own, other in pairs.items()
    }
    high, wide = np.max([tile.shape for tile in tiles.values()], axis=0)
    layers, heads = sorted({one[0] for one in pairs}), sorted({one[1] for one in pairs})
    down, across = high + 3 * GAP, wide + GAP
    canvas = np.full((down * len(layers), across * len(heads)), np.nan, np.float32)
    for (layer, head), tile in tiles.items():
        y, x = down * layers.index(layer), across * heads.index(head)
        canvas[y : y + tile.shape[0], x : x + tile.shape[1]] = tile
    limit = comparison.limit(matched)
    picture, colours = figure(dark), palette(dark)
    middle_x = np.array([across * n + (wide - 1) / 2 for n in range(len(heads))])
    middle_y = np.array([down * n + (high - 1) / 2 for n in range(len(layers))])
    picture.update_layout(
        height=HIGH * len(layers) + 34,
        margin={"l": 34, "t": 30, "r": 4, "b": 4},
        xaxis={
            "side": "top",
            "range": [-1, canvas.shape[1]],
            "tickvals": middle_x,
            "ticktext": [f"H{head}" for head in heads],
        },
        yaxis={
            "range": [canvas.shape[0], -1],
            "tickvals": middle_y,
            "ticktext": [f"L{layer}" for layer in layers],
        },
        xaxis2={"overlaying": "x", "range": [-1, canvas.shape[1]], "visible": False},
        yaxis2={"overlaying": "y", "range": [canvas.shape[0], -1], "visible": False},
        hovermode="closest",
    )
    picture.add_trace(_numbers(comparison, block, matched, layers, heads))
    _name_hidden(picture, layers, heads)
    picture.add_trace(
        go.Heatmap(
            z=canvas,
            zmin=-limit,
            zmax=limit,
            colorscale=scale(colours.changes),
            showscale=False,
            hoverinfo="skip",
            hoverongaps=False,
        )
    )
    places = list(pairs)
    x = np.array([middle_x[heads.index(head)] for _, head in places])
    y = np.array([middle_y[layers.index(layer)] for layer, _ in places])
    bits = [comparison.divergence(block, place, matched) for place in places]
    for place, left, top in zip(places, x, y, strict=True):
        box = {"x0": left - wide / 2 - 0.5, "x1": left + wide / 2 + 0.5}
        box |= {"y0": top - high / 2 - 0.5, "y1": top + high / 2 + 0.5}
        line = {"color": colours.accent, "width": 3} if place == opened else {}
        line = line or {"color": colours.line, "width": 1}
        picture.add_shape(type="rect", line=line, layer="above", **box)
    picture.add_trace(
        go.Scatter(
            x=x,
            y=y + high / 2 + 1.4 * GAP,
            text=["–" if np.isnan(value) else f"{value:.2f}" for value in bits],
            mode="text",
            textfont={"size": 14, "color": colours.ink},
            hoverinfo="skip",
        )
    )
    names = [
        f"L{own[0]} H{own[1]}" if own == other else f"L{own[0]} H{own[1]} · L{other[0]} H{other[1]}"
        for own, other in pairs.items()
    ]
    data = np.array(
        [[*place, np.nan_to_num(value)] for place, value in zip(places, bits, strict=True)]
    )
    hover = "%{text}: %{customdata[2]:.3f}"
    clicks = clickable(x, y, data, 0.62 * HIGH, hover, text=names, **OVERLAY)
    picture.add_trace(clicks)
    small = max(comparison.maps(block, *places[0], pairs[places[0]]).a.shape) <= TILE
    return captioned(picture, _caption(block, limit, matched, small), comparison.card)


def _numbers(
    comparison: Comparison, block: str, matched: bool, layers: list[int], heads: list[int]
) -> go.Heatmap:
    """Return the divergences as an invisible heatmap, read by `as_table` instead of the cells."""
    bits = [
        [comparison.divergence(block, (layer, head), matched) for head in heads] for layer in layers
    ]
    return go.Heatmap(z=bits, visible=False, showscale=False, xaxis="x3", yaxis="y3")


def _name_hidden(picture: go.Figure, layers: list[int], heads: list[int]) -> None:
    for axis, letter, numbers in (("xaxis3", "H", heads), ("yaxis3", "L", layers)):
        names = [f"{letter}{number}" for number in numbers]
        ticks = {"tickvals": list(range(len(names))), "ticktext": names}
        over = axis[0]
        picture.update_layout({axis: {"overlaying": over, "visible": False, **ticks}})


def _tile(difference: np.ndarray) -> np.ndarray:
    """Return a map of at most `TILE` cells along a side, pooled by the largest absolute change."""
    rows, columns = (np.array_split(np.arange(size), min(size, TILE)) for size in difference.shape)
    if max(difference.shape) <= TILE:
        return difference.astype(np.float32)
    found = np.zeros((len(rows), len(columns)), np.float32)
    for i, some in enumerate(rows):
        for j, others in enumerate(columns):
            part = difference[np.ix_(some, others)].ravel()
            found[i, j] = part[np.abs(part).argmax()]
    return found


def _caption(block: str, limit: float, matched: bool, small: bool) -> str:
    beside = (
        say("each beside the head that looks most alike")
        if matched
        else say("each beside the head of the same place")
    )
    pooled = "" if small else say("of neighbouring cells the one that changed most")
    return " · ".join(
        filter(
            None,
            (
                called(block),
                say(
                    "second side minus first, colours from −{limit:.2g} to {limit:.2g}", limit=limit
                ),
                say("below: divergence in bits, 0 alike, 1 nothing in common"),
                beside,
                pooled,
            ),
        )
    )


def compared_map(
    maps: HeadMaps, which: str, *, limit: float | None = None, dark: bool = False
) -> go.Figure:
    """Draw one head on the shared tokens: first side (``a``), second (``b``), or the change.

    Args:
        maps: From `Comparison.maps`.
        which: ``a``, ``b`` or ``difference``.
        limit: End of the colours; if omitted, the largest weight of both sides, or change.
        dark: Use colours for a dark background.

    Raises:
        ValueError: Another value of ``which``.
    """
    if which not in SIDES:
        raise ValueError(f"There is no side {which!r}; choose of {', '.join(SIDES)}.")
    shown = np.asarray(getattr(maps, which), np.float32)
    change = which == "difference"
    if limit is None:
        limit = maps.limit if change else float(max(maps.a.max(), maps.b.max()))
    picture = labelled_heatmap(
        shown,
        maps.rows,
        [*maps.columns[:-1], say("elsewhere")],
        (-(limit or 1.0) if change else 0, limit or 1.0),  # equal runs have the limit 0
        hover="%{y} → %{x}: %{z:.4f}",
        row_height=ROW,
        heights=HEIGHTS,
        dark=dark,
    )
    said = say("colours from 0 to {most:.2g}", most=limit)
    if change:
        said = say("colours from −{limit:.2g} to {limit:.2g}", limit=limit)
    told = " · ".join((say("rows look at columns"), said))
    return captioned(picture, told, guess_entry(maps.guesses))
