"""An alignment as lines between the words of two sentences, thick where the weight is large."""

from __future__ import annotations

import numpy as np

from ..core.trace import Trace
from ..core.trace_parts import Tokens
from ..i18n import say
from ..metrics.alignment.aligning import Alignment
from .blob import both_palettes, pack
from .lines import lines_height, strongest_links
from .ruler import Ruler, row_sentence


def word_links_data(
    trace: Trace,
    found: Alignment,
    *,
    picked: tuple[int | None, int | None] = (None, None),
    top: int = 0,
    threshold: float = 0.0,
    seq: int = 0,
) -> bytes:
    """The weights of an alignment, for ``lines.js``: linked pairs as one kind of line, the rest as
    another.

    ``weights`` are float32 ``[kind, target word, source word]``: of each pair the weight stands in
    one kind and 0 in the other. The header's ``unread`` are the source words that nobody read.

    Args:
        trace: the run that was aligned.
        found: what `align` gave of it.
        picked: a row of the decoder and a source token whose words are pointed out.
        top: how many lines of each word and kind to draw at first, 0 for all.
        threshold: the least weight to draw at first.
        seq: the number of the step.
    """
    linked = np.zeros(found.weights.shape, bool)
    for source, target in found.pairs:
        linked[target, source] = True
    kinds = np.stack([np.where(linked, found.weights, 0), np.where(linked, 0, found.weights)])
    arrays, beyond = strongest_links(kinds.astype(np.float32))
    rows, columns = _rulers(trace, found)
    header = {
        "part": "head",
        "view": "lines",
        "seq": seq,
        "colours": both_palettes(),
        "block": "cross",
        "across": True,
        "height": lines_height("cross", len(found.target), len(found.source)),
        "heads": [{"name": say("links")}, {"name": say("other weight")}],
        "rows": rows.to_dict(),
        "columns": columns.to_dict(),
        "change": False,
        "token": picked[0],
        "key": picked[1],
        "top": top,
        "threshold": threshold,
        "beyond": beyond,
        "unread": list(found.unread),
        "caption": say("source words above, target words below; thick lines carry much weight"),
        "note": say("in a dashed frame: read by nobody") if found.unread else "",
    }
    return pack(header, **arrays)


def _rulers(trace: Trace, found: Alignment) -> tuple[Ruler, Ruler]:
    """The words of both sides with their tokens; a target word's by the rows that write it."""
    rows = _groups(trace.tokens("target"))
    whose = row_sentence(trace, "cross")
    if whose == "produced":  # row t writes token t + 1, whichever row the weights are read from
        rows = tuple(tuple(token - 1 for token in group) for group in rows)
    return (
        Ruler(whose, found.target, rows),
        Ruler("source", found.source, _groups(trace.source)),
    )


def _groups(tokens: Tokens) -> tuple[tuple[int, ...], ...]:
    """The tokens of each word that is no special token, in reading order."""
    parts: dict[int, list[int]] = {}
    for token, word in enumerate(tokens.words):
        parts.setdefault(word, []).append(token)
    return tuple(
        tuple(group)
        for group in parts.values()
        if not all(tokens.special[token] for token in group)
    )
