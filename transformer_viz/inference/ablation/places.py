"""The output projections of a model, found by what they do.

Nobody has to say where a module keeps them: each head of one attention is scaled by another number,
and the first linear map that then reads something else is the projection. How much each of its
features grew says which head it belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...capture import CaptureRequest, probe, torch_calls
from ...capture.handlers.fused_attention import OPENED
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention, ScaleHead
from ...core.sites import Site
from ...model import Transformer
from .gate import Place, projected

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}  # relative, of what a head's factor leaves
HALF = 3e-2  # the same in half precision

#: Runs the sample: with ``twice`` true beside its reverse, in a batch of two.
Run = Callable[[bool], Any]


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention of a model and, where it was found, the projection of its heads."""

    site: Site
    heads: int
    place: Place | None


def quiet(lone: str = "encoder") -> CaptureRequest:
    """A probe that keeps nothing; ``lone`` is the stack of a lone self-attention."""
    return CaptureRequest(
        weights=lambda _: False, statistics=False, norms=False, residuals=False, stack=lone
    )


def own_attentions(module: Transformer) -> list[Attention]:
    """Those of the reference Transformer, whose projections have a name."""
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


def attentions_of(model: Model, run: Run) -> list[Attention]:
    """The attentions that a sample goes through, in call order, each with its place if it has one.

    Raises:
        ValueError: no attention was seen.
    """
    lone = "decoder" if model.kind == "decoder-only" else "encoder"
    with torch.no_grad():
        with _Log(model.module) as clean, probe(model.module, None, quiet(lone)) as capture:
            run(False)
        sites = {record.site: record.heads for record in capture.attentions}
        if not sites:
            raise ValueError(
                f"No attention was seen in {model.name!r}, so there are no heads to rank."
            )
        twice = _logged(model.module, lambda: run(True), nullcontext())
        found = []
        for site, heads in sites.items():
            edits = Intervention(
                tuple(
                    ScaleHead(
                        stack=site.stack, block=site.block, layer=site.layer, head=h, value=h + 2.0
                    )
                    for h in range(heads)
                )
            )
            around = probe(model.module, edits, quiet(lone))
            scaled = _logged(model.module, lambda: run(False), around)
            found.append(Attention(site, heads, _place(site, heads, clean.calls, scaled, twice)))
    return found


class _Log(TorchFunctionMode):
    """Keeps what every linear map of a module reads, and its matrix."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.calls: list[tuple[Tensor, Tensor]] = []
        self.known = {p.data_ptr(): p for p in module.parameters() if p.dim() == 2}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in torch_calls.MULTI_HEAD:
            with self:
                return OPENED[func](*args, **kwargs)
        given = projected(func, args, kwargs, self.known)
        if given is not None:
            self.calls.append((given[0].detach().clone(), self.known[given[1]]))
        return func(*args, **kwargs)


def _logged(
    module: nn.Module, run: Callable[[], Any], around: AbstractContextManager[Any]
) -> list[tuple[Tensor, Tensor]]:
    with _Log(module) as log, around:
        run()
    return log.calls


def _place(
    site: Site,
    heads: int,
    clean: list[tuple[Tensor, Tensor]],
    scaled: list[tuple[Tensor, Tensor]],
    twice: list[tuple[Tensor, Tensor]],
) -> Place | None:
    """The first linear map whose input grew, if each of its features belongs to one head."""
    if not len(clean) == len(scaled) == len(twice):
        return None
    uses: Counter[int] = Counter()
    for (before, weight), (after, _), (both, _) in zip(clean, scaled, twice, strict=True):
        nth = uses[id(weight)]  # a weight is one of the module's own, so it lives on
        uses[id(weight)] += 1
        if torch.equal(before, after):
            continue
        columns = _heads_of(before, after, heads)
        time_first = _time_first(before, both)
        if columns is None or time_first is None:
            return None
        return Place(site, heads, columns, weight, nth, time_first)
    return None


def _heads_of(before: Tensor, after: Tensor, heads: int) -> Tensor | None:
    """The head of each feature, ``[feature]``, from how much it grew; None where that is unclear.

    Features that are 0 everywhere tell nothing: they follow where all others lie head by head.
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


def _time_first(alone: Tensor, both: Tensor) -> bool | None:
    """Whether tokens come before sentences, from the sample alone and beside its reverse."""
    if both.numel() != 2 * alone.numel():
        return None
    one = alone.reshape(-1, alone.shape[-1])
    for time_first in (False, True):
        rows = both.reshape(-1, both.shape[-1])
        first = rows[0::2] if time_first else rows[: len(one)]
        scale = float(one.abs().max()) or 1.0
        if float((first - one).abs().max()) <= TOLERANCE.get(alone.dtype, HALF) * scale:
            return time_first
    return None
