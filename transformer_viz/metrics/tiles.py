"""All heads of a block at a glance: small pictures of them, or of what changed in them.

A tile is a head's thumbnail ``[query, key]``, which is pooled where a sentence is long.
"""

from __future__ import annotations

import numpy as np

from ..records import Tokens, Trace
from ..sites import MAPS


def head_tiles(trace: Trace, block: str, before: Trace | None = None) -> np.ndarray:
    """Every head of a block as a small picture, or what changed in it since another run.

    Alone, each tile is divided by its own largest weight (0...1), so that tiles show shapes. With
    ``before``, differences of weights (-1...1); rows that were not there before are NaN.

    Args:
        trace: the run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        before: another run over the same words; the present one may have padding appended.

    Returns:
        ``[layer, head, query, key]`` float32.

    Raises:
        LookupError: a map that a trace lacks; names those it has.
        ValueError: the two runs speak about different words, or too many to compare.
    """
    now = trace.thumbnail(block)
    if before is None:
        return own_scale(now)
    was = before.thumbnail(block)
    _require_same_words(trace, before, block)
    return change(now, was)


def own_scale(tiles: np.ndarray) -> np.ndarray:
    """Each tile divided by its own largest weight: where a head looks, not how much.

    Args:
        tiles: ``[layer, head, query, key]``, non-negative, in any unit.

    Returns:
        The same shape, float32 in 0...1; a tile of zeros stays zero.
    """
    tiles = tiles.astype(np.float32)
    most = tiles.max(axis=(2, 3), keepdims=True)
    return np.divide(tiles, most, out=np.zeros_like(tiles), where=most > 0)


def change(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """By how much each weight grew or shrank.

    Args:
        now, before: thumbnails ``[layer, head, query, key]`` uint8, 255 = weight 1.

    Returns:
        The shape of ``now``, float32 in -1...1; NaN in rows that ``before`` does not have.

    Raises:
        ValueError: other layers or heads, or fewer cells than before; says which.
    """
    if now.shape[:2] != before.shape[:2]:
        raise ValueError(
            f"The two runs come from different models: {before.shape[:2]} and {now.shape[:2]} "
            "layers and heads have no difference. Compare two runs of one model."
        )
    wide = grown(before.astype(np.float32), now.shape[2:])
    return (now.astype(np.float32) - wide) / 255


def grown(before: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An earlier run's weights, as large as those of a run with words appended.

    A key that was not there got nothing: 0. A query that was not there did not look at all: NaN.

    Args:
        before: weights ``[..., query, key]``, floating point.
        shape: queries and keys of the longer run.

    Returns:
        ``[..., *shape]``, of the same precision; ``before`` itself where nothing is missing.

    Raises:
        ValueError: the earlier run is the longer one; states both sizes.
    """
    queries, keys = before.shape[-2:]
    if (queries, keys) == tuple(shape):
        return before
    if queries > shape[0] or keys > shape[1]:
        raise ValueError(
            f"The two runs speak about different words: {(queries, keys)} and {tuple(shape)} "
            "cells; the later run may have words appended, not taken away. Look at one at a time."
        )
    wide = np.full((*before.shape[:-2], *shape), np.nan, before.dtype)
    wide[..., :queries, :] = 0
    wide[..., :queries, :keys] = before
    return wide


def largest_change(changes: np.ndarray) -> float:
    """Where the colours of a change end: its largest size, at least 0.05, so noise stays pale."""
    return max(0.05, float(np.nanmax(np.abs(changes), initial=0)))


def sentences(trace: Trace, block: str) -> tuple[Tokens, Tokens]:
    """The words that the rows and the columns of a map stand for."""
    stack, kind = MAPS[block]
    words = trace.words_of(stack)
    return words, trace.source if kind == "cross" else words


def extends(now: Tokens, before: Tokens) -> bool:
    """Whether one sentence is the other with nothing but tokens appended."""
    count = len(before)
    same = now.ids[:count] == before.ids if before.ids else now.pieces[:count] == before.pieces
    return same and len(now) >= count


def _require_same_words(trace: Trace, before: Trace, block: str) -> None:
    """Words may be appended; then a cell must be one weight, or it is compared with a stranger."""
    now, was = sentences(trace, block), sentences(before, block)
    sizes = trace.thumbnail(block).shape[2:], before.thumbnail(block).shape[2:]
    words = tuple(tuple(map(len, pair)) for pair in (now, was))
    same = all(extends(*pair) for pair in zip(now, was, strict=True))
    if same and (sizes[0] == sizes[1] or sizes == words):
        return
    if same and max(map(max, words)) > max(map(max, sizes)):
        raise ValueError(
            f"{words[1][1]} and {words[0][1]} words are too many to compare at a glance: a cell of "
            "these small pictures holds several of them. Open a head to see its difference."
        )
    raise ValueError(
        f"The two runs speak about different words: tiles of {sizes[1]} and {sizes[0]} cells "
        "have no difference. Look at one run at a time."
    )
