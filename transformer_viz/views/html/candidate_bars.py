"""What else could the model have said here?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from ...core.numerics import MULTI_LABEL, REGRESSION
from ...core.palette import Palette, palette
from ...core.trace import Trace
from ...i18n import mark, numeral, say
from ...metrics.output.top_k import Candidate, most_probable
from .picture import Picture, noted

LINE = 27  # pixels of a candidate's line
CAPTION = mark("The most probable words at this place; a full bar is probability 1.")
CLASSES = mark("The most probable classes; a full bar is probability 1.")
LABELS = mark(
    "Each label by itself: a full bar is probability 1, and probabilities need not sum to 1."
)
SCORES = mark(
    "The score of each output (its logit). A score is no probability; the longest bar is the "
    "largest size."
)
ENDS = mark("The most probable tokens for this end of the answer; a full bar is probability 1.")
HELD = mark("“held” is the word that the run is asked about.")


def candidates(
    before: Trace,
    after: Trace | None,
    row: int,
    names: Sequence[str],
    *,
    count: int = 5,
    dark: bool = False,
) -> Picture:
    """Return the most probable tokens at one output position, before and after, with bars.

    A classifier has position 0 only and lists its classes: independent probabilities for
    multi-label models, scores for a regression. For a model that marks an answer, position 0 is its
    start and 1 its end, and ``names`` are the input tokens. The target token is marked. If it is
    not among the candidates, it follows below them; its line is always reserved, so that the layout
    is stable.

    Args:
        before: The clean run.
        after: A changed run on the same tokens; None shows the clean run alone.
        row: The output position, from 0: the decoder row that predicts the token.
        names: Names of the vocabulary's tokens, or of the classes, ``[id]``.
        count: Number of candidates of each run.
        dark: Use colours for a dark background.

    Raises:
        LookupError: A model without an output layer, or a row that does not exist.
        ValueError: The runs have different tokens.
    """
    held = _held(before, after, row)
    colours = palette(dark)
    runs = [(say("clean run"), before, colours.accent)]
    if after is not None:
        runs.append((say("changed run"), after, colours.warm))
    found = [most_probable(run, row, count, held) for _, run, _ in runs]
    most = max((abs(word.logit) for words in found for word in words), default=0.0)
    lists = "".join(
        _list(title, words, names, held, count, bar, colours, most)
        for (title, _, bar), words in zip(runs, found, strict=True)
    )
    style = (
        "display:flex;flex-wrap:wrap;gap:12px 40px;font-variant-numeric:tabular-nums;"
        f"color:{colours.ink};font-size:calc(14px * var(--tv-scale, 1));"
        f"line-height:calc({LINE}px * var(--tv-scale, 1))"
    )
    caption = say(_caption(before))
    caption += " " + say(HELD) if held is not None else ""
    return noted(f'<div style="{style}">{lists}</div>', caption, before, after)


def _caption(trace: Trace) -> str:
    if trace.marks_answer:
        return ENDS
    told = {REGRESSION: SCORES, MULTI_LABEL: LABELS}.get(trace.task)
    if told is not None:
        return told
    return CAPTION if trace.logits is None or trace.logits.ndim > 1 else CLASSES


def _held(before: Trace, after: Trace | None, row: int) -> int | None:
    """Return the target token of both runs at this position, or None without one.

    A class, or an end of an answer, is an output only and never a target.
    """
    if before.produced is None or before.logits is None or before.marks_answer:
        return None
    if before.logits.ndim == 1:
        return None
    ids = before.produced.ids
    if after is not None and (after.produced is None or after.produced.ids[: len(ids)] != ids):
        raise ValueError(
            say(
                "The two runs are asked about different words, so their candidates do not "
                "compare; trace the second one with the first one's target and produced ids."
            )
        )
    return ids[row] if 0 <= row < len(ids) else None


def _list(
    title: str,
    words: Sequence[Candidate],
    names: Sequence[str],
    held: int | None,
    count: int,
    bar: str,
    colours: Palette,
    most: float,
) -> str:
    lines = "".join(
        _line(word, names, held, bar, colours, most, apart=place >= count)
        for place, word in enumerate(words)
    )
    room = (count + (held is not None)) * LINE + 1
    scores = any(math.isnan(word.probability) for word in words)
    label = title if scores else say("most probable, {run}", run=title)
    return (
        f'<div style="flex:1 1 280px;max-width:460px"><div style="color:{colours.quiet}">{title}'
        f'</div><div role="list" aria-label="{label}" '
        f'style="min-height:{room}px">{lines}</div></div>'
    )


def _line(
    word: Candidate,
    names: Sequence[str],
    held: int | None,
    bar: str,
    colours: Palette,
    most: float,
    apart: bool,
) -> str:
    token, probability, rank, logit = word
    part, number = probability, _number(probability)
    if math.isnan(probability):  # the size of a regression's output, on one scale
        part, number = abs(logit) / (most or 1.0), numeral(logit, "+.3f")
    name = escape(names[token] if token < len(names) else f"#{token}")
    mark = f'<span style="color:{colours.quiet};font-weight:400"> {say("held")}</span>'
    name = f"<b>{name}</b>{mark}" if token == held else name
    line = "1px dashed " + colours.line if apart else "none"
    grid = (
        f"display:grid;grid-template-columns:3.2em 9em 1fr 4.4em;gap:8px;border-top:{line};"
        "align-items:center"
    )
    fill = f"width:{100 * part:.2f}%;height:14px;background:{bar};border-radius:0 2px 2px 0"
    return (
        f'<div role="listitem" style="{grid}">'
        f'<span style="color:{colours.quiet};text-align:right">{rank}.</span>'
        f'<span style="overflow:hidden;text-overflow:ellipsis;white-space:nowrap">{name}</span>'
        f'<span aria-hidden="true"><span style="display:block;{fill}"></span></span>'
        f'<span style="text-align:right">{number}</span></div>'
    )


def _number(probability: float) -> str:
    return f"{probability:.3f}" if probability >= 0.0005 else "&lt;0.001"
