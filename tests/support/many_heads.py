"""Runs of any number of layers and heads over sentences of any length, for the atlas."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from tests.views.conftest import make_trace, softmax
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens
from transformer_viz.metrics import head_statistics

SIDE = 64  # cells of a thumbnail at most


def sentence(length: int, name: str = "s") -> Tokens:
    """Words s0, s1 ... without marks."""
    labels = tuple(f"{name}{n}" for n in range(length))
    words = tuple(range(length))
    return Tokens(words, labels, labels, words, (False,) * length)


def blocks_max(weights: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """The largest of each ``rows`` x ``columns`` cells ``[..., query, key]``, by plain slicing."""
    queries, keys = weights.shape[-2:]
    return np.stack(
        [
            np.stack(
                [
                    weights[..., r : r + rows, c : c + columns].max(axis=(-2, -1))
                    for c in range(0, keys, columns)
                ],
                axis=-1,
            )
            for r in range(0, queries, rows)
        ],
        axis=-2,
    )


def thumbnail(weights: np.ndarray) -> np.ndarray:
    """As the probe makes them: max-pooled to at most 64 x 64, 255 = 1."""
    steps = (-(-size // SIDE) for size in weights.shape[-2:])
    return np.round(blocks_max(weights, *steps) * 255).astype(np.uint8)


def many(
    layers: int,
    heads: int,
    queries: int,
    keys: int | None = None,
    *,
    blocks: tuple[str, ...] = ("encoder",),
    seed: int = 7,
    kept: bool = True,
) -> Trace:
    """A run whose heads are seeded noise of their own sharpness; the target has ``queries`` words.

    Args:
        layers, heads: how many, in each block.
        queries: words of the sentence that looks.
        keys: words of the source; left out, as many.
        blocks: the maps there are.
        seed: of the noise.
        kept: whether the matrices are in the trace.
    """
    rng = np.random.default_rng(seed)
    tables, small, attentions = [], {}, []
    for block in blocks:
        source = keys or queries
        down = source if block == "encoder" else queries
        across = queries if block == "decoder" else source
        scores = rng.normal(size=(layers, heads, down, across))
        scores *= rng.uniform(0.5, 4, size=(layers, heads, 1, 1))
        weights = softmax(scores).astype(np.float32)
        stack, kind = MAPS[block]
        small[block] = thumbnail(weights)
        for layer, one in enumerate(weights):
            place = {"stack": stack, "block": kind, "layer": layer}
            tables.append(head_statistics(one).assign(**place))
            asks = "source" if block == "encoder" else "target"
            asked = "target" if block == "decoder" else "source"
            attentions.append(Attention(one, Site(stack, kind, layer), asks, asked))
    return dataclasses.replace(
        make_trace(),
        source=sentence(keys or queries),
        target=sentence(queries, "t") if set(blocks) - {"encoder"} else None,
        produced=None,
        heads=pd.concat(tables, ignore_index=True),
        thumbnails=small,
        attentions=tuple(attentions) if kept else (),
    )


def repeated(trace: Trace, times: int) -> Trace:
    """A run of one encoder layer as one of many: every layer looks the same."""
    table = [trace.heads.assign(layer=layer) for layer in range(times)]
    tiles = np.repeat(trace.thumbnail("encoder"), times, axis=0)
    return dataclasses.replace(
        trace,
        heads=pd.concat(table, ignore_index=True),
        thumbnails={"encoder": tiles},
        attentions=(),
    )
