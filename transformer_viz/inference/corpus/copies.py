"""Measures `copying` and `ov_copying`, which need model weights besides attention weights."""

from __future__ import annotations

import numpy as np

from ...metrics.head_measures.columns import Sums
from ...metrics.head_measures.rows import HeadRows, tally
from ...metrics.head_measures.stacked import put_apart
from ...metrics.head_measures.values import TOP, asked_to_copy
from ..head_metrics.own_weights import OwnWeights
from .blocks import Batch, Block, side
from .sentences import Sentence


def put_copying(sums: Sums, at: int, batch: Batch, place: int, own: OwnWeights, view: str) -> None:
    """Write `copying` of the sentence ``place`` of a batch into row ``at`` of the sums."""
    blocks = [b for b in batch.blocks if b.v is not None and own.says(b.site)]
    asked_of, written, tokens = [], [], []
    for block in blocks:
        assert block.v is not None
        rows = _rows(batch.sentences[place], block, place, view)
        token, asked = asked_to_copy(rows)
        asked_of.append(asked)
        written.append(own.written(block.site, rows.weights, block.v[place])[asked])
        tokens.append(token[asked])
    if not blocks:
        return
    hit = own.among_first(np.concatenate(written), np.concatenate(tokens), TOP)
    share, start = min(1.0, TOP / own.vocabulary), 0
    for block, asked in zip(blocks, asked_of, strict=True):
        hits = np.zeros(asked.shape)
        hits[asked] = hit[start : start + asked.sum()]
        start += int(asked.sum())
        chance = tally(np.full(asked.shape, share), asked)
        put_apart(sums, at, block.heads, "copying", tally(hits, asked), chance)


def put_circuits(sums: Sums, batch: Batch, own: OwnWeights) -> None:
    """Write `ov_copying` of every head into the first row of the sums; it needs no sentence."""
    for block in batch.blocks:
        ov = own.ov.get((block.site.block, block.site.layer))
        if ov is not None and block.site.stack == own.last:
            known = np.isfinite(ov)[:, None]
            found = tally(np.nan_to_num(ov)[:, None], known)
            put_apart(sums, 0, block.heads, "ov_copying", found, tally(0.0 * known, known))


def _rows(one: Sentence, block: Block, place: int, view: str) -> HeadRows:
    query, key = side(one, block.query), side(one, block.key)
    return HeadRows(
        block.weights[place],
        block.allowed[place],
        np.array(query.special, bool),
        np.array(key.special, bool),
        key_ids=np.array(key.ids, np.int64),
        cross=block.site.block == "cross",
        view=view,
    )
