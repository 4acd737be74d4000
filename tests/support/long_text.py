"""A trace of one head over a sentence of any length."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.views.conftest import make_trace, softmax
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens


def sentence(count: int) -> Tokens:
    """Words of two to nine letters, numbered."""
    labels = tuple(f"{'wordlike'[: 2 + n % 7]}{n}" for n in range(count))
    nothing = (False,) * count
    return Tokens(tuple(range(count)), labels, labels, tuple(range(count)), nothing)


def long_trace(count: int, *, causal: bool = False, seed: int = 0) -> Trace:
    """An encoder with one layer of one head over ``count`` words; each weight is another one."""
    scores = np.random.default_rng(seed).normal(0, 2, (1, count, count))
    if causal:
        scores = np.where(np.triu(np.ones((count, count)), 1) > 0, -np.inf, scores)
    weights = softmax(scores).astype(np.float32)
    one = Attention(weights, Site("encoder", "self", 0), "source", "source", scores=scores)
    return dataclasses.replace(
        make_trace(),
        source=sentence(count),
        attentions=(one,),
        thumbnails={"encoder": np.zeros((1, 1, 2, 2), np.uint8)},
    )
