"""Alignment as lines between the words of two sentences, thick for large weights."""

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
    """Return the weights of an alignment for ``lines.js``, with links and other pairs separate.

    ``weights`` are float32 ``[kind, target word, source word]``: the weight of a pair is in one
    kind and 0 in the other. The header's ``unread`` are source words with little weight.

    Args:
        trace: The run that was aligned.
        found: Result of `align` for it.
        picked: A row of the decoder and a source token whose words are highlighted.
        top: Initial number of lines of each word and kind, 0 for all.
        threshold: Initial smallest weight to draw.
        seq: Number of the step.
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
    """Return the words of both sides with their tokens; a target word has the rows writing it."""
    rows = _groups(trace.tokens("target"))
    whose = row_sentence(trace, "cross")
    if whose == "produced":  # row t writes token t + 1, whichever row the weights are read from
        rows = tuple(tuple(token - 1 for token in group) for group in rows)
    return (
        Ruler(whose, found.target, rows),
        Ruler("source", found.source, _groups(trace.source)),
    )


def _groups(tokens: Tokens) -> tuple[tuple[int, ...], ...]:
    """Return the tokens of each word except special tokens, in reading order."""
    parts: dict[int, list[int]] = {}
    for token, word in enumerate(tokens.words):
        parts.setdefault(word, []).append(token)
    return tuple(
        tuple(group)
        for group in parts.values()
        if not all(tokens.special[token] for token in group)
    )
