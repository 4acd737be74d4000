"""Contribution of each input token to one output token, by several methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

from ...i18n import mark, numeral, say

DASH = "–"
PARTS = {
    "embedding": mark("embedding"),
    "earlier": mark("before the last norm"),
    "feed_forward": mark("feed-forward"),
    "bias": mark("biases"),
}
DEEPEST = 60  # per cent of the accent colour under the strongest token


@dataclass(frozen=True, eq=False)
class WordValues:
    """Values of one method, with a row per token.

    Attributes:
        method: Name of the method.
        title: Translated title.
        caption: Translated caption.
        values: ``values`` of an `Explanation`, or None.
        form: Format of a number.
        unit: Unit of the numbers.
        missing: Reason why there are no values.
    """

    method: str
    title: str
    caption: str
    values: pd.DataFrame | None = None
    form: str = "{:.3f}"
    unit: str = ""
    missing: str = ""


def word_answers(columns: Sequence[WordValues]) -> str:
    """Return columns side by side as HTML: tokens coloured by value, a bar and the number.

    Each method has its own scale, from 0 to its largest number, for source and target alike. Values
    below 0 have the other colour.
    """
    return f'<div class="tv-why">{"".join(map(_column, columns))}</div>'


def _column(one: WordValues) -> str:
    head = f'<h3 class="tv-question">{escape(one.title)}</h3>'
    if one.values is None:
        body = f'<p class="tv-why-none">{escape(one.missing)}</p>'
    else:  # the caption stands below, so that the tokens of all columns are aligned
        body = _words(one, one.values) + f'<p class="tv-quiet">{escape(one.caption)}</p>'
    return f'<section data-what="why-{escape(one.method)}">{head}{body}</section>'


def _words(one: WordValues, values: pd.DataFrame) -> str:
    numbers = values["value"].to_numpy(float)
    most = float(np.nanmax(np.abs(numbers), initial=0.0))
    told = say("longest bar: {value} {unit}", value=one.form.format(most), unit=one.unit)
    rows = []
    for sentence, part in values.groupby("sentence", sort=False):
        if len(values["sentence"].unique()) > 1:
            name = say("source") if sentence == "source" else say("target so far")
            rows.append(f'<tr><td colspan="3" class="tv-quiet">{escape(name)}</td></tr>')
        rows += [
            _row(str(row.label), float(row.value), bool(row.special), most, one.form)
            for row in part.itertuples()
        ]
    return (
        f'<p class="tv-quiet tv-why-scale">{escape(told.strip())}</p>'
        f"<table><tbody>{''.join(rows)}</tbody></table>"
    )


def _row(label: str, value: float, special: bool, most: float, form: str) -> str:
    if not np.isfinite(value):
        return f"<tr><th>{escape(label)}</th><td></td><td>{DASH}</td></tr>"
    share = abs(value) / most if most else 0.0
    quiet = ' class="tv-dull"' if special else ""
    return (
        f'<tr{quiet}><th><span style="{_tint(value, share)}">{escape(label)}</span></th>'
        f'<td><i class="{"tv-more" if value >= 0 else "tv-less"}" '
        f'style="width:{100 * share:.1f}%"></i></td><td>{_number(value, form)}</td></tr>'
    )


def _number(value: float, form: str) -> str:
    """Return a formatted number, without a minus sign on zero."""
    written = form.format(value)
    return written if float(written) else form.format(0.0)


def _tint(value: float, share: float) -> str:
    colour = "accent" if value >= 0 else "warm"
    return f"background: color-mix(in srgb, var(--tv-{colour}) {DEEPEST * share:.0f}%, transparent)"


def lens_table(values: pd.DataFrame, word: str) -> str:
    """Return the logit lens by layer as HTML: the most probable token after each layer.

    It includes the probability and rank of the given token, or its score for a regression.
    """
    if values["probability"].isna().all():
        scored = (say("layers done"), say("score of “{word}” there", word=word))
        told = (
            f"<tr><th>{row.layer}</th><td><b>{numeral(row.logit, '+.3f')}</b></td></tr>"
            for row in values.itertuples()
        )
        return _table(scored, "".join(told))
    titles = (
        say("layers done"),
        say("most probable there"),
        say("“{word}” there", word=word),
        say("rank"),
    )
    rows = "".join(
        f"<tr><th>{row.layer}</th><td>{escape(str(row.best))}</td>"
        f'<td><span class="tv-measure"><b>{numeral(row.probability, ".1%")}</b>'
        f'<span class="tv-track" style="width:64px">'
        f'<i class="tv-bar" style="left:0;width:{64 * row.probability:.1f}px">'
        f"</i></span></span></td><td>{numeral(row.rank, ',')}</td></tr>"
        for row in values.itertuples()
    )
    return _table(titles, rows)


def direct_table(values: pd.DataFrame) -> str:
    """Return the logit as a sum, as HTML: layers in rows, heads and feed-forward in columns.

    Cells share one colour scale. Terms that belong to no layer are above and below.
    """
    layers = sorted({int(n) for n in values["layer"] if n >= 0})
    heads = values[values["head"] >= 0]
    columns = [
        (str(part), int(head))
        for part in ("self", "cross")
        for head in sorted(heads[heads["part"] == part]["head"].unique())
    ]
    wholes = [p for p in ("self", "cross") if ((values["part"] == p) & (values["head"] < 0)).any()]
    columns = [(part, -1) for part in (*wholes, "feed_forward", "bias")] + columns
    most = float(values["value"].abs().max()) or 1.0
    titles = [say("layer"), say("sum"), *(_named(part, head) for part, head in columns)]
    sums = values.groupby(["part", "layer", "head"])["value"].sum()
    rows = ""
    for part in ("embedding", "earlier"):
        if (part, -1, -1) in sums.index:
            rows += _alone(say(PARTS[part]), float(sums[part, -1, -1]), len(columns))
    for layer in layers:
        cells = [sums.get((part, layer, head)) for part, head in columns]
        told = "".join(_cell(None if x is None else float(x), most) for x in cells)
        total = float(values[values["layer"] == layer]["value"].sum())
        rows += f"<tr><th>L{layer}</th><td><b>{numeral(total, '+.2f')}</b></td>{told}</tr>"
    if ("bias", -1, -1) in sums.index:
        rows += _alone(say("output layer"), float(sums["bias", -1, -1]), len(columns))
    rows += _alone(say("the logit"), float(values["value"].sum()), len(columns))
    return _table(titles, rows)


def _named(part: str, head: int) -> str:
    if part in PARTS:
        return say(PARTS[part])
    name = say("self") if part == "self" else say("cross")
    return name if head < 0 else f"{name} H{head}"


def _cell(value: float | None, most: float) -> str:
    if value is None:
        return f"<td>{DASH}</td>"
    return f'<td style="{_tint(value, abs(value) / most)}">{numeral(value, "+.2f")}</td>'


def _alone(name: str, value: float, columns: int) -> str:
    written = numeral(value, "+.2f")
    return f'<tr><th>{escape(name)}</th><td><b>{written}</b></td><td colspan="{columns}"></td></tr>'


def _table(titles: Sequence[str], rows: str) -> str:
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return (
        f'<div class="tv-heads"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
