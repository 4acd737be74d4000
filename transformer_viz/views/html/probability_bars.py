"""What became of the words when the run was changed?"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...core.numerics import REGRESSION
from ...core.palette import Palette, palette
from ...core.trace import Trace
from ...core.trace_parts import Produced
from ...i18n import numeral, say
from ...metrics.output.run_changes import held_words
from .picture import Picture, noted

HEIGHT = 46  # pixels of a bar of probability 1


def outcome(
    before: Trace,
    after: Trace | None = None,
    *,
    rows: Sequence[int] | None = None,
    classes: bool = False,
    dark: bool = False,
) -> Picture:
    """Return probability and rank of every target token, before and after, as small bars.

    A regression has no probabilities: the bars show the score of each token, without a rank.

    Each token's ``data-row`` names its row of the heads, so that both are highlighted together.

    Args:
        before: The clean run.
        after: A changed run on the same tokens; if omitted, only the clean run is shown.
        rows: The positions to show, such as the masked ones; if omitted, all of them.
        classes: True if each token was given a class instead of a predicted token.
        dark: Use colours for a dark background.

    Raises:
        LookupError: A model without an output layer.
        ValueError: The runs have different tokens.
    """
    was, now = held_words(before, after or before)
    places = range(len(was.labels)) if rows is None else rows
    colours = palette(dark)
    whose = "source" if before.maps == ("encoder",) else "produced"
    changed = after is not None
    scored = before.task == REGRESSION
    if scored:
        words = _scores(before, after, was, places, whose, colours)
    else:
        words = "".join(
            _word(was, now, place, f"{whose}:{place}", changed, colours) for place in places
        )
    caption = say(
        "Probability of each held word, and its rank among all words (1: the most probable)."
    )
    meant = " " + say(
        "A held word is given beforehand: the model does not choose it, it says how probable it is."
    )
    if classes:
        meant, caption = (
            "",
            say("Each word's class, its probability, and its rank among all classes."),
        )
    if scored:
        meant, caption = "", say("The score of each word (its logit), which is no probability.")
    style = (
        "display:flex;flex-wrap:wrap;gap:14px 10px;font-variant-numeric:tabular-nums;"
        f"color:{colours.ink};font-size:calc(14px * var(--tv-scale, 1));line-height:1.35"
    )
    html = f'<div role="list" aria-label="{caption}" style="{style}">{words}</div>'
    return noted(html, caption + meant, before, after)


def _scores(
    before: Trace,
    after: Trace | None,
    was: Produced,
    places: Sequence[int],
    whose: str,
    colours: Palette,
) -> str:
    """Return the output of a regression at each position, before and after."""
    runs = [run.logits for run in (before, after) if run is not None]
    kept = [[float(logits[n, was.ids[n]]) for n in places] for logits in runs if logits is not None]
    most = max((abs(x) for row in kept for x in row), default=0.0) or 1.0
    items = []
    for number, place in enumerate(places):
        values = [row[number] for row in kept]
        bars = "".join(
            _bar(abs(value) / most, colour)
            for value, colour in zip(values, (colours.accent, colours.warm), strict=False)
        )
        told = " → ".join(numeral(value, "+.2f") for value in values)
        items.append(
            f'<div role="listitem" data-row="{whose}:{place}" '
            f'style="min-width:66px;text-align:center"><div aria-hidden="true" '
            f'style="height:{HEIGHT}px;display:flex;gap:3px;justify-content:center;'
            f'align-items:flex-end">{bars}</div><div>{escape(was.labels[place])}</div>'
            f'<div style="color:{colours.quiet};white-space:nowrap">{told}</div></div>'
        )
    return "".join(items)


def _word(
    before: Produced, after: Produced, place: int, spot: str, changed: bool, colours: Palette
) -> str:
    label = escape(before.labels[place])
    was, now = before.probability[place], after.probability[place]
    bars = _bar(was, colours.accent) + (_bar(now, colours.warm) if changed else "")
    moved = changed and before.rank[place] != after.rank[place]
    numbers = f"{was:.2f}" + (f" → {now:.2f}" if changed else "")
    ranks = str(before.rank[place]) + (f" → {after.rank[place]}" if moved else "")
    ranks = say("rank {ranks}", ranks=ranks)
    weight = f"font-weight:600;color:{colours.warm}" if moved else f"color:{colours.quiet}"
    return (
        f'<div role="listitem" data-row="{spot}" style="min-width:66px;text-align:center" '
        'translate="no">'
        f'<div aria-hidden="true" style="height:{HEIGHT}px;display:flex;gap:3px;'
        f'justify-content:center;align-items:flex-end">{bars}</div>'
        f"<div>{label}</div>"
        f'<div style="color:{colours.quiet};white-space:nowrap">{numbers}</div>'
        f'<div style="{weight};white-space:nowrap">{ranks}</div></div>'
    )


def _bar(probability: float, colour: str) -> str:
    tall = max(1, round(HEIGHT * float(probability)))
    style = f"width:22px;height:{tall}px;background:{colour};border-radius:2px 2px 0 0"
    return f'<div style="{style}"></div>'
