"""Measure of one head: value, bar, tick of chance, interval, and the rows measured."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from ...i18n import numeral, say
from ...metrics.head_measures.registry import MEASURE_BY_NAME

DASH = "–"
BAR = 64  # pixels of a bar from 0 to 1


def written(value: float) -> str:
    """Return two decimals, without a minus sign before zero."""
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text


def measure_cell(row: pd.Series, name: str) -> str:
    """Return one measure of one head: number, bar, tick of chance, interval; a dash without rows.

    A click shows the same as numbers, so that hovering is not required.
    """
    value = row[name]
    if not np.isfinite(value):
        return unfolding(f"<b>{DASH}</b>", [say("no row could be asked")])
    chance, (low, high) = row[f"{name}_chance"], _interval(row, name)
    told = [say("{count} rows", count=f"{int(row[f'{name}_rows']):,}")]
    if np.isfinite(chance):
        told.append(say("chance {chance}", chance=written(chance)))
    if np.isfinite(low):
        told.append(say("95 %: {low} to {high}", low=written(low), high=written(high)))
    tick = None if not np.isfinite(chance) else float(chance)
    return unfolding(f"<b>{written(value)}</b>{bar(value, low, high, tick)}", told)


def unfolding(shown: str, told: Sequence[str], kind: str = "") -> str:
    """Return a number with its bar (``shown`` is HTML); a click shows more texts below."""
    words = escape(" · ".join(told))
    return (
        f'<details class="tv-measure{kind}" title="{words}"><summary>{shown}</summary>'
        f'<span class="tv-told">{words}</span></details>'
    )


def measure_rows(row: pd.Series, names: Sequence[str], what: str = "measures") -> str:
    """Return measures of one head as a table: value, chance, interval, row count, question.

    Args:
        row: Row of a table of `metrics`.
        names: Names of the registry.
        what: ``data-what`` of the table.
    """
    titles = (
        say("measure"),
        say("measured"),
        "",
        say("chance"),
        numeral(0.95, ".0%"),
        say("rows asked"),
        "",
    )
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    rows = "".join(_measure_row(row, name) for name in names)
    return (
        f'<div class="tv-heads" data-what="{escape(what)}"><table class="tv-measures"><thead><tr>'
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _measure_row(row: pd.Series, name: str) -> str:
    measure = MEASURE_BY_NAME[name]
    title, asks = say(measure.title), say(measure.question)
    value, chance, (low, high) = row[name], row[f"{name}_chance"], _interval(row, name)
    count = int(row[f"{name}_rows"])
    known = np.isfinite(value)
    tick = float(chance) if np.isfinite(chance) else None
    shown = (
        f"{written(value)}</td><td>{bar(value, low, high, tick)}" if known else f"{DASH}</td><td>"
    )
    between = say("{low} to {high}", low=written(low), high=written(high))
    return (
        f'<tr data-measure="{name}"><th>{escape(title)}</th><td>{shown}</td>'
        f"<td>{DASH if tick is None or not known else f'{written(tick)}'}</td>"
        f"<td>{escape(between) if np.isfinite(low) else DASH}</td>"
        f"<td>{numeral(count, ',') if count else DASH}</td>"
        f'<td class="tv-asks">{escape(asks)}</td></tr>'
    )


def _interval(row: pd.Series, name: str) -> tuple[float, float]:
    low, high = (float(row.get(f"{name}_{end}", np.nan)) for end in ("low", "high"))
    return low, high


def bar(value: float, low: float, high: float, tick: float | None, whole: float = 1.0) -> str:
    """Return a bar from 0, with a line for the interval and a tick for chance."""

    def x(number: float) -> float:
        return round(BAR * min(1.0, max(0.0, number / whole)), 1) if whole > 0 else 0.0

    parts = [_span("tv-bar", 0.0, x(value))]
    if np.isfinite(low) and np.isfinite(high):
        parts.append(_span("tv-interval", x(low), x(high) - x(low)))
    if tick is not None:
        parts.append(_span("tv-chance", x(tick)))
    return f'<span class="tv-track" style="width:{BAR}px">{"".join(parts)}</span>'


def _span(kind: str, left: float, width: float | None = None) -> str:
    wide = "" if width is None else f";width:{width:.1f}px"
    return f'<i class="{kind}" style="left:{left:.1f}px{wide}"></i>'
