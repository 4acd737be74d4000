"""What does every head of this block look like at a glance?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ..metrics.tiles import head_tiles, largest_change
from ..records import Trace
from .cells import clickable
from .theme import captioned, figure, palette, scale

TILE = 132  # pixels of a layer's tiles, gap included, where there is room
HEIGHTS = (240, 480, 720)  # least, most while tiles can shrink to LEAST, most of all
LEAST = 44
INNER = 0.9  # share of a tile that its picture fills; the rest is gap


def overview(
    trace: Trace,
    block: str,
    *,
    before: Trace | None = None,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
    height: int | None = None,
) -> go.Figure:
    """All heads of a block as one tiled picture; rows are layers, columns are heads.

    Each tile is coloured by its own largest weight, so that tiles show shapes, not amounts.

    Args:
        trace: the run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        before: another run; then the change since it is drawn, on one scale for all tiles.
        selected: layer and head to outline.
        dark: colours for a dark background.
        height: pixels; left out, the number of layers decides.

    Raises:
        LookupError: a map that the trace lacks; names those it has.
        ValueError: the two runs speak about different words.
    """
    change = before is not None
    shown = head_tiles(trace, block, before)
    picture = _frame(shown.shape[:2], dark, height)
    picture.add_trace(_heatmap(shown, dark, change))
    picture.add_trace(_outlines(list(np.ndindex(shown.shape[:2])), palette(dark).line, 1))
    if selected is not None:
        picture.add_trace(_outlines([selected], palette(dark).accent, 3))
    now = trace.thumbnail(block).astype(np.float32) / 255
    picture.add_trace(_clicks(now, picture.layout.height))
    return captioned(picture, caption(block, change))


def _frame(shape: tuple[int, ...], dark: bool, height: int | None) -> go.Figure:
    layers, heads = shape
    picture = figure(dark, height=height or _height(layers))
    rows = {"tickmode": "array", "tickvals": list(range(layers))}
    columns = {"tickmode": "array", "tickvals": list(range(heads))}
    picture.update_layout(
        xaxis=columns | {"ticktext": [f"H{h}" for h in range(heads)], "side": "top"},
        yaxis=rows | {"ticktext": [f"L{n}" for n in range(layers)]},
        margin={"t": 28, "l": 34},
        hovermode="closest",
    )
    picture.update_xaxes(range=[-0.5, heads - 0.5])
    picture.update_yaxes(range=[layers - 0.5, -0.5])
    return picture


def _height(layers: int) -> int:
    least, most, end = HEIGHTS
    return min(end, max(least, min(most, layers * TILE + 40), layers * LEAST + 40))


def _heatmap(shown: np.ndarray, dark: bool, change: bool) -> go.Heatmap:
    """One heatmap for all tiles: numeric places, gaps are cells without a value."""
    layers, heads, height, width = shown.shape
    z = np.full((layers * (height + 1), heads * (width + 1)), np.nan, np.float32)
    tiles = z.reshape(layers, height + 1, heads, width + 1)
    tiles[:, :height, :, :width] = shown.transpose(0, 2, 1, 3)
    limit = largest_change(shown) if change else 1.0
    colours = palette(dark)
    return go.Heatmap(
        z=z,
        x=_edges(heads, width),
        y=_edges(layers, height),
        zmin=-limit if change else 0,
        zmax=limit,
        colorscale=scale(colours.changes if change else colours.amounts),
        showscale=False,
        hoverinfo="skip",
    )


def _edges(tiles: int, cells: int) -> np.ndarray:
    """Where cells begin and end: each tile fills `INNER` of its unit, the rest is one gap cell."""
    inside = np.linspace(-INNER / 2, INNER / 2, cells + 1)
    starts = (np.arange(tiles)[:, None] + inside[None, :]).reshape(-1)
    return np.append(starts, tiles - 1 + 1 - INNER / 2)


def _clicks(now: np.ndarray, height: float) -> go.Scatter:
    layers, heads = now.shape[:2]
    layer, head = np.mgrid[:layers, :heads].reshape(2, -1)
    size = max(12.0, 0.85 * height / max(layers, 1))
    most = now.max(axis=(2, 3)).reshape(-1)
    data = np.stack([layer, head, most], axis=1).astype(np.float32)
    hover = "L%{customdata[0]:d} H%{customdata[1]:d}<br>largest weight %{customdata[2]:.2f}"
    return clickable(head, layer, data, size, hover)


def _outlines(places: Sequence[tuple[int, ...]], colour: str, width: int) -> go.Scatter:
    """Frames around tiles, all in one trace: a shape for each would take longer than the rest."""
    half = INNER / 2 + 0.02
    across = np.array([-half, half, half, -half, -half, np.nan])  # the gap lifts the pen
    down = np.array([-half, -half, half, half, -half, np.nan])
    return go.Scatter(
        x=np.concatenate([head + across for _, head in places]),
        y=np.concatenate([layer + down for layer, _ in places]),
        mode="lines",
        line={"color": colour, "width": width},
        hoverinfo="skip",
        name="frame",
    )


def caption(block: str, change: bool) -> str:
    """What a reader of such a picture must know, wherever it is drawn."""
    how = "change since the clean run, one scale" if change else "each tile on its own scale"
    return f"{block}: rows are layers, columns are heads · {how}"
