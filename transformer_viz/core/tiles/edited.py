"""Map of one head under other edits of its scores, masks and weights, without another pass.

A head's queries and keys depend on the layers below. They do not depend on edits of the maps of its
own layer or of later ones. Runs with equal edits `beneath` have the same queries and keys, so the
map of the edited run is exact: scores are divided, masked and summed again in float64. If the edits
below differ, the result is the map with only the head's own edits applied. The caller has to state
which of the two applies.

The logarithm of a row's denominator needs all keys of the row. It is computed for requested rows
only, and cached. Hard attention (temperature 0) is not supported. The larger of two scores that are
equal except for rounding depends on the model's own arithmetic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..apply_edits import HeadPlan, hidden
from ..edits import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    HidingEdit,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from ..interventions import Intervention
from ..sites import Site
from .cells import Bias, Rows, Visible, numbered
from .maps import Tiles, bounds, steps
from .parts import Matrix, Part
from .pooling import pooled

#: Edits whose map can be recomputed.
ON_MAPS = (Temperature, ScaleHead, UniformHead, Causal, Window, BlockKeys, BlockEdges)
ROWS, COLUMNS = 128, 512  # scores summed together, to fit in a CPU cache
AT_ONCE = 12_000_000  # scores computed per slider frame, about 100 ms
STRIP = 512  # rows between two progress calls, where a caller may cancel


def beneath(intervention: Intervention, site: Site) -> Intervention:
    """Return the edits that a head's queries and keys may depend on.

    Runs with equal results have equal queries and keys. Edits of maps in the head's own layer or
    later, in its own stack and block, have no influence. All others count.
    """
    kept = [edit for edit in intervention if not _beside(edit, site)]
    return Intervention(tuple(kept))


def _beside(edit: Edit, site: Site) -> bool:
    first = edit.layer if edit.layer is not None else 0
    here = edit.stack in (None, site.stack) and edit.block in (None, site.block)
    return isinstance(edit, ON_MAPS) and edit.path is None and here and first >= site.layer


class EditedMap:
    """Map of one head under other edits.

    Args:
        run: Tiles of the head's layer in a run with the same edits beneath.
        clean: Tiles of the run without edits, which have the model's own mask.
        intervention: The edits.
        head: Head, from 0.

    Raises:
        LookupError: The map cannot be computed. The message is a sentence with the reason.
    """

    def __init__(self, run: Tiles, clean: Tiles, intervention: Intervention, head: int) -> None:
        plan = HeadPlan.at(intervention, dataclasses.replace(run.site, head=head))
        if any(not isinstance(edit, ON_MAPS) for edit in intervention) and any(
            isinstance(part, Part) and part.bias is not None for part in clean.parts
        ):
            raise LookupError("What the model adds to scores may be another under these edits.")
        self.shape = run.shape
        self.parts = [
            _part(now, own, head - now.first_head, plan)
            for now, own in _pairs(run, clean)
            if 0 <= head - now.first_head < now.heads
        ]
        for part in self.parts:  # rows not requested yet
            part.log_sum.fill(np.nan)

    def pooled(
        self,
        step: int,
        rows: slice = slice(None),
        columns: slice = slice(None),
        on_progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns in cells of ``step`` x ``step``, as `Tiles.pooled` does.

        Args:
            step: A power of two that divides the first row and column.
            on_progress: Called with the rows done and all rows; an exception it raises cancels.

        Raises:
            ValueError: Rows or columns outside of the map.
        """
        rows, columns = self._within(rows, columns)
        return self._cells(rows, columns, step, step, on_progress)

    def quick(
        self, step: int, rows: slice = slice(None), columns: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Return an approximate `pooled` for a slider frame, and the number of rows used per cell.

        Each cell is computed from its first rows only, as many as time permits (``step``: all).

        Raises:
            ValueError: Rows or columns outside of the map.
        """
        rows, columns = self._within(rows, columns)
        fits = AT_ONCE * step // ((rows.stop - rows.start) * self.shape[1]) or 1
        deep = min(step, 2 ** (fits.bit_length() - 1)) if self._simple(step) else step
        return *self._cells(rows, columns, step, deep), deep

    def _within(self, rows: slice, columns: slice) -> tuple[slice, slice]:
        queries, keys = self.shape
        return bounds("rows", rows, queries), bounds("columns", columns, keys)

    def _simple(self, step: int) -> bool:
        """Return True if scores and their sums can be computed in a single pass."""
        return len(self.parts) == 1 and self.parts[0].keeps_order(0) and COLUMNS % step == 0

    def _cells(
        self,
        rows: slice,
        columns: slice,
        step: int,
        deep: int,
        on_progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> tuple[np.ndarray, np.ndarray]:
        strip = max(1, STRIP // deep) * step
        made = []
        for first in range(rows.start, rows.stop, strip):
            on_progress(first - rows.start, rows.stop - rows.start)
            mine = slice(first, min(first + strip, rows.stop))
            made.append(self._strip(mine, columns, step, deep))
        return np.concatenate([w for w, _ in made]), np.concatenate([h for _, h in made])

    def _strip(
        self, rows: slice, columns: slice, step: int, deep: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return some rows in cells; their denominators are cached afterwards."""
        part = self.parts[0]
        chosen = np.arange(rows.start, rows.stop)
        chosen = chosen[(chosen - rows.start) % step < deep]
        known = not np.isnan(part.log_sum[0, rows]).any()
        if not self._simple(step) or (known and deep == step):
            self._sum(rows)
            return pooled(self.parts, 0, rows, columns, step, step)
        made = []
        for piece in steps(len(chosen), ROWS // deep * deep or deep):
            mine = chosen[piece]
            sums, largest = log_sums(part, mine, step)  # each score is computed once
            part.log_sum[0, mine] = sums
            cells = largest[:, columns.start // step : -(-columns.stop // step)] - sums[:, None]
            made.append(np.maximum.reduceat(cells, np.arange(0, len(cells), deep), axis=0))
        exponents = np.concatenate(made)
        return part.of_exponents(0, exponents).astype(np.float32), np.isneginf(exponents)

    def _sum(self, rows: slice) -> None:
        """Compute the denominators of some rows."""
        for part in self.parts:
            first = max(rows.start - part.first_row, 0)
            last = min(rows.stop - part.first_row, part.rows)
            for piece in steps(max(0, last - first), ROWS):
                mine = slice(first + piece.start, first + piece.stop)
                if np.isnan(part.log_sum[0, mine]).any():
                    part.log_sum[0, mine] = log_sums(part, mine)[0]


def log_sums(part: Part, rows: Rows, step: int = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-denominators of some rows of a part's first head, and the pooled scores.

    Args:
        step: Keys per cell, a power of two that divides `COLUMNS`.

    Returns:
        The logarithm of each row's denominator, float64 ``[row]``, 0 for a row without visible
        keys; and the largest score of each ``step`` keys, ``[row, cell]``, -inf if none is visible.
    """
    count = len(numbered(rows))
    top, total = np.full(count, -np.inf), np.zeros(count)
    largest = np.full((count, -(-part.keys // step)), -np.inf)
    for columns in steps(part.keys, COLUMNS):
        all_seen = part.uniform(0, rows, columns)
        if all_seen is False:
            continue
        scores = part.scores(0, rows, columns)
        if all_seen is None:
            scores[~part.seen(0, rows, columns)] = -np.inf
        cells = largest[:, columns.start // step : -(-columns.stop // step)]
        cells[:] = _largest(scores, step)
        higher = np.maximum(top, cells.max(axis=1))
        base = np.where(np.isneginf(higher), 0.0, higher)
        scores -= base[:, None]
        total = total * np.exp(top - base) + np.exp(scores, out=scores).sum(axis=1)
        top = higher
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(total) + top
    return np.where(total > 0, found, 0.0), largest


def _largest(scores: np.ndarray, step: int) -> np.ndarray:
    """Return the maximum of each ``step`` columns, ``[row, cell]``."""
    if scores.shape[1] % step:
        starts = np.arange(0, scores.shape[1], step)
        return np.asarray(np.maximum.reduceat(scores, starts, axis=1))
    if step == COLUMNS:
        return scores.max(axis=1, keepdims=True)
    while step > 1:  # for long rows a pairwise maximum is faster in numpy
        scores = np.maximum(scores[:, 0::2], scores[:, 1::2])
        step //= 2
    return scores


@dataclass(frozen=True, eq=False)
class EditedMask:
    """Visible keys of a head's rows: the model's ``own`` mask without keys hidden by edits.

    If the causal mask is lifted, ``own`` is None and ``shut`` ``[key]`` marks keys hidden from all
    rows.
    """

    own: Visible | None
    hiding: tuple[HidingEdit, ...]
    first_row: int
    shut: np.ndarray | None = None

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """Return the visible cells, bool ``[row, column]``."""
        query = numbered(rows)[:, None] + self.first_row
        key = np.arange(columns.start, columns.stop)
        shape = len(query), len(key)
        seen = ~hidden(self.hiding, query, key) if self.hiding else np.ones(shape, bool)
        if self.own is not None:
            seen &= self.own.tile(head, rows, columns)
        if self.shut is not None:
            seen &= ~self.shut[columns]
        return seen

    def uniform(self, head: int, rows: Rows, columns: slice) -> bool | None:
        """Return True if all cells are visible, False if none is, None if mixed or unknown."""
        places = numbered(rows) + self.first_row
        queries = range(int(places[0]), int(places[-1]) + 1)
        keys = range(columns.start, columns.stop)
        told = [None if self.own is None else self.own.uniform(head, rows, columns)]
        if self.own is None:
            told = [True if self.shut is None or not self.shut[columns].any() else None]
        told += [_spares(edit, queries, keys) for edit in self.hiding]
        return False if False in told else None if None in told else True


def _spares(edit: Edit, queries: range, keys: range) -> bool | None:
    """Return True if an edit hides none of the cells, False if all, None if mixed or unknown."""
    if isinstance(edit, Window) and edit.radius is not None:
        if keys[0] > queries[-1] + edit.radius or keys[-1] < queries[0] - edit.radius:
            return False
        inside = queries[-1] - keys[0] <= edit.radius and keys[-1] - queries[0] <= edit.radius
        return True if inside else None
    if isinstance(edit, Causal):
        return False if keys[0] > queries[-1] else True if keys[-1] <= queries[0] else None
    if isinstance(edit, BlockKeys):
        return None if any(key in keys for key in edit.keys) else True
    if isinstance(edit, BlockEdges):
        return None if any(q in queries and k in keys for q, k in edit.edges) else True
    return None


def _pairs(run: Tiles, clean: Tiles) -> list[tuple[Part, Part]]:
    parts: Sequence[tuple[Part | Matrix, Part | Matrix]] = list(
        zip(run.parts, clean.parts, strict=False)
    )
    found = []
    for now, own in parts:
        if not isinstance(now, Part) or not isinstance(own, Part):
            raise LookupError("Queries and keys of this map are not at hand.")
        place = (now.q.shape, now.k.shape, now.first_head, now.first_row)
        if place != (own.q.shape, own.k.shape, own.first_head, own.first_row):
            raise LookupError("The run before any changes has other words than this one.")
        found.append((now, own))
    return found


def _part(now: Part, own: Part, head: int, plan: HeadPlan) -> Part:
    """Return one head with its edits applied; its denominators are not computed yet."""
    if now.sinks:
        raise LookupError("A part of each row's attention goes to no word, and is not at hand.")
    if plan.hard:
        raise LookupError("Hard attention is the model's own choice of the largest score.")
    if plan.lifts and (own.blank is not None or own.bias is not None):
        raise LookupError("What the model adds to scores is not known of cells that it hides.")
    group = now.heads // len(now.k)
    visible = own.visible.of_head(head) if isinstance(own.visible, Visible) else None
    shut = None
    hiding = plan.hiding
    if plan.lifts:
        shut = None if visible is None else ~visible.columns(now.keys)
        visible, shut = None, None if shut is None or not shut.any() else shut
        hiding = tuple(edit for edit in hiding if not isinstance(edit, Causal))
    bias = own.bias  # the bias of an edited run lacks cells hidden by its edits
    if bias is not None and len(bias.table) > 1:
        bias = Bias(bias.kind, bias.table[head : head + 1], bias.queries)
    mask = EditedMask(visible, hiding, now.first_row, shut)
    open_to_all = visible is None and shut is None and not hiding
    return Part(
        q=now.q[head : head + 1],
        k=now.k[head // group : head // group + 1],
        log_sum=np.zeros((1, now.rows)),
        sharpness=np.array([plan.sharpness]),
        gain=np.array([plan.gain]),
        scale=now.scale,
        cap=now.cap,
        bias=bias,
        visible=None if open_to_all else mask,
        blank=None if own.blank is None else own.blank[head : head + 1],
        first_row=now.first_row,
    )
