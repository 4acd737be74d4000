"""Heads as lines between query tokens and key tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.trace import Trace
from ..i18n import say
from ..metrics.attention.map_cells import Cells
from ..metrics.attention.map_difference import appended, difference
from .blob import both_palettes, pack
from .map_look import PLAIN, MapLook
from .ruler import Ruler, rulers

MOST_HEADS = 8  # colours that are easy to distinguish
WHOLE = 256  # tokens on a side up to which every weight is sent
STRONGEST = 16  # links of a row that are sent beyond that
ACROSS = 400  # pixels between and around two sentences, one above the other
ROW = 24  # pixels of a token in a column
HEIGHTS = (340, 560)  # limits of a column's height, against jumps of the page; longer ones scroll

Head = tuple[int, int]


def lines_data(
    trace: Trace,
    block: str,
    heads: Sequence[Head],
    look: MapLook = PLAIN,
    *,
    before: Trace | None = None,
    top: int = 0,
) -> bytes:
    """Return one or more heads as lines, for ``lines.js``.

    Every weight is sent, ``weights`` float32 ``[head, query, key]``. If a side has more than 256
    tokens, only the 16 strongest links of each row are sent, with their ``keys`` int32. The
    header's ``beyond`` counts the others.

    Args:
        trace: The run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        heads: Layer and head of each, from 0; at most eight, and duplicates count once.
        look: Chosen cells, grouping of tokens, and the initial ``threshold``.
        before: Another run on the same tokens; if given, the change since it is drawn.
        top: Initial number of lines of each token, 0 for all.

    Raises:
        LookupError: The trace lacks the map, layer or head; the message lists those it has.
        ValueError: No head, more than eight, or two runs that cannot be compared; the message gives
            the reason.
    """
    chosen = _at_most_eight(heads)
    now = [look.cells(trace, block, *head) for head in chosen]
    was = [look.cells(before, block, *head) for head in chosen] if before else []
    arrays, beyond = strongest_links(_weights(now, was))
    rows, columns = rulers(trace, block, now[0])
    header = {
        "part": "head",
        "view": "lines",
        "seq": look.seq,
        "colours": both_palettes(),
        "block": block,
        "across": block == "cross",
        "height": lines_height(block, len(now[0].rows), len(now[0].columns)),
        "heads": [{"layer": layer, "head": head} for layer, head in chosen],
        "rows": rows.to_dict(),
        "columns": columns.to_dict(),
        "change": before is not None,
        "token": look.token,
        "key": look.key,
        "top": top,
        "threshold": look.threshold,
        "beyond": beyond,
        "caption": _caption(block, rows),
        "note": _note(chosen, now, was),
    }
    return pack(header, **arrays)


def lines_height(block: str, rows: int, columns: int) -> int:
    """Return the lines' height in pixels, to reserve it before drawing."""
    if block == "cross":
        return ACROSS
    return int(np.clip(2 * ROW + ROW * max(rows, columns), *HEIGHTS))


def _at_most_eight(heads: Sequence[Head]) -> tuple[Head, ...]:
    chosen = tuple(dict.fromkeys(heads))
    if not 1 <= len(chosen) <= MOST_HEADS:
        raise ValueError(
            say(
                "Lines show one to {most} heads at once, each in a colour of its own; got "
                "{count}. Choose fewer of them, or at least one.",
                most=MOST_HEADS,
                count=len(chosen),
            )
        )
    return chosen


def _weights(now: Sequence[Cells], was: Sequence[Cells]) -> np.ndarray:
    """Return the drawn weights, ``[head, query, key]`` float32; NaN where a change is unknown."""
    if was:
        return np.stack([difference(*pair) for pair in zip(now, was, strict=True)])
    return np.stack([head.weights for head in now]).astype(np.float32)


def strongest_links(weights: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays for the browser, and number and weight of the omitted links."""
    size = np.nan_to_num(np.abs(weights))
    if max(weights.shape[1:]) <= WHOLE:
        return {"weights": weights}, {"links": 0, "weight": 0.0}
    keys = _strongest(size)
    kept = np.take_along_axis(size, keys, axis=2)
    beyond = {
        "links": int(np.count_nonzero(size) - np.count_nonzero(kept)),
        "weight": float(size.sum(dtype=np.float64) - kept.sum(dtype=np.float64)),
    }
    links = np.nan_to_num(np.take_along_axis(weights, keys, axis=2))
    return {"weights": links, "keys": keys.astype(np.int32)}, beyond


def _strongest(size: np.ndarray) -> np.ndarray:
    """Return the keys of each row's strongest links, strongest first; earlier ones on ties."""
    count = min(STRONGEST, size.shape[2])
    keys = np.sort(np.argpartition(-size, count - 1, axis=2)[..., :count], axis=2)
    order = np.argsort(-np.take_along_axis(size, keys, axis=2), axis=2, kind="stable")
    return np.take_along_axis(keys, order, axis=2)


def _caption(block: str, rows: Ruler) -> str:
    """Return the caption: direction and position of both sides."""
    produced = rows.sentence == "produced"
    if block == "cross" and produced:
        return say("target words below, while they are produced, look at source words above")
    if block == "cross":
        return say("target words below look at source words above")
    if produced:
        return say("words on the left, while they are produced, look at words on the right")
    return say("words on the left look at words on the right")


def _note(heads: Sequence[Head], now: Sequence[Cells], was: Sequence[Cells]) -> str:
    """Return the note about regrouping, once if equal for all heads, and about new rows."""
    notes = [head.note for head in now]
    if len(set(notes)) > 1:
        names = (f"L{layer} H{head}" for layer, head in heads)
        notes = [f"{name}: {note}" for name, note in zip(names, notes, strict=True) if note]
    new = appended(now[0], was[0]) if was else ""
    return " ".join(filter(None, (*dict.fromkeys(notes), new)))
