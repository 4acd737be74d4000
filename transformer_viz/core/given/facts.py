"""What a trace of given weights says of itself, and what it says where something was not given."""

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
#: What is asked for in several places.
PROBABILITIES = mark("probabilities of words")
#: The masks that exact zeros show, but for windows, which bear a number.
MASKS = {"none": mark("no mask"), "causal": mark("causal"), "other": mark("a mask of its own")}


def require_captured(trace: Trace, what: str) -> None:
    """Refuse to look for something in a trace of given weights, which has nothing else.

    Args:
        trace: any trace.
        what: in the plural, marked for translation: ``norms``.

    Raises:
        LookupError: the weights were given; says what to do.
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
    """What is known of given weights, in sentences; empty for a captured trace."""
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


def _of_map(block: str, found: dict[str, list[Any]]) -> Iterator[str]:
    masks = [str(one) for one in found.get("masks", ())]
    runs, first = [], 0
    for mask, group in groupby(masks):
        last = first + len(list(group)) - 1
        named = _mask(mask)
        if len(set(masks)) > 1:
            span = f"L{first}" if first == last else f"L{first}–L{last}"
            named = say("{mask} in {layers}", mask=named, layers=span)
        runs.append(named)
        first = last + 1
    if runs:
        yield say("{block}: {masks}.", block=called(block), masks=join_words(runs))
    blank = len(found.get("rows of zeros", ()))
    if blank:
        yield say(
            "{block}: {count} rows are all zeros, as padding makes them.",
            block=called(block), count=blank,
        )  # fmt: skip
    layers = [int(one) for one in found.get("layers", ())]
    if layers != list(range(len(layers))):
        yield say(
            "{block}: some layers have no weights; those shown are {layers} of what was given.",
            block=called(block), layers=", ".join(map(str, layers)),
        )  # fmt: skip


def _mask(mask: str) -> str:
    """A mask in the present language: ``causal, window of 4``."""
    kind, _, width = mask.rpartition("window of ")
    if not width.isdigit():
        return say(MASKS.get(mask, mask))
    window = say("a window of {width}", width=width)
    return say("causal with {window}", window=window) if kind else window
