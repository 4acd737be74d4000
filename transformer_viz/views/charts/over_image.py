"""Which parts of the picture does this head look at?"""

from __future__ import annotations

import base64
import io

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from ...core.palette import Palette, palette
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.image_patches import PatchRow, patch_row
from ...metrics.attention.word_merging import produced_by_row
from .labelled_heatmap import clickable
from .theme import captioned, escaped, figure

HEIGHT = 420  # pixels
SHARP = 320  # pixels that a small picture is enlarged to, so that no browser blurs its pixels
BESIDE = 0.88  # of the width: the picture's part, where tokens stand before the patches
BOX = 0.13  # of the height, one box of such a token
PALE = 0.4  # opacity of the picture itself, so that a shade looks alike on black and on white
OPAQUE = 0.85  # the strongest shade; what is under it must still be seen
TICKS = 16  # rows or columns that are numbered one by one


def over_image(
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    query: int,
    shown: np.ndarray,
    *,
    what: str = "weights",
    minus: Trace | None = None,
    dark: bool = False,
    most: float | None = None,
    height: int = HEIGHT,
) -> go.Figure:
    """Draw one row of a head over the picture: the more weight a patch has, the deeper its shade.

    Args:
        trace: A run on a picture.
        block: A map that the trace has (``encoder``).
        layer, head: Indices from 0.
        query: The token whose row is shown; tokens before the patches count.
        shown: The picture as the model receives it, uint8 ``[height, width, 3]``
            (:meth:`ImageReader.shown`).
        what: ``weights``, or ``gradients`` of the chosen logit with respect to the weights.
        minus: The run to compare with; if given, shades show increases and decreases.
        dark: Use colours for a dark background.
        most: The value at the deepest shade; if omitted, the row's largest.
        height: Pixels.

    Raises:
        LookupError: A run on no picture, or a map, layer, head or token that it lacks.
        ValueError: A picture of another kind, or another value of ``what``.
    """
    row = patch_row(trace, block, layer, head, query, what, minus)
    both_ways = what == "gradients" or minus is not None
    source = _embedded(shown)
    colours = palette(dark)
    limit = most or float(np.nanmax(np.abs(row.values), initial=0)) or 1.0
    picture = figure(dark, height=height, hovermode="closest")
    _axes(picture, row, shown.shape, colours)
    _underlay(picture, row, shown.shape, source)
    _shade(picture, row, _shades(both_ways, colours), (-limit if both_ways else 0.0, limit))
    picture.add_traces(_clicks(row, height))
    _outline(picture, row, query, colours.ink)
    place = f"{called(block)} L{layer} H{head}"
    kind = what, minus is not None
    return captioned(picture, _caption(trace, block, place, row, query, kind, limit), trace)


