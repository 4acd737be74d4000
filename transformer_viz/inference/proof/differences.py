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


def apart_at(single: AttentionRecord, batch: AttentionRecord, place: int) -> float | None:
    """How far the items at a place of a batch are from the same items alone; None where the batch
    is none of theirs."""
    if single.weights is None or batch.weights is None:
        return None
    one, all_items = single.weights, batch.weights
    if all_items.shape == one.shape:
        return None
    if all_items.shape[0] <= one.shape[0] * (1 + place) or all_items.shape[1:] != one.shape[1:]:
        return float("inf")
    both = all_items[one.shape[0] * place :][: one.shape[0]]
    return float((both.double() - one.double()).nan_to_num().abs().max())
