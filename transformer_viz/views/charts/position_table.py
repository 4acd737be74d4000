"""What is added to each word to say where it stands?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.trace import Trace
from ...i18n import say
from ...metrics.positions.positions import (
    bias_names,
    column_names,
    measured,
    position_array,
    position_label,
    position_names,
    position_rows,
)
from .labelled_heatmap import CLICKS, OVERLAY, clickable, name_axes
from .theme import captioned, figure, scale

ROW = 24  # pixels of a row, while the sentence is short enough
HEIGHTS = (320, 640)  # the picture's size stays between these, so that a page does not jump
TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # dimensions between two names of the lower axis
Pairing = tuple[np.ndarray, ...]  # the dimensions of each pair; for a bias one column per "pair"


def position_table(
    trace: Trace,
    name: str,
    *,
    before: Trace | None = None,
    most: float | None = None,
    token: int | None = None,
    pair: int | None = None,
    head: int = 0,
    dark: bool = False,
    height: int | None = None,
) -> go.Figure:
    """Draw a table of positions: one row per position, labelled with its token.

    A click gives ``[token, pair, value, value]``, with the values of both dimensions of the pair.
    For a bias it is ``[query, key, value, value]``, one value twice. Missing numbers (a new row)
    are 0. Large tables can be clicked in every row, but not in every pair.

    Args:
        trace: The run to show.
        name: A key of ``trace.positions``. Rotary angles are drawn as cosines, then sines; a bias
            as a map of queries and keys.
        before: Another run; if given, the change since it is drawn.
        most: The number at the ends of the colours, to colour two runs alike; if omitted, the
            largest value.
        token: A position to outline (the query's row in a bias).
        pair: A pair of dimensions to outline (the key's column in a bias).
        head: Head of a bias.
        dark: Use colours for a dark background.
        height: Pixels; if omitted, it follows the number of rows.

    Raises:
        LookupError: The trace has no positions of this name, or no such head; the message lists
            those it has.
        ValueError: The two runs' tables cannot be compared.
    """
    bias = name.startswith("bias.")
    shown = _numbers(trace, name, head)
    was = shown if before is None else _numbers(before, name, head)
    if before is not None:
        shown = _change(shown, was)
    if bias:
        rows, columns = bias_names(trace, name)
        pairing: Pairing = (np.arange(shown.shape[1]),)
    else:
        rows = position_names(trace, name, len(shown))
        columns = column_names(name, shown.shape[1])
        pairing = _pairing(position_rows(trace, name))
    limit = float(np.nanmax(np.abs(shown), initial=0)) if most is None else most
    picture = _frame(rows, columns, dark)
    if not bias:
        _columns_below(picture, columns, pairing, turns=name.startswith("rotary."))
    _size(picture, len(rows), height)
    picture.add_trace(_heatmap(shown, limit, dark))
    picture.add_traces(_clicks(shown, pairing, len(was)))
    _outline(picture, shown.shape, pairing, token, pair, palette(dark).ink)
    return captioned(
        picture,
        _caption(name, limit, before is not None, head),
        trace,
        before,
    )


def _numbers(trace: Trace, name: str, head: int) -> np.ndarray:
    if not name.startswith("bias."):
        return position_rows(trace, name)
    heads = position_array(trace, name)
    if not 0 <= head < len(heads):
        raise LookupError(
            say(
                "{name} has heads 0 to {last}; got {head}.",
                name=position_label(name),
                last=len(heads) - 1,
                head=head,
            )
        )
    return heads[head].astype(np.float64)


def _change(now: np.ndarray, was: np.ndarray) -> np.ndarray:
    """Return the difference; rows added by padding have no counterpart and stay empty (NaN)."""
    if was.shape[1] != now.shape[1] or len(was) > len(now):
        raise ValueError(
            say(
                "The two runs have tables of {before} and {now} numbers: no difference. Look at "
                "one run at a time.",
                before=was.shape,
                now=now.shape,
            )
        )
    change = np.full(now.shape, np.nan)
    change[: len(was)] = now[: len(was)] - was
    return change


def _pairing(table: np.ndarray) -> Pairing:
    """Return the dimensions that rotate together; neighbours if nothing can be measured."""
    try:
        found = measured(table)
    except ValueError:
        pairs = np.arange(table.shape[1] // 2)
        return 2 * pairs, 2 * pairs + 1
    return np.array([wave.first for wave in found]), np.array([wave.second for wave in found])


def _frame(rows: tuple[str, ...], columns: tuple[str, ...], dark: bool) -> go.Figure:
    picture = figure(dark)
    name_axes(picture, rows, columns)
    return picture


def _columns_below(
    picture: go.Figure, columns: tuple[str, ...], pairing: Pairing, turns: bool
) -> None:
    """Label the lower axis with dimensions, and the hover axis with both dimensions of a pair."""
    step = next((s for s in TICKS if len(columns) / s <= 5), TICKS[-1])
    places = list(range(0, len(columns), step))
    title = say("column: cosines, then sines") if turns else say("dimension")
    names = [
        say("cosine and sine {pair}", pair=pair)
        if turns
        else say("dimensions {first} and {second}", first=first, second=second)
        for pair, (first, second) in enumerate(zip(*pairing, strict=True))
    ]
    picture.update_layout(
        xaxis={
            "side": "bottom",
            "tickangle": 0,
            "tickvals": places,
            "ticktext": places,
            "title": {"text": title, "standoff": 8, "font": {"size": 14}},
        },
        xaxis2={
            "tickvals": np.concatenate(_centres(pairing)),
            "ticktext": names * len(_centres(pairing)),
        },
        margin={"t": 8, "b": 52},
    )


def _size(picture: go.Figure, rows: int, height: int | None) -> None:
    needed = rows * ROW + picture.layout.margin.t + (picture.layout.margin.b or 0)
    picture.update_layout(height=height or int(np.clip(needed, *HEIGHTS)), hoverdistance=-1)


def _centres(pairing: Pairing) -> list[np.ndarray]:
    """Return the hover positions of pairs: between neighbours, or on both columns of a pair."""
    first, second = pairing[0], pairing[-1]
    return [(first + second) / 2] if (second - first <= 1).all() else [first, second]


def _heatmap(shown: np.ndarray, limit: float, dark: bool) -> go.Heatmap:
    return go.Heatmap(
        z=shown.astype(np.float32),
        zmin=-limit or -1.0,
        zmax=limit or 1.0,
        colorscale=scale(palette(dark).changes),
        showscale=False,
        hoverinfo="skip",
        **OVERLAY,
    )


def _clicks(shown: np.ndarray, pairing: Pairing, old: int) -> list[go.Scatter]:
    """Return a marker for each row and pair; small ones suffice, since hover takes the nearest.

    If there are too many, only some pairs have one, and the marker names its pair. Markers without
    a number give the reason: from row ``old`` on the earlier run has no such row.
    """
    places, (first, second) = _centres(pairing), (pairing[0], pairing[-1])
    step = -(-len(shown) * len(first) * len(places) // CLICKS)
    pairs = np.arange(min(step // 2, len(first) - 1), len(first), step)
    token, pair = (part.reshape(-1) for part in np.meshgrid(np.arange(len(shown)), pairs))
    values = np.stack([shown[token, first[pair]], shown[token, second[pair]]], axis=1)
    known = np.isfinite(values).all(axis=1)
    data = np.column_stack([token, pair, np.where(known[:, None], values, 0)]).astype(np.float32)
    both = len(pairing) > 1
    number = say("%{customdata[2]:.3f} and %{customdata[3]:.3f}")
    number = number if both else "%{customdata[2]:.3f}"
    place = "%{y}<br>%{x}" if both else "%{y} → %{x}"
    kinds = {
        f"{place}: {number}": known,
        say("%{y}: this row was not there before"): ~known & (token >= old),
        f"{place}: " + say("no number"): ~known & (token < old),
    }
    found = []
    for hover, kind in kinds.items():
        if kind.any():
            x = np.concatenate([centre[pair[kind]] for centre in places]).astype(np.float32)
            y = np.tile(token[kind], len(places)).astype(np.float32)
            marks = np.tile(data[kind], (len(places), 1))
            found.append(clickable(x, y, marks, 6, hover, **OVERLAY))
    return found


def _outline(
    picture: go.Figure,
    shape: tuple[int, ...],
    pairing: Pairing,
    token: int | None,
    pair: int | None,
    colour: str,
) -> None:
    """Draw frames around the chosen row, and around the columns of the chosen pair."""
    right, bottom = shape[1] - 0.5, shape[0] - 0.5
    frames = []
    if token is not None and 0 <= token < shape[0]:
        frames.append((-0.5, right, token - 0.5, token + 0.5))
    if pair is not None and 0 <= pair < len(pairing[0]):
        columns = sorted({int(part[pair]) for part in pairing})
        runs = [columns] if columns[-1] - columns[0] == 1 else [[one] for one in columns]
        frames += [(run[0] - 0.5, run[-1] + 0.5, -0.5, bottom) for run in runs]
    for left, end, top, low in frames:
        line = {"color": colour, "width": 2}
        picture.add_shape(type="rect", x0=left, x1=end, y0=top, y1=low, line=line, layer="above")


def _caption(name: str, limit: float, change: bool, head: int) -> str:
    what = f"{_what(name, head)} · " + (f"{say('change since the clean run')}, " if change else "")
    if not limit:
        return what + say("all zero")
    return what + say("colours from −{most:.2g} to {most:.2g}, zero is the background", most=limit)


def _what(name: str, head: int) -> str:
    label = position_label(name)
    if name.startswith("bias."):
        fields = {"name": label, "head": head}
        return say("{name} H{head}, added to the scores: rows look at columns", **fields)
    if name.startswith("rotary."):
        return say("{name}: nothing is added; cosines of the angles, then their sines", name=label)
    return say("{name}: one row a position, added to the word that stands there", name=label)
