"""Runs of any length for the lines view."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.views.conftest import make_trace, softmax
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Tokens

WHOSE = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


def sentence(length: int, name: str = "w") -> Tokens:
    """Words w0, w1 ... without marks."""
    labels = tuple(f"{name}{n}" for n in range(length))
    words = tuple(range(length))
    return Tokens(words, labels, labels, words, (False,) * length)


def made(weights: np.ndarray, block: str = "encoder") -> Trace:
    """A run with one layer of a map: weights ``[head, query, key]``."""
    stack, kind = MAPS[block]
    _, queries, keys = weights.shape
    attention = Attention(weights.astype(np.float32), Site(stack, kind, 0), *WHOSE[block])
    return dataclasses.replace(
        make_trace(),
        source=sentence(keys, "s"),
        target=None if block == "encoder" else sentence(queries, "t"),
        produced=None,
        attentions=(attention,),
    )


def ramp_weights(heads: int, queries: int, keys: int) -> np.ndarray:
    """Heads that look where an uneven ramp tells them, ``[head, query, key]``; rows sum to 1."""
    head, query, key = np.mgrid[:heads, :queries, :keys]
    return softmax(np.cos(1.3 * query + 0.7 * key * (1 + head)) * 4 - 0.05 * abs(query - key))


def hard(keys: list[list[int]], count: int) -> np.ndarray:
    """Heads that look at one key only: ``keys`` [head][query]; weights ``[head, query, key]``."""
    return np.eye(count)[np.array(keys)]
