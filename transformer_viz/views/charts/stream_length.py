"""How long does a word's vector grow on its way through the layers?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from ...core.palette import palette
from ...core.sites import called
from ...core.trace import Trace
from ...i18n import say
from ...metrics.residual.norm_statistics import check_same_words
from ...metrics.residual.residual_stream import stream_lengths
from .theme import captioned, escaped, figure

HEIGHT = 380
TICKS = 12  # names of steps before they get too dense to read
CLICKS = 4096  # points that can be clicked; longer sentences show lines only


def stream_length(
    trace: Trace,
    stack: str,
    token: int,
    *,
    before: Trace | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw the residual stream's length after each sum: the chosen token strong, others faint.

    The axis is logarithmic, since the residual stream grows layer by layer. A vector of zeros is
    not drawn. A click gives ``[token, step]``.

    Args:
        trace: The run to show.
        stack: ``encoder`` or ``decoder``.
        token: Index of the token, from 0.
        before: Another run on the same tokens; its line of the chosen token is dashed.
        dark: Use colours for a dark background.

    Raises:
        LookupError: No such stack or token; the message lists the available ones.
        ValueError: The two runs have different tokens.
    """
    steps, lengths = stream_lengths(trace, stack)
    words = trace.words_of(stack).labels
    if not 0 <= token < len(words):
        raise LookupError(
            say(
                "The {stack}'s sentence has words 0 to {last}; got {word}.",
                stack=called(stack),
                last=len(words) - 1,
                word=token,
            )
        )
    was = _before(before, trace, stack, token, len(steps))
    colours = palette(dark)
    picture = _frame(steps, lengths if was is None else np.column_stack([lengths, was]), dark)
    others = [other for other in range(len(words)) if other != token]
    clicks = lengths.size <= CLICKS
    faint = {"color": colours.hatch, "width": 1}
    for other in others:
        picture.add_trace(_line(lengths[:, other], words[other], other, faint, clicks))
    if was is not None:
        dashed = {"color": colours.warm, "width": 2, "dash": "dash"}
        clean = say("{word}, clean run", word=words[token])
        picture.add_trace(_line(was, clean, token, dashed, clicks))
    strong = {"color": colours.accent, "width": 3}
    picture.add_trace(_line(lengths[:, token], words[token], token, strong, clicks))
    return captioned(
        picture,
        _caption(stack, words[token], was is not None),
        trace,
        before,
    )


def _before(
    before: Trace | None, trace: Trace, stack: str, token: int, steps: int
) -> np.ndarray | None:
    """Return the other run's lengths of a token ``[step]``; None if it lacks that token."""
    if before is None:
        return None
    check_same_words(before, trace, stack)
    lengths = stream_lengths(before, stack)[1]
    if len(lengths) != steps:
        raise ValueError(
            say(
                "The two runs have {before} and {now} steps in {stack}; compare two runs of one "
                "model.",
                before=len(lengths),
                now=steps,
                stack=repr(stack),
            )
        )
    return lengths[:, token] if token < lengths.shape[1] else None


def _line(
    lengths: np.ndarray, name: str, token: int, line: dict[str, object], clicks: bool
) -> go.Scatter:
    """Return one token's line with invisible points; a click gives the token and the step."""
    unseen = {"marker": {"opacity": 0}}
    step = np.arange(len(lengths))
    return go.Scatter(
        x=step,
        y=np.where(lengths > 0, lengths, np.nan),
        customdata=np.stack([np.full_like(step, token), step], axis=1),
        mode="lines+markers" if clicks else "lines",
        line=line,
        marker={"opacity": 0, "size": 12},
        selected=unseen,
        unselected=unseen,
        hovertemplate="%{x}: %{y:.4~g}<extra>" + escaped(name) + "</extra>",
        name=escaped(name),
    )


def _frame(steps: tuple[str, ...], lengths: np.ndarray, dark: bool) -> go.Figure:
    every = -(-len(steps) // TICKS)
    places = list(range(0, len(steps), every))
    finite = lengths[np.isfinite(lengths) & (lengths > 0)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 10.0)
    ticks = _round_numbers(low, high)
    shown = figure(dark, height=HEIGHT, margin={"l": 60, "r": 24, "b": 130}, hovermode="closest")
    shown.update_layout(
        xaxis={
            "tickmode": "array",
            "tickvals": places,
            "ticktext": [escaped(steps[place]) for place in places],
            "tickangle": -35,
            "range": [-0.2, len(steps) - 0.8],
        },
        yaxis={
            "type": "log",
            "tickmode": "array",
            "tickvals": ticks,
            "ticktext": [f"{tick:g}" for tick in ticks],
            "range": [np.log10(low) - 0.05, np.log10(high) + 0.05],
            "showgrid": True,
            "gridcolor": palette(dark).line,
            "title": {"text": say("length"), "font": {"size": 14}},
        },
    )
    return shown


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2, 5, 10, 20, 50 ... between two numbers, and the next ones around them."""
    tens = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [float(f"{first}e{ten}") for ten in tens for first in (1, 2, 5)]


def _caption(stack: str, word: str, dashed: bool) -> str:
    fields = {"stack": called(stack), "word": word}
    parts = [
        say("{stack}: “{word}” strong, the other words faint", **fields),
        say("logarithmic: equal steps up are equal factors"),
    ]
    return " · ".join([*parts, say("dashed: the clean run")] if dashed else parts)
