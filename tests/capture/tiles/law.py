"""The law of tiles: each is the very piece of the matrix that the same pass used."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.core.interventions import Edit, Intervention
from transformer_viz.core.numerics import MASK_SCORE
from transformer_viz.core.tiles import Tiles
from transformer_viz.inference.capture_to_numpy import ordered, tiles_of

CLOSE = 2e-6
ROUNDED = 16  # a float32 score of this size is itself known to 1e-6, and its weight to no more
TILED = CaptureRequest(tiles=lambda site: True, scores=lambda site: True)
ALONE = CaptureRequest(weights=lambda site: False, tiles=lambda site: True)


def watched(module: nn.Module, *edits: Edit, want: CaptureRequest = TILED, **given: object):
    """A pass with matrices and tiles, or with tiles alone."""
    with torch.inference_mode(), probe(module, Intervention(edits), want) as seen:
        module(**given) if "x" not in given else module(given.pop("x"), **given)
    return seen


def same_input(one: Tiles, other: Tiles) -> bool:
    pairs = zip(one.parts, other.parts, strict=True)
    return all(np.array_equal(a.q, b.q) and np.array_equal(a.k, b.k) for a, b in pairs)


def named(seen: Capture) -> dict[tuple[str, int], Tiles]:
    return {(t.site.map, t.site.layer): t for t in tiles_of(seen, None, "encoder-decoder")}


def apart(seen: Capture, matrices: Capture | None = None) -> float:
    """The largest difference between tiles and matrices, of the wholes and of pieces.

    Of another pass those blocks count whose queries and keys were the same to the last bit: under
    edits rows are summed in other blocks where no matrix is kept, and later layers begin with
    another rounding. Where scores are larger than 16 the difference is told in units of what their
    own rounding leaves open, as matrix and tile each round them once.
    """
    tiles, worst = named(seen), 0.0
    if matrices is not None:
        other = named(matrices)
        tiles = {place: one for place, one in tiles.items() if same_input(one, other[place])}
        assert min(layer for _, layer in tiles) == 0
    for record in ordered(matrices or seen):
        if (record.site.map, record.site.layer) not in tiles:
            continue
        assert record.weights is not None
        weights, scores = record.weights[0].cpu().numpy(), record.scores[0].cpu()
        ordinary = scores[scores > MASK_SCORE].abs().amax() if scores.numel() else 0
        unit = max(1.0, float(ordinary) / ROUNDED)
        mine = tiles[record.site.map, record.site.layer]
        assert (mine.heads, *mine.shape) == weights.shape
        rows, keys = mine.shape
        pieces = [(slice(0, rows), slice(0, keys)), (slice(rows - 1, rows), slice(keys // 2, keys))]
        pieces += [(slice(rows // 3, rows // 3 + 1), slice(0, max(1, keys // 2)))]
        for head in range(mine.heads):
            for across, down in pieces:
                got, wanted = mine.tile(head, across, down), weights[head, across, down]
                assert got.dtype == np.float32 and got.shape == wanted.shape
                assert np.array_equal(np.isnan(got), np.isnan(wanted))
                off = float(abs(np.nan_to_num(got) - np.nan_to_num(wanted)).max())
                worst = max(worst, off / unit)
    return worst
