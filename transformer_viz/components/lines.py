"""Heads as lines between the words that look and the words that are looked at."""

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

MOST_HEADS = 8  # colours that everybody can tell apart
WHOLE = 256  # words on a side up to which every weight is sent
STRONGEST = 16  # links of a row that are sent beyond that
ACROSS = 400  # pixels between and around two sentences that lie one above the other
ROW = 24  # pixels of a word where they stand in columns
HEIGHTS = (340, 560)  # columns take between these, so that a page does not jump; longer ones scroll

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
    """One or more heads as lines, for ``lines.js``.

    Every weight is sent, ``weights`` float32 ``[head, query, key]``. Where a side has more than
    256 words, only the 16 strongest links of each row are, with their ``keys`` int32 beside them,
    and the header's ``beyond`` counts the others.

    Args:
        trace: the run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        heads: layer and head of each, from 0; at most eight, and the same one counts once.
        look: what is chosen, how tokens are grouped, and the ``threshold`` to draw from at first.
        before: another run over the same words; then the change since it is drawn instead.
        top: how many lines of each word to draw at first, 0 for all.

    Raises:
        LookupError: a map, layer or head that the trace lacks; names those it has.
        ValueError: no head, more than eight, or two runs that cannot be compared; says why.
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
    """Pixels that the lines take, so that they can be kept free before they are drawn."""
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
    """What is drawn of each head, ``[head, query, key]`` float32; NaN where a change is unknown."""
    if was:
        return np.stack([difference(*pair) for pair in zip(now, was, strict=True)])
    return np.stack([head.weights for head in now]).astype(np.float32)


def strongest_links(weights: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays for the browser, and how many links, and how much weight, they leave out."""
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
    """The keys of each row's strongest links, strongest first; of equals the earlier one."""
    count = min(STRONGEST, size.shape[2])
    keys = np.sort(np.argpartition(-size, count - 1, axis=2)[..., :count], axis=2)
    order = np.argsort(-np.take_along_axis(size, keys, axis=2), axis=2, kind="stable")
    return np.take_along_axis(keys, order, axis=2)


def _caption(block: str, rows: Ruler) -> str:
    """Who looks at whom, and where they stand."""
    produced = rows.sentence == "produced"
    if block == "cross" and produced:
        return say("target words below, while they are produced, look at source words above")
    if block == "cross":
        return say("target words below look at source words above")
    if produced:
        return say("words on the left, while they are produced, look at words on the right")
    return say("words on the left look at words on the right")


def _note(heads: Sequence[Head], now: Sequence[Cells], was: Sequence[Cells]) -> str:
    """What was regrouped, once where it is the same for all heads, and what is new since before."""
    notes = [head.note for head in now]
    if len(set(notes)) > 1:
        names = (f"L{layer} H{head}" for layer, head in heads)
        notes = [f"{name}: {note}" for name, note in zip(names, notes, strict=True) if note]
    new = appended(now[0], was[0]) if was else ""
    return " ".join(filter(None, (*dict.fromkeys(notes), new)))
