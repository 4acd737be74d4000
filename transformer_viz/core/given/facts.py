"""Statements about a trace of given weights, and errors for parts that were not given."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ...i18n import join_words, mark, say
from ..sites import called
from ..trace import Trace

SHORT = mark("Weights given, not captured: nothing proves them.")
WHOLE = mark(
    "These weights were given as arrays and not captured: nobody watched the model that made them, "
    "so nothing proves that it used them."
)
ZEROS = mark("Scores were not given, so a weight of exactly 0 is drawn as masked.")
#: Name of a part that several callers request.
PROBABILITIES = mark("probabilities of words")
#: Masks detected by exact zeros, except windows, which have a width.
MASKS = {"none": mark("no mask"), "causal": mark("causal"), "other": mark("a mask of its own")}

#: Statements about rows that are not text, and the manifest key that lists them.
ROWS = {
    mark("{block}: {count} rows are all zeros, as padding makes them."): "rows of zeros",
    mark(
        "{block}: {count} rows weigh all columns alike, as padding does where a mask hides all."
    ): "rows of equal weights",
    mark(
        "{block}: {count} rows were not numbers, as a softmax over nothing makes them; they are "
        "drawn as zeros."
    ): "rows without numbers",
    mark(
        "{block}: {count} rows of padding sum to less than 1, since empty places of a static cache "
        "were cut off."
    ): "rows cut",
}


def require_captured(trace: Trace, what: str) -> None:
    """Raise if a part other than weights is requested from a trace of given weights.

    Args:
        trace: Any trace.
        what: Name of the part in the plural, marked for translation: ``norms``.

    Raises:
        LookupError: The weights were given. The message names the remedy.
    """
    if trace.report.given:
        raise LookupError(
            say(
                "This run was made of given arrays of weights: {what} were not given, and from "
                "weights nobody can tell them. Open the model with tv.load and trace it.",
                what=say(what),
            )
        )


def given_facts(trace: Trace) -> tuple[str, ...]:
    """Return the known facts about given weights as sentences; empty for a captured trace."""
    report = trace.report
    if not report.given:
        return ()
    said = [say(WHOLE)]
    if report.row_sum_error <= report.allowed:
        said.append(say("Rows sum to 1 within {error:.0e}.", error=report.row_sum_error))
    else:
        said.append(
            say("Rows are up to {error:.2g} away from a sum of 1.", error=report.row_sum_error)
        )
    words = trace.manifest.get("given", {})
    for block in trace.maps:
        said += _of_map(block, words.get(block, {}))
    if words.get("special tokens") == "by their spelling":
        said.append(say("Special tokens were told by their spelling."))
    return (*said, say(ZEROS))


def _of_map(block: str, found: dict[str, Any]) -> Iterator[str]:
    masks = [str(one) for one in found.get("masks", ())]
    runs, first = [], 0
    for mask, group in groupby(masks):
        last = first + len(list(group)) - 1
        named = _mask(mask)
        if len(set(masks)) > 1:
            span = _spans(list(range(first, last + 1)))
            named = say("{mask} in {layers}", mask=named, layers=span)
        runs.append(named)
        first = last + 1
    if runs and not found.get("assumed"):
        yield say("{block}: {masks}.", block=called(block), masks=join_words(runs))
    if found.get("assumed"):
        yield say(
            "{block}: assumed, since no row shows whether later tokens are hidden.",
            block=called(block),
        )
    for text, name in ROWS.items():
        if count := len(found.get(name, ())):
            yield say(text, block=called(block), count=count)
    windows = found.get("windows", ())
    for width in sorted({one for one in windows if one is not None}):
        layers = [n for n, one in enumerate(windows) if one == width]
        yield say(
            "{block}: later steps had the last {width} keys only in {layers}, as a sliding cache "
            "keeps them; each row is placed at these keys.",
            block=called(block), width=width, layers=_spans(layers),
        )  # fmt: skip
    layers = [int(one) for one in found.get("layers", ())]
    if layers != list(range(len(layers))):
        yield say(
            "{block}: some layers have no weights; those shown are {layers} of what was given.",
            block=called(block), layers=", ".join(map(str, layers)),
        )  # fmt: skip


def _spans(layers: list[int]) -> str:
    """Return layers as ``L0, L2–L4``."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][-1] + 1:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    return ", ".join(f"L{s[0]}" if len(s) == 1 else f"L{s[0]}–L{s[-1]}" for s in spans)


def _mask(mask: str) -> str:
    """Return the name of a mask in the current language: ``causal, window of 4``."""
    kind, _, width = mask.rpartition("window of ")
    if not width.isdigit():
        return say(MASKS.get(mask, mask))
    window = say("a window of {width}", width=width)
    return say("causal with {window}", window=window) if kind else window
