"""Stages of one row of a map from scores to weights: mask, temperature and softmax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.apply_edits import HeadPlan, at_largest, even_shares
from ..core.interventions import Intervention
from ..core.sites import Site
from ..core.stages import Stage
from .arrays import as_float32


@dataclass(frozen=True, eq=False)
class Row:
    """A query row of one head.

    Attributes:
        given: Scores before the mask, ``[key]``.
        own: Mask of the model, ``[query, key]`` (true: visible).
        scores, weights: Input and output of the softmax, ``[key]``.
    """

    site: Site
    row: int
    intervention: Intervention
    given: np.ndarray
    own: np.ndarray
    scores: np.ndarray
    weights: np.ndarray

    @cached_property
    def plan(self) -> HeadPlan:
        """Edits of this head."""
        return HeadPlan.at(self.intervention, self.site)

    @cached_property
    def why(self) -> tuple[str, ...]:
        """Reason for each key why it is hidden, or shown by an edit; see ``stages.REASONS``."""
        return tuple(self._reason(key) for key in range(len(self.given)))

    @property
    def seen(self) -> np.ndarray:
        """Visible keys of the row, bool ``[key]``."""
        return np.array([why in ("", "lifted") for why in self.why])

    def _reason(self, key: int) -> str:
        if not self.own[:, key].any():
            return "padding"
        if not self.own[self.row, key] and not self.plan.lifts:
            return "future"
        edit = self.plan.hidden_by(self.row, key)
        if edit is not None:
            return edit.kind
        return "" if self.own[self.row, key] else "lifted"


def row_stages(row: Row) -> Iterator[Stage]:
    """Yield mask, temperature and softmax of one row."""
    block = row.site.block
    seen = row.seen
    masked = as_float32(np.where(seen, row.given, row.scores))
    yield Stage(
        "mask",
        block,
        {"x": row.given, "seen": as_float32(seen), "out": masked},
        {"hidden": float((~seen).sum())},
        why=row.why,
    )
    divided = {"x": masked, "out": row.scores}
    yield Stage("temperature", block, divided, {"temperature": row.plan.temperature})
    yield _softmax(row, seen)


def _softmax(row: Row, seen: np.ndarray) -> Stage:
    form = _form(row, seen)
    exponentials, most = exponentials_of(row.scores)
    numbers = {"most": most, "total": float(exponentials.sum()), "head": row.plan.gain}
    arrays = {
        "x": row.scores,
        "exponentials": as_float32(exponentials),
        "softmax": as_float32(_shares(row, form, seen, exponentials)),
        "out": row.weights,
    }
    return Stage("softmax", row.site.block, arrays, numbers, {"form": form})


def exponentials_of(scores: np.ndarray) -> tuple[np.ndarray, float]:
    """Return exp(score - maximum) ``[key]`` float64, and the maximum; zeros if all are hidden."""
    wide = scores.astype(np.float64)
    most = float(wide.max())
    if not np.isfinite(most):
        return np.zeros(len(wide)), 0.0
    return np.exp(wide - most), most


def _form(row: Row, seen: np.ndarray) -> str:
    if not seen.any() and row.own[row.row].any():
        return "nothing"  # an edit hides all keys visible to the model
    if not seen.any():
        return "soft"  # the model's own mask hides all keys
    return "uniform" if row.plan.uniform else "hard" if row.plan.hard else "soft"


def _shares(row: Row, form: str, seen: np.ndarray, exponentials: np.ndarray) -> np.ndarray:
    """Return the output of the softmax, before the head is scaled."""
    if form == "nothing":
        return np.zeros(len(seen))
    if form == "uniform":
        return even_shares(seen.astype(np.float64))
    if form == "hard":
        return at_largest(row.scores)
    if row.plan.gain == 1 or not exponentials.any():
        return row.weights
    return exponentials / exponentials.sum()
