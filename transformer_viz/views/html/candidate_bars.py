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

LINE = 27  # pixels of a word's line
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
    """The most probable words at one place of the output, before and after, with their bars.

    Of a classifier, whose only place is 0, the classes: of several labels each with its own
    probability, of a regression the scores. Of a model that marks an answer, place 0 is its start
    and place 1 its end, and ``names`` are those of the tokens. The held word is marked, and stands
    below the others where it is not one of them; its room is always there, so that nothing jumps.

    Args:
        before: the clean run.
        after: a changed run over the same words; None shows the clean run alone.
        row: the place, from 0: the row of the decoder that says the word.
        names: what the words of the vocabulary, or the classes, are called, ``[id]``.
        count: how many words of each run.
        dark: colours for a dark background.

    Raises:
        LookupError: a model without an output layer, or a row that is not there.
        ValueError: the runs speak about different words.
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
    """The word that both runs are asked about; None where a run is asked about none.

    A class, or an end of an answer, is not held: it is what comes out, and nothing of it goes in.
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
    if math.isnan(probability):  # the output of a regression: its size, to one scale
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
