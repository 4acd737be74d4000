"""A run of any size, for pages and files that must stay small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from tests.views.conftest import make_trace, softmax
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens
from transformer_viz.metrics import head_statistics


def large_trace(layers: int, heads: int, tokens: int, seed: int = 5) -> Trace:
    """An encoder whose scores are drawn at random: weights that no packing can foresee."""
    draw = np.random.default_rng(seed)
    attentions = tuple(
        Attention(
            softmax(2 * draw.standard_normal((heads, tokens, tokens))).astype(np.float32),
            Site("encoder", "self", layer),
            "source",
            "source",
        )
        for layer in range(layers)
    )
    tables = [
        head_statistics(one.weights).assign(stack="encoder", block="self", layer=one.site.layer)
        for one in attentions
    ]
    return replace(
        make_trace(),
        source=_sentence(tokens),
        target=None,
        produced=None,
        attentions=attentions,
        heads=pd.concat(tables, ignore_index=True),
        thumbnails={"encoder": _thumbnails(attentions, tokens)},
    )


def _sentence(tokens: int) -> Tokens:
    labels = tuple(f"word{n}" for n in range(tokens))
    numbers = tuple(range(tokens))
    return Tokens(numbers, labels, labels, numbers, (False,) * tokens)


def _thumbnails(attentions: tuple[Attention, ...], tokens: int) -> np.ndarray:
    side = -(-tokens // 64)
    starts = np.arange(0, tokens, side)
    small = [
        np.maximum.reduceat(np.maximum.reduceat(one.weights, starts, axis=1), starts, axis=2)
        for one in attentions
    ]
    return np.round(np.stack(small) * 255).astype(np.uint8)
