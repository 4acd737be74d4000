"""The numbers of a plotly figure as a table, for screen readers."""

from __future__ import annotations

from collections.abc import Iterable
from html import unescape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go


def as_table(picture: go.Figure) -> pd.DataFrame:
    """Return the data of a figure as a table, labelled with the tick names of its axes.

    A heatmap gives rows and columns of its cells. Curves give one column each, indexed by the
    horizontal axis; bars give one column for each of their colours. A repeated name gets a number.

    Raises:
        ValueError: A figure with none of them.
    """
    for trace in picture.data:
        if trace.type == "heatmap":
            cells = np.asarray(trace.z, dtype=float)
            down, across = (
                _names(picture, getattr(trace, f"{side}axis") or side, count)
                for side, count in zip("yx", cells.shape, strict=True)
            )
            return pd.DataFrame(cells, index=_distinct(down), columns=_distinct(across))
    bars = [trace for trace in picture.data if trace.type == "bar"]
    if bars:
        return _joined({_name(bar, n): _bar(bar) for n, bar in enumerate(bars)})
    curves = [c for c in picture.data if c.type == "scatter" and c.name and c.hovertemplate]
    if not curves:
        raise ValueError("This picture has no cells and no curves that a table could hold.")
    return _joined({name: _curve(picture, c) for name, c in _numbered(curves).items()})


def _joined(columns: dict[str, pd.Series]) -> pd.DataFrame:
    """Return columns side by side, each row where it occurs first; repeated names get numbers."""
    for column in columns.values():
        column.index = pd.Index(_distinct(column.index))
    rows = pd.Index(dict.fromkeys(name for column in columns.values() for name in column.index))
    return pd.DataFrame({name: column.reindex(rows) for name, column in columns.items()})


def _distinct(names: Iterable[str]) -> list[str]:
    """Return the names in order; the second of the same name ends in " (2)"."""
    found: dict[str, None] = {}
    for name in names:
        one, count = name, 1
        while one in found:
            count += 1
            one = f"{name} ({count})"
        found[one] = None
    return list(found)


def _name(bar: Any, number: int) -> str:
    return unescape(bar.name) if bar.name else str(number + 1)


def _bar(bar: Any) -> pd.Series:
    """Return the lengths of bars, indexed by their own names or else their positions."""
    lengths, places = (bar.x, bar.y) if bar.orientation == "h" else (bar.y, bar.x)
    named = bar.customdata if bar.customdata is not None else places
    index = [unescape(str(name)) for name in (range(len(lengths)) if named is None else named)]
    return pd.Series(np.asarray(lengths), index=index)


def _numbered(curves: list[Any]) -> dict[str, Any]:
    """Return the curves by name, without a curve that is drawn a second time for emphasis."""
    found: dict[str, Any] = {}
    for curve in curves:
        found.setdefault(unescape(curve.name), curve)
    return found


def _curve(picture: go.Figure, curve: Any) -> pd.Series:
    places = np.asarray(curve.x, dtype=float)
    named = _ticks(picture, curve.xaxis or "x")
    index = [named.get(place, f"{place:g}") for place in places]
    return pd.Series(np.asarray(curve.y, dtype=float), index=index)


def _names(picture: go.Figure, axis: str, count: int) -> list[str]:
    named = _ticks(picture, axis)
    return [named.get(float(place), str(place)) for place in range(count)]


def _ticks(picture: go.Figure, axis: str) -> dict[float, str]:
    """Return the tick names of an axis (``x2``) by tick position."""
    axes = picture.layout.to_plotly_json()
    found = axes.get(f"{axis[0]}axis{axis[1:]}", {})
    places, names = found.get("tickvals"), found.get("ticktext")
    if places is None or names is None:
        return {}
    return {float(place): unescape(name) for place, name in zip(places, names, strict=True)}
