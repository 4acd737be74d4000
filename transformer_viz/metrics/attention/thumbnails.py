"""Overview of a block's heads: small maps, or small maps of their changes.

A tile is a head's thumbnail ``[query, key]``, which is pooled for a long sentence.
"""

from __future__ import annotations

import numpy as np

from ...core.sites import MAPS
from ...core.trace import Trace
from ...core.trace_parts import Tokens
from ...i18n import say


def head_tiles(trace: Trace, block: str, before: Trace | None = None) -> np.ndarray:
    """Return every head of a block as a small map, or its change since another run.

    Without ``before``, each tile is divided by its largest weight (0...1), so tiles show shapes.
    With ``before``, differences of weights (-1...1); new rows are NaN.

    Args:
        trace: Run to show.
        block: ``encoder``, ``decoder`` or ``cross``.
        before: Another run on the same words; ``trace`` may have padding appended.

    Returns:
        ``[layer, head, query, key]`` float32.

    Raises:
        LookupError: A trace lacks the map.
        ValueError: The runs have different words, or too many to compare.
    """
    now = trace.thumbnail(block)
    if before is None:
        return own_scale(now)
    was = before.thumbnail(block)
    _require_same_words(trace, before, block)
    return change(now, was)


def own_scale(tiles: np.ndarray) -> np.ndarray:
    """Divide each tile by its largest weight.

    Args:
        tiles: ``[layer, head, query, key]``, non-negative, in any unit.

    Returns:
        The same shape, float32 in 0...1; a tile of zeros stays zero.
    """
    tiles = tiles.astype(np.float32)
    most = tiles.max(axis=(2, 3), keepdims=True)
    return np.divide(tiles, most, out=np.zeros_like(tiles), where=most > 0)


