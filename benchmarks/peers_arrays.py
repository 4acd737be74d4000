"""The arrays that all are given: attention of 12 layers and 12 heads, the same at every call."""

from __future__ import annotations

import numpy as np
import pandas as pd

from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Report, Tokens
from transformer_viz.metrics import head_statistics

LAYERS, HEADS = 12, 12
SIDE = 64  # cells of a small picture, as the probe makes them
NOTHING = pd.DataFrame()


def weights(length: int, seed: int = 0) -> np.ndarray:
    """Rows that sum to 1, ``[layer, head, query, key]`` float32: softmax of seeded scores."""
    draw = np.random.default_rng([seed, length])
    scores = draw.standard_normal((LAYERS, HEADS, length, length), dtype=np.float32)
    powers = np.exp(2 * scores, out=scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def words(length: int) -> list[str]:
    """So many words, no two alike."""
    return [f"word{n}" for n in range(length)]


def trace_of(array: np.ndarray, *, kept: bool = False) -> Trace:
    """What the probe would have said of these weights: small pictures and numbers of every head.

    Args:
        array: ``[layer, head, query, key]``; queries and keys a multiple of 64 where they are more.
        kept: whether the weights are in the trace, too.
    """
    tables = [
        head_statistics(heads).assign(stack="encoder", block="self", layer=layer)
        for layer, heads in enumerate(array)
    ]
    labels = tuple(words(array.shape[2]))
    count = range(len(labels))
    return Trace(
        source=Tokens(tuple(count), labels, labels, tuple(count), (False,) * len(labels)),
        target=None,
        produced=None,
        heads=pd.concat(tables, ignore_index=True),
        thumbnails={"encoder": pooled(array)},
        attentions=tuple(
            Attention(heads, Site("encoder", "self", layer), "source", "source")
            for layer, heads in enumerate(array if kept else ())
        ),
        norms=NOTHING,
        gains={},
        residuals=NOTHING,
        positions={},
        logits=None,
        report=Report((), 0.0, None, {}),
        manifest={},
    )


def pooled(array: np.ndarray) -> np.ndarray:
    """The largest weight of each cell, uint8 ``[layer, head, <=64, <=64]``, 255 = weight 1."""
    step = max(1, array.shape[-1] // SIDE)
    rows = array[:, :, ::step]
    for n in range(1, step):
        rows = np.maximum(rows, array[:, :, n::step])
    cells = rows[..., ::step]
    for n in range(1, step):
        cells = np.maximum(cells, rows[..., n::step])
    return np.rint(cells * np.float32(255)).astype(np.uint8)
