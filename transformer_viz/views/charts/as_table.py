"""The numbers of a plotly picture as a table, for those who read rather than look."""

from __future__ import annotations

from html import unescape
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go


def as_table(picture: go.Figure) -> pd.DataFrame:
    """What a picture shows, as rows and columns under the names that stand along its sides.

    A map becomes rows and columns of its cells; curves become one column each, by what stands
    along the horizontal axis; bars one column by the names that they carry. A name that occurs
    again gets a number.

    Raises:
        ValueError: a picture that has none of them.
    """
    for trace in picture.data:
        if trace.type == "heatmap":
            cells = np.asarray(trace.z, dtype=float)
            down, across = (
                _names(picture, getattr(trace, f"{side}axis") or side, count)
                for side, count in zip("yx", cells.shape, strict=True)
            )
            return pd.DataFrame(cells, index=down, columns=across)
        if trace.type == "bar":
            return pd.DataFrame({trace.name: np.asarray(trace.y)}, index=list(trace.customdata))
    curves = [c for c in picture.data if c.type == "scatter" and c.name and c.hovertemplate]
    if not curves:
        raise ValueError("This picture has no cells and no curves that a table could hold.")
    columns = {name: _curve(picture, c) for name, c in _numbered(curves).items()}
    return pd.DataFrame(columns)


def _numbered(curves: list[Any]) -> dict[str, Any]:
    """Curves by name; one that is drawn again, to stand out, is left out."""
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
    """The names that stand along an axis (``x2``), by their places."""
    axes = picture.layout.to_plotly_json()
    found = axes.get(f"{axis[0]}axis{axis[1:]}", {})
    places, names = found.get("tickvals"), found.get("ticktext")
    if places is None or names is None:
        return {}
    return {float(place): unescape(name) for place, name in zip(places, names, strict=True)}