def change(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the change of each weight.

    Args:
        now: Thumbnails ``[layer, head, query, key]`` uint8, 255 = weight 1.
        before: Thumbnails of the earlier run, likewise.

    Returns:
        The shape of ``now``, float32 in -1...1; NaN in rows that ``before`` does not have.

    Raises:
        ValueError: Other layers or heads, or fewer cells than before.
    """
    if now.shape[:2] != before.shape[:2]:
        raise ValueError(
            say(
                "The two runs come from different models: {before} and {now} layers and heads "
                "have no difference. Compare two runs of one model.",
                before=before.shape[:2],
                now=now.shape[:2],
            )
        )
    wide = grown(before.astype(np.float32), now.shape[2:])
    return (now.astype(np.float32) - wide) / 255


def grown(before: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an earlier run's weights, extended to the size of a run with appended tokens.

    A new key gets 0; a new query gets NaN.

    Args:
        before: Weights ``[..., query, key]``, floating point.
        shape: Queries and keys of the longer run.

    Returns:
        ``[..., *shape]``, of the same precision; ``before`` itself if the sizes agree.

    Raises:
        ValueError: The earlier run is longer.
    """
    queries, keys = before.shape[-2:]
    if (queries, keys) == tuple(shape):
        return before
    if queries > shape[0] or keys > shape[1]:
        raise ValueError(
            say(
                "The two runs speak about different words: {before} and {now} cells; the later "
                "run may have words appended, not taken away. Look at one at a time.",
                before=(queries, keys),
                now=tuple(shape),
            )
        )
    wide = np.full((*before.shape[:-2], *shape), np.nan, before.dtype)
    wide[..., :queries, :] = 0
    wide[..., :queries, :keys] = before
    return wide


def largest_change(changes: np.ndarray) -> float:
    """Return the end of the color scale of changes: at least 0.05, so that noise stays pale."""
    return max(0.05, float(np.nanmax(np.abs(changes), initial=0)))


def sentences(trace: Trace, block: str) -> tuple[Tokens, Tokens]:
    """Return the tokens of a map's rows and columns."""
    kept = next((one for one in trace.attentions if one.site.map == block), None)
    if kept is not None:
        return trace.tokens(kept.query), trace.tokens(kept.key)
    stack, kind = MAPS[block]
    words = trace.words_of(stack)
    return words, trace.source if kind == "cross" else words


def stride(trace: Trace, block: str) -> tuple[int, int]:
    """Return the number of map rows and columns in one thumbnail cell."""
    rows, columns = trace.thumbnail(block).shape[2:]
    queries, keys = (len(words) for words in sentences(trace, block))
    return -(-queries // rows), -(-keys // columns)


def halved(tiles: np.ndarray) -> np.ndarray:
    """Return half as many rows and columns, with the value of largest size of each 2 x 2 cells.

    Args:
        tiles: ``[..., query, key]`` weights or signed changes; NaN is ignored. For odd counts, the
            last cell is alone.

    Returns:
        ``[..., ceil(query / 2), ceil(key / 2)]``, of the same type.
    """
    return _halved(_halved(tiles, -2), -1)


def _halved(tiles: np.ndarray, axis: int) -> np.ndarray:
    lines = np.moveaxis(tiles, axis, 0)
    kept, other = lines[::2].copy(), lines[1::2]
    pairs = kept[: len(other)]
    if tiles.dtype.kind == "f":
        stronger = np.isnan(pairs) | (np.abs(other) > np.abs(pairs))
        pairs[stronger] = other[stronger]
    else:
        np.maximum(pairs, other, out=pairs)
    return np.moveaxis(kept, 0, axis)


def strongest(trace: Trace, block: str, changes: np.ndarray | None = None) -> np.ndarray:
    """Return the position of each head's largest weight, or largest change.

    Exact if a thumbnail cell is one weight, or if the matrix was captured; else all tokens of the
    largest cell.

    Args:
        trace: The run.
        block: ``encoder``, ``decoder`` or ``cross``.
        changes: Result of :func:`change`, to find the largest change instead.

    Returns:
        int32 ``[layer, head, 4]``: first and last row token, first and last column token.
    """
    small = trace.thumbnail(block)
    sizes = small if changes is None else np.nan_to_num(np.abs(changes), nan=-1.0)
    steps = stride(trace, block)
    counts = [len(words) for words in sentences(trace, block)]
    flat = sizes.reshape(*sizes.shape[:2], -1).argmax(axis=-1)
    first = np.stack(np.unravel_index(flat, sizes.shape[2:]), axis=-1) * steps
    last = np.minimum(first + steps, counts) - 1
    if changes is None and max(steps) > 1:
        _exact(trace, block, first, last)
    spans = np.stack([first[..., 0], last[..., 0], first[..., 1], last[..., 1]], axis=-1)
    return spans.astype(np.int32)


def _exact(trace: Trace, block: str, first: np.ndarray, last: np.ndarray) -> None:
    """Write the exact position for layers with captured matrices, ``[layer, head, side]``."""
    for attention in trace.attentions:
        if attention.site.map == block:
            heads, *shape = attention.weights.shape
            flat = attention.weights.reshape(heads, -1).argmax(axis=1)
            place = np.stack(np.unravel_index(flat, tuple(shape)), axis=-1)
            first[attention.site.layer, :heads] = last[attention.site.layer, :heads] = place


def extends(now: Tokens, before: Tokens) -> bool:
    """Return True if ``now`` equals ``before`` with tokens appended."""
    count = len(before)
    known = before.ids and now.ids  # arrays given without ids have only strings
    same = now.ids[:count] == before.ids if known else now.pieces[:count] == before.pieces
    return same and len(now) >= count


def _require_same_words(trace: Trace, before: Trace, block: str) -> None:
    """Raise unless words are equal or appended; then a cell must be a single weight."""
    now, was = sentences(trace, block), sentences(before, block)
    sizes = trace.thumbnail(block).shape[2:], before.thumbnail(block).shape[2:]
    words = tuple(tuple(map(len, pair)) for pair in (now, was))
    same = all(extends(*pair) for pair in zip(now, was, strict=True))
    if same and (sizes[0] == sizes[1] or sizes == words):
        return
    if same and max(map(max, words)) > max(map(max, sizes)):
        raise ValueError(
            say(
                "{before} and {now} words are too many to compare at a glance: a cell of these "
                "small pictures holds several of them. Open a head to see its difference.",
                before=words[1][1],
                now=words[0][1],
            )
        )
    raise ValueError(
        say(
            "The two runs speak about different words: tiles of {before} and {now} cells have no "
            "difference. Look at one run at a time.",
            before=sizes[1],
            now=sizes[0],
        )
    )