def _underlay(picture: go.Figure, row: PatchRow, size: tuple[int, ...], source: str) -> None:
    """Draw the picture itself, pale, below the shades."""
    rows, columns = row.patches.shape
    picture.add_layout_image(
        source=source,
        xref="x",
        yref="y",
        x=-0.5,
        y=-0.5,
        sizex=size[1] / (size[1] // columns),
        sizey=size[0] / (size[0] // rows),
        sizing="stretch",
        opacity=PALE,
        layer="below",
    )


def _shade(
    picture: go.Figure,
    row: PatchRow,
    shades: list[list[float | str]],
    limits: tuple[float, float],
) -> None:
    """Draw the shades of the patches, and of the tokens before them."""
    low, high = limits
    drawn = {"zmin": low, "zmax": high, "colorscale": shades, "showscale": False}
    front = row.front[:, None]
    picture.add_trace(go.Heatmap(z=row.patches, hoverinfo="skip", **drawn))
    picture.add_trace(
        go.Heatmap(z=front, hoverinfo="skip", ygap=6, xaxis="x2", yaxis="y2", **drawn)
    )


def _embedded(shown: np.ndarray) -> str:
    """Return the picture as a PNG data URL."""
    if shown.dtype != np.uint8 or shown.ndim != 3 or shown.shape[2] != 3 or shown.size == 0:
        raise ValueError(
            f"The picture must be uint8 [height, width, 3]; got {shown.dtype} {list(shown.shape)}."
        )
    times = max(1, SHARP // min(shown.shape[:2]))
    large = shown.repeat(times, axis=0).repeat(times, axis=1)
    held = io.BytesIO()
    Image.fromarray(large).save(held, "PNG")
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def _axes(picture: go.Figure, row: PatchRow, size: tuple[int, ...], colours: Palette) -> None:
    """Set up axes for the rows and columns of patches, and for the tokens before them."""
    rows, columns = row.patches.shape
    tall, wide = size[0] // rows, size[1] // columns
    count = len(row.front)
    names = [f"{name} {value:.2g}" for name, value in zip(row.names, row.front, strict=False)]
    steps = {"tickfont": {"size": 14, "color": colours.quiet}, "tick0": 0, "constrain": "domain"}
    picture.update_layout(
        xaxis={
            "range": [-0.5, columns - 0.5],
            "domain": [0, BESIDE if count else 1],
            "side": "top",
            "constraintoward": "right",
            "dtick": -(-columns // TICKS),
            **steps,
        },
        yaxis={
            "range": [rows - 0.5, -0.5],
            "constraintoward": "top",
            "scaleanchor": "x",
            "scaleratio": tall / wide,
            "dtick": -(-rows // TICKS),
            **steps,
        },
        xaxis2={"range": [-0.5, 0.5], "domain": [BESIDE + 0.04, BESIDE + 0.1], "visible": False},
        yaxis2={
            "anchor": "x2",
            "side": "right",
            "range": [count - 0.5, -0.5],
            "domain": [max(0.0, 1 - BOX * count), 1],
            "tickmode": "array",
            "tickvals": list(range(count)),
            "ticktext": [escaped(name) for name in names],
        },
        margin={"l": 28, "t": 30, "r": 12 + 8 * max(map(len, names), default=0), "b": 8},
    )


def _shades(both_ways: bool, colours: Palette) -> list[list[float | str]]:
    """Return a colour scale with opacity, from zero upward or in both directions."""
    if not both_ways:
        return [[0.0, _through(colours.warm, 0)], [1.0, _through(colours.warm, OPAQUE)]]
    less, more = colours.changes[0], colours.changes[-1]
    return [
        [0.0, _through(less, OPAQUE)],
        [0.5, _through(less, 0)],
        [0.5, _through(more, 0)],
        [1.0, _through(more, OPAQUE)],
    ]


def _through(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _clicks(row: PatchRow, height: int) -> list[go.Scatter]:
    """Return a marker for every patch and every token before them; a click gives the token."""
    rows, columns = row.patches.shape
    count = len(row.front)
    numbers = np.arange(len(row.values)) + row.first - count
    data = np.stack([numbers, row.values], axis=1)
    down, across = np.mgrid[:rows, :columns].reshape(2, -1)
    size = max(8.0, 0.8 * height / rows)
    value = "%{customdata[1]:.4f}"
    found = [clickable(across, down, data[count:], size, f"%{{y}},%{{x}}: {value}")]
    if count:
        beside = {"xaxis": "x2", "yaxis": "y2"}
        places = np.arange(count)
        found.append(clickable(0 * places, places, data[:count], 28, f"%{{y}}: {value}", **beside))
    return found


def _outline(picture: go.Figure, row: PatchRow, query: int, colour: str) -> None:
    """Draw a frame around the query token, if it belongs to the picture."""
    patch = row.place(query)
    if patch is not None:
        place, axes = patch[::-1], {"xref": "x", "yref": "y"}
    elif query < len(row.front):
        place, axes = (0, query), {"xref": "x2", "yref": "y2"}
    else:
        return  # a token beside the picture
    picture.add_shape(
        type="rect",
        x0=place[0] - 0.5,
        x1=place[0] + 0.5,
        y0=place[1] - 0.5,
        y1=place[1] + 0.5,
        line={"color": colour, "width": 3},
        layer="above",
        **axes,
    )


def _caption(
    trace: Trace,
    block: str,
    place: str,
    row: PatchRow,
    query: int,
    kind: tuple[str, bool],
    limit: float,
) -> str:
    """Return the caption: site, direction, scale, and the strongest patches by name."""
    name = row.names[query]
    said = produced_by_row(trace)
    if trace.source.ids and said and row.place(query) is None and block == "decoder":
        name = said.labels[query]  # as everywhere, the label is the token that the row predicts
    asked, strongest = say("“{word}”", word=name), row.strongest()
    what, compared = kind
    told = _gradient(trace, asked)
    if what != "gradients":
        told = say("{word} looks at the patches", word=asked)
    if trace.source.ids and what != "gradients" and not compared:
        share = float(row.patches.sum())
        told += " · " + say("{share:.0%} of its weight is on the picture", share=share)
    if compared:
        told = say("change since the clean run") + f" · {told}"
    low, sign = (f"{-limit:.2g}", "+") if compared or what == "gradients" else ("0", "")
    told += " · " + say("shades from {low} to {high:.2g}", low=low, high=limit)
    if not row.values.any():
        nothing = say("all are zero: nothing depends on this row")
        if compared:
            nothing = say("all are zero: nothing was changed in this row")
        return f"{place} · {told} · {nothing}"
    names = ", ".join(f"{name} ({format(value, sign + '.2g')})" for name, value in strongest)
    patches = say("strongest patches (row,column): {patches}", patches=names)
    return f"{place} · {told} · {patches}"


def _gradient(trace: Trace, asked: str) -> str:
    """Return the caption of a gradient: numerator and denominator."""
    if not trace.produced:
        return say(
            "gradient of the output with respect to the weights of {word}; not an explanation",
            word=asked,
        )
    return say(
        "gradient of the logit of “{class_}” with respect to the weights of {word}; not an "
        "explanation",
        class_=trace.produced.labels[0],
        word=asked,
    )
