"""Detection of a model's output projections by their behavior.

Modules need not be annotated: each head of one attention is scaled by a different factor. The
projection is the first linear map whose input then changes. The growth of each of its features
identifies the head.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ...capture import CaptureRequest, probe
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention, ScaleHead
from ...core.sites import Site
from ...model import Transformer
from .gate import Place, intercept_linear

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}  # relative error left by a head's factor
HALF = 3e-2  # the same in half precision
MOST_ROWS = 256  # input rows kept per linear map

#: Runs the sample; if ``twice`` is True, with its reverse in a batch of two.
Run = Callable[[bool], Any]


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of a model and, if found, its output projection."""

    site: Site
    heads: int
    place: Place | None


#: Attentions found so far, by module.
FOUND: WeakKeyDictionary[nn.Module, tuple[Attention, ...]] = WeakKeyDictionary()


def quiet(lone: str = "encoder") -> CaptureRequest:
    """Return a capture request that stores nothing.

    ``lone`` is the stack of a lone self-attention.
    """
    return CaptureRequest(
        weights=lambda _: False, statistics=False, norms=False, residuals=False, stack=lone
    )


def own_attentions(module: Transformer) -> list[Attention]:
    """Return the attentions of the reference Transformer, whose projections are attributes."""
    found = []
    for stack in ("encoder", "decoder"):
        for number, layer in enumerate(getattr(getattr(module, stack, None), "layers", ())):
            for block in ("self", "cross"):
                attention = getattr(layer, f"{block}_attention", None)
                if attention is None:
                    continue
                path = f"{stack}.layers.{number}.{block}_attention"
                site, weight = Site(stack, block, number, path=path), attention.output.weight
                width = weight.shape[1] // attention.heads
                columns = torch.arange(weight.shape[1], device=weight.device) // width
                place = Place(site, attention.heads, columns, weight)
                found.append(Attention(site, attention.heads, place))
    return found


def attentions_of(
    model: Model, run: Run, on_progress: Callable[[int, int], None] | None = None
) -> list[Attention]:
    """Find the attentions that a sample runs through, in call order, with their projections.

    Results belong to the module, not to the sample. A later call makes one pass, and reuses the
    projections if it meets the same attentions.

    Args:
        model: Model whose attentions are found.
        run: Runs the sample.
        on_progress: Called with the number of passes done and in all; an exception that it raises
            aborts.

    Raises:
        ValueError: No attention was seen.
    """
    lone = "decoder" if model.kind == "decoder-only" else "encoder"
    step, done = on_progress or (lambda done, of: None), 1
    clean: list[Input] = []
    with torch.no_grad():
        known = FOUND.get(model.module, ())
        log = nullcontext() if known else _Log(model.module, partial(_keep, clean))
        with log, probe(model.module, None, quiet(lone)) as capture:
            run(False)
        sites = {record.site: record.heads for record in capture.attentions}
        if not sites:
            raise ValueError(
                f"No attention was seen in {model.name!r}, so there are no heads to rank."
            )
        if known and _still(known, model.module, sites):
            return list(known)
        FOUND.pop(model.module, None)  # would keep the old weights in memory
        passes = len(sites) + 2 + bool(known)
        step(done, passes)
        if known:
            with _Log(model.module, partial(_keep, clean)), probe(model.module, None, quiet(lone)):
                run(False)
            step(done := done + 1, passes)
        changes: dict[Site, _Change] = {}
        for site, heads in sites.items():
            edits = Intervention(
                tuple(
                    ScaleHead(
                        stack=site.stack, block=site.block, layer=site.layer, head=h, value=h + 2.0
                    )
                    for h in range(heads)
                )
            )
            changes[site] = change = _Change(clean)
            with _Log(model.module, change) as log, probe(model.module, edits, quiet(lone)):
                run(False)
            change.comparable = log.count == len(clean)
            step(done := done + 1, passes)
        orders = _Orders(clean, {change.number for change in changes.values()})
        with _Log(model.module, orders) as log:
            run(True)
        step(done + 1, passes)
    same = log.count == len(clean)
    found = [
        Attention(site, n, _place(site, n, clean, changes[site], orders) if same else None)
        for site, n in sites.items()
    ]
    if _still(found, model.module, sites):  # cache only complete results
        FOUND[model.module] = tuple(found)
    return found


def _still(known: Sequence[Attention], module: nn.Module, sites: dict[Site, int]) -> bool:
    """Return True if these are the attentions of a pass, and their weights are the module's."""
    owned = {id(parameter) for parameter in module.parameters()}
    return {one.site: one.heads for one in known} == sites and all(
        one.place is not None
        and id(one.place.weight) in owned
        and one.place.weight.device == one.place.columns.device
        for one in known
    )


