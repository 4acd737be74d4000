"""Difference of a head's map between two runs, cell by cell."""

from __future__ import annotations

import numpy as np

from ...core.trace import Trace
from ...i18n import say
from .map_cells import Cells
from .thumbnails import extends, grown, sentences


def difference(now: Cells, was: Cells) -> np.ndarray:
    """Return the growth of each weight of a head since another run on the same words.

    Words may have been appended: a column that was missing before counts as 0.

    Returns:
        ``[query, key]`` float32; NaN for cells masked in both runs, and in new rows.

    Raises:
        ValueError: The two runs have different words.
    """
    shape = now.weights.shape
    if shape != was.weights.shape:
        _require_same_beginning(now, was)
    old = grown(was.weights.astype(np.float64), shape)
    missing = [(0, more) for more in np.subtract(shape, was.masked.shape)]
    unseen = now.masked & np.pad(was.masked, missing, constant_values=True)
    return np.where(unseen, np.nan, now.weights - old).astype(np.float32)


def require_same_words(trace: Trace, before: Trace, block: str) -> None:
    """Raise if a map of two runs belongs to different sentences.

    Raises:
        ValueError: The later run's words are neither equal nor an extension.
    """
    for now, was in zip(sentences(trace, block), sentences(before, block), strict=True):
        if not extends(now, was):
            raise ValueError(
                say(
                    "The two runs speak about different words: {before} and {now}; trace the "
                    "second one with the first one's input and target.",
                    before=repr(" ".join(was.labels)),
                    now=repr(" ".join(now.labels)),
                )
            )


def appended(now: Cells, was: Cells) -> str:
    """Return a note on a difference between sentences of different length."""
    rows, columns = np.subtract(now.weights.shape, was.weights.shape)
    columns_note = say("What was appended had no weight before.") if columns else ""
    return columns_note + (" " + say("Its own rows are new, and left empty.") if rows else "")


def _require_same_beginning(now: Cells, was: Cells) -> None:
    """Raise unless the later sentence begins with the earlier one."""
    for side, old in ((now.rows.labels, was.rows.labels), (now.columns.labels, was.columns.labels)):
        if side[: len(old)] != old:
            raise ValueError(
                say(
                    "The two runs speak about different words: {before} and {now} cells that do "
                    "not begin alike; trace the second one with the first one's target.",
                    before=was.weights.shape,
                    now=now.weights.shape,
                )
            )
