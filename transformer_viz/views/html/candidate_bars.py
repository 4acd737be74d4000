"""What else could the model have said here?"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...core.palette import Palette, palette
from ...core.trace import Trace
from ...i18n import mark, say
from ...metrics.output.top_k import Candidate, most_probable
from .picture import Picture, noted

LINE = 27  # pixels of a word's line
CAPTION = mark("The most probable words at this place; a full bar is probability 1.")
CLASSES = mark("The most probable classes; a full bar is probability 1.")
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

    Of a classifier, whose only place is 0, the classes. The held word is marked, and stands below
    the others where it is not one of them; its room is always there, so that nothing jumps.

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
    lists = _list(say("clean run"), before, row, names, held, count, colours.accent, colours)
    if after is not None:
        lists += _list(say("changed run"), after, row, names, held, count, colours.warm, colours)
    style = (
        "display:flex;flex-wrap:wrap;gap:12px 40px;font-variant-numeric:tabular-nums;"
        f"color:{colours.ink};font-size:calc(14px * var(--tv-scale, 1));"
        f"line-height:calc({LINE}px * var(--tv-scale, 1))"
    )
    words = before.logits is None or before.logits.ndim > 1
    caption = say(CAPTION if words else CLASSES)
    caption += " " + say(HELD) if held is not None else ""
    return noted(f'<div style="{style}">{lists}</div>', caption, before, after)


def _held(before: Trace, after: Trace | None, row: int) -> int | None:
    """The word that both runs are asked about; None where a run is asked about none.

    A class is not held: it is what comes out, and nothing of it goes in.
    """
    if before.produced is None or before.logits is None or before.logits.ndim == 1:
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
    trace: Trace,
    row: int,
    names: Sequence[str],
    held: int | None,
    count: int,
    bar: str,
    colours: Palette,
) -> str:
    words = most_probable(trace, row, count, held)
    lines = "".join(
        _line(word, names, held, bar, colours, apart=place >= count)
        for place, word in enumerate(words)
    )
    room = (count + (held is not None)) * LINE + 1
    label = say("most probable, {run}", run=title)
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
    apart: bool,
) -> str:
    token, probability, rank = word
    name = escape(names[token] if token < len(names) else f"#{token}")
    mark = f'<span style="color:{colours.quiet};font-weight:400"> {say("held")}</span>'
    name = f"<b>{name}</b>{mark}" if token == held else name
    line = "1px dashed " + colours.line if apart else "none"
    grid = (
        f"display:grid;grid-template-columns:3.2em 9em 1fr 3.6em;gap:8px;border-top:{line};"
        "align-items:center"
    )
    fill = f"width:{100 * probability:.2f}%;height:14px;background:{bar};border-radius:0 2px 2px 0"
    return (
        f'<div role="listitem" style="{grid}">'
        f'<span style="color:{colours.quiet};text-align:right">{rank}.</span>'
        f'<span style="overflow:hidden;text-overflow:ellipsis;white-space:nowrap">{name}</span>'
        f'<span aria-hidden="true"><span style="display:block;{fill}"></span></span>'
        f'<span style="text-align:right">{_number(probability)}</span></div>'
    )


def _number(probability: float) -> str:
    return f"{probability:.3f}" if probability >= 0.0005 else "&lt;0.001"
