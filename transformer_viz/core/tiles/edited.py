"""One head's map under other edits of its scores, masks and weights, without another pass.

A head's queries and keys depend on what is below its layer, and on no edit of the maps of its own
layer or of those above. So of a run with the same edits `beneath` they are those that the edited
run would have, and the map is theirs: scores divided, masked and summed anew, in float64. Where the
edits below differ, it is the map that the head would have if nothing but its own edits were new.
Either way it is exact for what it is; which of the two it is, its caller has to say.

The logarithm of a row's denominator needs all keys of the row, so it is computed only of rows that
are asked for, and kept. Hard attention (temperature 0) has no map here: which of two scores that
are equal but for rounding is the larger one, only the model's own arithmetic can say.
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

#: The edits of which a map can be made again.
ON_MAPS = (Temperature, ScaleHead, UniformHead, Causal, Window, BlockKeys, BlockEdges)
ROWS, COLUMNS = 128, 512  # scores that are summed together: as many as a cache holds
AT_ONCE = 12_000_000  # scores for which there is time while a hand moves, some 100 ms
STRIP = 512  # rows between which whoever asked may stop it


def beneath(intervention: Intervention, site: Site) -> Intervention:
    """The edits that a head's queries and keys may depend on: two runs that have the same ones have
    the same queries and keys. Which edits cannot matter is known of those of maps in its own layer
    or above, in its own stack and block; all others count."""
    kept = [edit for edit in intervention if not _beside(edit, site)]
    return Intervention(tuple(kept))


def _beside(edit: Edit, site: Site) -> bool:
    first = edit.layer if edit.layer is not None else 0
    here = edit.stack in (None, site.stack) and edit.block in (None, site.block)
    return isinstance(edit, ON_MAPS) and edit.path is None and here and first >= site.layer


class EditedMap:
    """The map of one head as it is under other edits.

    Args:
        run: the tiles of the head's layer in a run with the same edits beneath.
        clean: those of the run without any edits, whose mask is the model's own.
        intervention: the edits.
        head: from 0.

    Raises:
        LookupError: a map that cannot be made so; says why, as a sentence.
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
        for part in self.parts:  # of rows that nobody asked for yet
            part.log_sum.fill(np.nan)

    def pooled(
        self,
        step: int,
        rows: slice = slice(None),
        columns: slice = slice(None),
        on_progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Some rows and columns in cells of ``step`` x ``step``, as `Tiles.pooled` gives them.

        Args:
            step: a power of two that divides the first row and column.
            on_progress: hears how many rows of how many are done; what it raises ends the work.

        Raises:
            ValueError: rows or columns that the map does not have.
        """
        rows, columns = self._within(rows, columns)
        return self._cells(rows, columns, step, step, on_progress)

    def quick(
        self, step: int, rows: slice = slice(None), columns: slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """The same while a hand moves: each cell is of its first rows alone, of so many as there is
        time for; the third that is given says how many (``step``: of all).

        Raises:
            ValueError: rows or columns that the map does not have.
        """
        rows, columns = self._within(rows, columns)
        fits = AT_ONCE * step // ((rows.stop - rows.start) * self.shape[1]) or 1
        deep = min(step, 2 ** (fits.bit_length() - 1)) if self._simple(step) else step
        return *self._cells(rows, columns, step, deep), deep

    def _within(self, rows: slice, columns: slice) -> tuple[slice, slice]:
        queries, keys = self.shape
        return bounds("rows", rows, queries), bounds("columns", columns, keys)

    def _simple(self, step: int) -> bool:
        """Whether scores and their sums can be had in one go."""
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
        """Some rows in cells; their denominators are known then."""
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
            sums, largest = log_sums(part, mine, step)  # each score is computed only once
            part.log_sum[0, mine] = sums
            cells = largest[:, columns.start // step : -(-columns.stop // step)] - sums[:, None]
            made.append(np.maximum.reduceat(cells, np.arange(0, len(cells), deep), axis=0))
        exponents = np.concatenate(made)
        return part.of_exponents(0, exponents).astype(np.float32), np.isneginf(exponents)

    def _sum(self, rows: slice) -> None:
        """Know the denominators of some rows."""
        for part in self.parts:
            first = max(rows.start - part.first_row, 0)
            last = min(rows.stop - part.first_row, part.rows)
            for piece in steps(max(0, last - first), ROWS):
                mine = slice(first + piece.start, first + piece.stop)
                if np.isnan(part.log_sum[0, mine]).any():
                    part.log_sum[0, mine] = log_sums(part, mine)[0]


def log_sums(part: Part, rows: Rows, step: int = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """What each of some rows of a part's first head has in all.

    Args:
        step: how many keys are put together, a power of two that divides `COLUMNS`.

    Returns:
        The logarithm of each row's denominator, float64 ``[row]``, 0 where it sees no key; and the
        largest of the scores of each ``step`` keys, ``[row, cell]``, -inf where it sees none.
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
    """The largest of each ``step`` columns, ``[row, cell]``."""
    if scores.shape[1] % step:
        starts = np.arange(0, scores.shape[1], step)
        return np.asarray(np.maximum.reduceat(scores, starts, axis=1))
    if step == COLUMNS:
        return scores.max(axis=1, keepdims=True)
    while step > 1:  # of long rows numpy takes the larger of two faster than the largest of many
        scores = np.maximum(scores[:, 0::2], scores[:, 1::2])
        step //= 2
    return scores


@dataclass(frozen=True, eq=False)
class EditedMask:
    """The keys that the rows of a head see: those of the model's ``own`` mask, less those that
    edits hide. Where the causal mask is lifted, ``own`` is None and ``shut`` ``[key]`` says which
    keys no row may see."""

    own: Visible | None
    hiding: tuple[HidingEdit, ...]
    first_row: int
    shut: np.ndarray | None = None

    def tile(self, head: int, rows: Rows, columns: slice) -> np.ndarray:
        """The cells that are seen, bool ``[row, column]``."""
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
        """Whether all of some cells are seen, or none; None where it is not told at once."""
        places = numbered(rows) + self.first_row
        queries = range(int(places[0]), int(places[-1]) + 1)
        keys = range(columns.start, columns.stop)
        told = [None if self.own is None else self.own.uniform(head, rows, columns)]
        if self.own is None:
            told = [True if self.shut is None or not self.shut[columns].any() else None]
        told += [_spares(edit, queries, keys) for edit in self.hiding]
        return False if False in told else None if None in told else True


def _spares(edit: Edit, queries: range, keys: range) -> bool | None:
    """Whether an edit spares all of some cells, or none; None where it is not told at once."""
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
    """One head with the edits that act on it; its denominators are not known yet."""
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
    bias = own.bias  # that of an edited run knows nothing of cells that its edits hide
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
