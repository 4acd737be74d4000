"""Split of a run over two sentences in one sequence into their mutual attention."""

from __future__ import annotations

from dataclasses import replace

from ..core.sites import MAPS, Site
from ..core.trace import Trace
from ..core.trace_parts import Attention, read_only
from .building import Map, head_table, small_pictures
from .layers import Layer
from .numbers import EXACT, Numbers
from .words import tokens_within


def part_of(trace: Trace, block: str, rows: slice, columns: slice) -> Trace:
    """Return some rows and columns of all maps of a block as a separate trace.

    Weights are unchanged, so rows need not sum to 1. If rows and columns are different tokens, the
    column tokens are the ``target`` of the part.
    """
    own = rows == columns
    key = "source" if own else "target"
    kept = [
        replace(one, weights=read_only(one.weights[:, rows, columns].copy()), key=key)
        for one in trace.blocks(block)
    ]
    layers = [
        Layer(Numbers(one.weights, str(one.weights.dtype), EXACT), n) for n, one in enumerate(kept)
    ]
    cut = Map(block, layers, "source", key, [])
    words = trace.source
    return replace(
        trace,
        source=tokens_within(words, rows),
        target=None if own else tokens_within(words, columns),
        heads=head_table(cut),
        thumbnails={block: small_pictures(cut)},
        attentions=tuple(
            Attention(one.weights, Site(*MAPS[block], one.site.layer), "source", key)
            for one in kept
        ),
    )
