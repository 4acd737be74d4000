"""Differences that laws leave, by place: entered, joined, and those of a batch."""

from __future__ import annotations

from ...capture.records import AttentionRecord
from .accounts import name

Laws = dict[str, dict[str, float | None]]  # by site and law


def enter(laws: Laws, record: AttentionRecord, errors: dict[str, float | None]) -> None:
    """Enter what was found at a place; where it ran more than once the worst counts."""
    known = laws.setdefault(name(record), {})
    for law, error in errors.items():
        before = known.get(law, 0.0)
        known[law] = None if error is None or before is None else max(error, before)


def nearer(*errors: float | None) -> float | None:
    """The smallest of several differences, as far as they could be told."""
    return min((error for error in errors if error is not None), default=None)


def apart_first(single: AttentionRecord, double: AttentionRecord) -> float | None:
    """How far the first items of a batch are from the same items alone; None where the batch is
    none of theirs."""
    if single.weights is None or double.weights is None:
        return None
    one, both = single.weights, double.weights
    if both.shape == one.shape:
        return None
    if both.shape[0] <= one.shape[0] or both.shape[1:] != one.shape[1:]:
        return float("inf")
    return float((both[: one.shape[0]].double() - one.double()).nan_to_num().abs().max())
