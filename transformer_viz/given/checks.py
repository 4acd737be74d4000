"""Checks of given attention weights: shape, row sums, and the mask shown by exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .layers import KeywordNeededError, Layer

NO_NUMBER = (
    "this comes of a softmax over nothing, or of half precision that ran over; cut padding off, or "
    "compute in float32"
)
NEGATIVE = "a weight is never negative, so these may be scores from before the softmax"
TOO_LARGE = (
    "a weight is at most 1, so these may be scores from before the softmax, or dropout was on: "
    "call model.eval()"
)


@dataclass(frozen=True)
class Facts:
    """Facts about the weights of one layer.

    Attributes:
        error: Largest ``|sum of a row - 1|`` of rows that are not all zeros.
        blank: Rows of zeros in every head, as for padding.
        mask: Mask shown by exact zeros: ``none``, ``causal``, ``causal, window of 4``,
            ``window of 4``, or ``other``.
        equal: Rows with equal weights in all columns, as for fully masked rows.
    """

    error: float
    blank: tuple[int, ...]
    mask: str
    equal: tuple[int, ...] = ()


def require_shape(layer: Layer, what: str, rows: int, columns: int, both: bool) -> None:
    """Raise if the shape of the weights does not match the tokens.

    Raises:
        ValueError: The message gives the numbers of rows, columns and tokens.
    """
    _, high, wide = layer.weights.values.shape
    if (high, wide) == (rows, columns):
        return
    came = f"{what}, layer {layer.number}, has {high} rows and {wide} columns"
    if both and high < wide:
        advice = (
            f"{rows} tokens came. Rows and columns are the same tokens, so their numbers must be "
            "equal; of generate() give all steps, not one."
        )
    elif both:
        advice = (
            f"{rows} tokens came. Give one token for each row, special tokens and padding too: "
            "tokenizer.convert_ids_to_tokens(input_ids[0])."
        )
    else:
        advice = (
            f"there are {rows} target tokens (the rows) and {columns} tokens (the columns). Give "
            "target_tokens= as the decoder reads them, its start token too."
        )
    raise ValueError(f"{came}, and {advice}")


def facts(layer: Layer, what: str, check_sums: bool) -> Facts:
    """Return the facts about a layer's weights ``[head, row, column]`` after checking them.

    Args:
        layer: The weights.
        what: Name of the argument, for errors.
        check_sums: True if rows must sum to 1.

    Raises:
        ValueError: An invalid weight, or a row that does not sum to 1. The message names layer,
            head and row, and possible reasons.
    """
    w = layer.weights.values.astype(np.float64)
    if len(layer.unset) == w.shape[1]:
        w = np.full_like(w, np.nan)
    _refuse(~np.isfinite(w), w, layer, what, NO_NUMBER)
    _refuse(w < 0, w, layer, what, NEGATIVE)
    if check_sums:
        _refuse(w > 1 + layer.weights.tolerance, w, layer, what, TOO_LARGE)
    sums, off = w.sum(-1), sum_errors(layer)
    if check_sums and off.max() > layer.weights.tolerance:
        head, row = np.unravel_index(int(off.argmax()), off.shape)
        raise KeywordNeededError(
            f"{what}, layer {layer.number}, head {head}, row {row} sums to {sums[head, row]:.4g} "
            f"instead of 1 (allowed: {layer.weights.tolerance:.0e} in {layer.weights.dtype}). "
            "Dropout may be on (model.eval()), or these are a part of the weights, or averages. "
            "If rows are meant to sum to something else, as beside a learned sink, say "
            "check_sums=False."
        )
    blank = set(map(int, np.flatnonzero(~sums.any(axis=0)))) - set(layer.unset)
    equal = masked_rows(layer)
    if len(equal) < w.shape[1]:
        w[:, list(equal)] = 0
    return Facts(float(off.max()), tuple(sorted(blank)), mask_of(w), equal)


def masked_rows(layer: Layer) -> tuple[int, ...]:
    """Return the rows of equal weights of a square map, if one of them sees a later column.

    These are rows of padding with a full mask. A last row alone may have equal weights by chance.
    """
    _, high, wide = layer.weights.values.shape
    if high != wide or not any(row < wide - 1 for row in layer.equal):
        return ()
    return layer.equal


def sum_errors(layer: Layer) -> np.ndarray:
    """Return ``|sum of a row - 1|`` as ``[head, row]``.

    The result is 0 for rows of zeros, and for rows that lost weight with unused columns.
    """
    sums = layer.weights.values.astype(np.float64).sum(-1)
    off = np.where(sums == 0, 0.0, np.abs(sums - 1))
    off[:, list(layer.cut)] = 0
    return off


def _refuse(wrong: np.ndarray, w: np.ndarray, layer: Layer, what: str, why: str) -> None:
    if not wrong.any():
        return
    head, row, column = np.argwhere(wrong)[0]
    raise ValueError(
        f"{what}, layer {layer.number}, head {head}, row {row}, column {column} holds "
        f"{w[head, row, column]:.4g}; {why}."
    )


def mask_of(w: np.ndarray) -> str:
    """Return the name of the mask that exact zeros of all heads show.

    Rows and columns of zeros only (padding) are ignored.

    Args:
        w: Weights ``[head, row, column]``.
    """
    seen = np.asarray(w.any(axis=0))
    high, wide = seen.shape
    query, key = np.indices(seen.shape)
    asked = np.outer(seen.any(axis=1), seen.any(axis=0))
    if seen[asked].all():
        return "none"
    if high != wide:
        return "other"
    away = np.asarray(query - key)
    behind, far = int(away[seen].max()), int(np.abs(away[seen]).max())
    for name, allowed in (
        ("causal", away >= 0),
        (f"causal, window of {behind + 1}", (away >= 0) & (away <= behind)),
        (f"window of {far}", np.abs(away) <= far),
    ):
        if (seen[asked] == allowed[asked]).all():
            return name
    return "other"