class _Log:
    """Context that calls ``see`` with each linear map's index, input and matrix."""

    def __init__(self, module: nn.Module, see: Callable[[int, Tensor, Tensor], None]):
        self.see, self.count = see, 0
        self.known = {p.data_ptr(): p for p in module.parameters() if p.dim() == 2}
        self.mode = intercept_linear(self.known, self._note)

    def _note(self, func: Any, args: Any, kwargs: Any, x: Tensor, matrix: int) -> Any:
        self.see(self.count, x.detach(), self.known[matrix])
        self.count += 1
        return func(*args, **kwargs)

    def __enter__(self) -> _Log:
        self.mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        self.mode.__exit__(*error)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, eq=False)
class Input:
    """Input of a linear map: a sample of its rows, their total sum and number, and the matrix.

    All rows of all maps of a long text would need more memory than its run.
    """

    rows: Tensor
    total: float
    count: int
    weight: Tensor

    @classmethod
    def of(cls, x: Tensor, weight: Tensor) -> Input:
        """Return the input ``x`` of a matrix."""
        rows = x.reshape(-1, x.shape[-1])
        some = rows[:: _stride(len(rows))].clone()
        return cls(some, float(x.sum(dtype=torch.float64)), len(rows), weight)

    def is_of(self, x: Tensor) -> bool:
        """Return True if ``x`` is the same input."""
        now = Input.of(x, self.weight)
        same = (self.count, self.total) == (now.count, now.total)
        return same and torch.equal(self.rows, now.rows)


def _stride(rows: int) -> int:
    """Return the step between stored rows."""
    return max(1, -(-rows // MOST_ROWS))


def _keep(inputs: list[Input], number: int, x: Tensor, weight: Tensor) -> None:
    inputs.append(Input.of(x, weight))


class _Change:
    """Recorder of the first linear map whose input differs from the clean run.

    ``number`` is -1 if there is none; ``comparable`` is True if both runs made the same maps.
    """

    def __init__(self, clean: Sequence[Input]):
        self.clean, self.number, self.comparable = clean, -1, False
        self.after: Tensor | None = None

    def __call__(self, number: int, x: Tensor, weight: Tensor) -> None:
        if self.after is None and number < len(self.clean) and not self.clean[number].is_of(x):
            self.number, self.after = number, Input.of(x, weight).rows


class _Orders:
    """Recorder of the axis order in linear inputs: True if tokens come first, by map index."""

    def __init__(self, clean: Sequence[Input], wanted: Container[int]):
        self.clean, self.wanted = clean, wanted
        self.time_first: dict[int, bool | None] = {}

    def __call__(self, number: int, x: Tensor, weight: Tensor) -> None:
        if number in self.wanted and number < len(self.clean):
            self.time_first[number] = _time_first(self.clean[number], x)


def _place(
    site: Site, heads: int, clean: Sequence[Input], change: _Change, orders: _Orders
) -> Place | None:
    """Return the first linear map whose input grew, if each of its features belongs to one head."""
    if not change.comparable or change.after is None:
        return None
    number, before = change.number, clean[change.number]
    if before.rows.shape != change.after.shape:
        return None
    columns, time_first = _heads_of(before.rows, change.after, heads), orders.time_first[number]
    if columns is None or time_first is None:
        return None
    nth = sum(one.weight is before.weight for one in clean[:number])
    return Place(site, heads, columns, before.weight, nth, time_first)


def _heads_of(before: Tensor, after: Tensor, heads: int) -> Tensor | None:
    """Return the head of each feature, ``[feature]``, from its growth; None if that is ambiguous.

    Features that are 0 everywhere carry no information; they get a head only if all others lie head
    by head.
    """
    x, y = (t.reshape(-1, t.shape[-1]).double() for t in (before, after))
    tolerance = TOLERANCE.get(before.dtype, HALF) * float(x.abs().max())
    largest = x.abs().argmax(0, keepdim=True)
    top = x.gather(0, largest)[0]
    told = top.abs() > tolerance
    factor = y.gather(0, largest)[0] / torch.where(told, top, torch.ones_like(top))
    head = (factor.round().long() - 2).clamp(0, heads - 1)
    usual = torch.arange(x.shape[1], device=x.device) * heads // x.shape[1]
    if x.shape[1] % heads == 0 and torch.equal(head[told], usual[told]):
        head = usual
    elif not bool(told.all()):
        return None
    left = (y - (head + 2) * x).abs()
    return None if bool((left > tolerance * (head + 2)).any()) else head


def _time_first(alone: Input, both: Tensor) -> bool | None:
    """Return True if tokens come before sentences, from the sample alone and with its reverse."""
    rows = both.reshape(-1, both.shape[-1])
    if len(rows) != 2 * alone.count or rows.shape[1] != alone.rows.shape[1]:
        return None
    for time_first in (False, True):
        first = (rows[0::2] if time_first else rows[: alone.count])[:: _stride(alone.count)]
        scale = float(alone.rows.abs().max()) or 1.0
        limit = TOLERANCE.get(alone.rows.dtype, HALF) * scale
        if float((first - alone.rows).abs().max()) <= limit:
            return time_first
    return None
