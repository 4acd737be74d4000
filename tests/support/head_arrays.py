"""Maps of heads for tests of metrics, from weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from transformer_viz.metrics.heads.maps import Maps, Side


def side(size: int, ids: Sequence[int] | None = None, special: Sequence[int] = ()) -> Side:
    """Tokens; ``special`` are places."""
    flags = np.isin(np.arange(size), list(special))
    known = None if ids is None else np.array(ids)
    return Side(flags, np.zeros(size, dtype=bool), known)


def maps(
    weights: np.ndarray,
    ids: Sequence[int] | None = None,
    special: Sequence[int] = (),
    *,
    causal: bool = False,
    view: str = "raw",
    **more: Any,
) -> Maps:
    """Self-attention ``[head, token, token]`` over tokens with these ids."""
    size = weights.shape[-1]
    visible = np.ones((size, size), dtype=bool)
    tokens = side(size, ids, special)
    return Maps(weights, np.tril(visible) if causal else visible, tokens, tokens, view=view, **more)


def crossed(weights: np.ndarray, special: Sequence[int] = (), view: str = "raw") -> Maps:
    """Cross-attention ``[head, row, key]``; ``special`` are keys."""
    rows, keys = weights.shape[1:]
    return Maps(
        weights,
        np.ones((rows, keys), dtype=bool),
        side(rows),
        side(keys, None, special),
        True,
        view,
    )


def uniform(size: int, causal: bool = False) -> np.ndarray:
    """One head that looks alike at all it may see, ``[1, token, token]``."""
    seen = np.ones((size, size))
    seen = np.tril(seen) if causal else seen
    return (seen / seen.sum(1, keepdims=True)).astype(np.float32)[None]


def looking(at: Sequence[int], keys: int | None = None) -> np.ndarray:
    """One head whose row i looks at key ``at[i]`` alone, ``[1, row, key]``."""
    return np.eye(keys or len(at), dtype=np.float32)[list(at)][None]


def drawn(heads: int, size: int, seed: int, causal: bool = False) -> np.ndarray:
    """Softmaxes of random scores, ``[head, token, token]``."""
    scores = np.random.default_rng(seed).normal(0, 2, (heads, size, size))
    if causal:
        scores = np.where(np.tril(np.ones((size, size), dtype=bool)), scores, -np.inf)
    made = np.exp(scores - scores.max(-1, keepdims=True))
    return (made / made.sum(-1, keepdims=True)).astype(np.float32)
