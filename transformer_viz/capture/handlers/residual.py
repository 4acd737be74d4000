"""The residual stream: which sums are residual sums, and how long the stream is after each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...core.interventions import ScaleResidual
from ...core.sites import Site
from ..lineage import Located, Scores, Stream, SubLayer
from ..run import ResidualRecord
from ..torch_function_mode import Mode, swap, tensors
from .positions import add_constants, add_table, biased


def on_add(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A sum: scores and a bias, a residual sum, embeddings and positions, or none of these."""
    pair = tensors(args, kwargs)
    if len(pair) != 2 or kwargs.get("alpha", 1) != 1:
        return mode.plain(func, args, kwargs)
    a, b = pair
    for scores, other in ((a, b), (b, a)):
        if isinstance(mode.role(scores), Scores):
            return biased(mode, func, scores, other, 1, args, kwargs)
    origins = bool(mode.origin(a)), bool(mode.origin(b))
    if all(origins):
        if isinstance(mode.role(a), Located) and isinstance(mode.role(b), Located):
            return mode.plain(func, args, kwargs)
        if a.shape == b.shape and a.dim() > 1:
            return residual_sum(mode, func, args, kwargs, a, b)
        return mode.plain(func, args, kwargs)
    if not any(origins):
        return add_constants(mode, func, args, kwargs, a, b)
    return add_table(mode, func, args, kwargs, *((a, b) if origins[0] else (b, a)))


def on_subtract(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Scores minus a large number where they are masked."""
    pair = tensors(args, kwargs)
    if len(pair) == 2 and isinstance(mode.role(pair[0]), Scores) and kwargs.get("alpha", 1) == 1:
        return biased(mode, func, pair[0], pair[1], -1, args, kwargs)
    return mode.plain(func, args, kwargs)


def residual_sum(mode: Mode, func: Any, args: Any, kwargs: Any, a: Tensor, b: Tensor) -> Any:
    """The stream plus a sub-layer's output; the stream's part can be scaled by an edit."""
    for y, x in ((a, b), (b, a)):
        role = mode.role(y)
        if isinstance(role, SubLayer):
            if isinstance(mode.role(x), Stream) or serial(mode, x) < role.start:
                return summed(mode, func, args, kwargs, x, role.record.site, role.record)
            merged = SubLayer(role.record, role.start, False)  # two sub-layers side by side
            return mode.put(func(*args, **kwargs), [a, b], merged)
    streams = [isinstance(mode.role(t), Stream) for t in (a, b)]
    if streams[0] == streams[1]:
        role = Stream() if not mode.depth(a) and not mode.depth(b) else None
        return mode.put(func(*args, **kwargs), [a, b], role)
    x = a if streams[0] else b
    stack = mode.role(x).stack
    if stack is None:
        return mode.put(func(*args, **kwargs), [a, b], Stream())
    site = Site(stack, "feed_forward", mode.layers.get(stack, 0))
    return summed(mode, func, args, kwargs, x, site, None)


def serial(mode: Mode, x: Tensor) -> int:
    mark = mode.mark(x)
    return 0 if mark is None else mark.serial


def summed(
    mode: Mode, func: Any, args: Any, kwargs: Any, x: Tensor, site: Site, record: Any
) -> Any:
    """Do one residual sum, edited where asked, and note the stream's length after it."""
    mode.layers[site.stack] = site.layer
    edits = [e for e in mode.intervention if isinstance(e, ScaleResidual) and e.matches(site)]
    mode.used.update(edits)  # those too that the last one overrides
    parents = tensors(args, kwargs)
    if mode.want.residuals and site.layer == 0 and site.block == "self":
        lengths(mode, Site(site.stack, "embedding", 0), x)
    if record is not None and mode.want.hidden and site.block == "self":
        record.stream = x.detach().clone()
    if edits:
        scaled = x * edits[-1].value
        args, kwargs = swap(args, {id(x): scaled}), swap(kwargs, {id(x): scaled})
    out = func(*args, **kwargs)
    if mode.want.residuals:
        lengths(mode, site, out)
    if mode.want.hidden:
        mode.run.streams[site.stack] = out
    return mode.put(out, parents, Stream(site.stack))


def lengths(mode: Mode, site: Site, x: Tensor) -> None:
    wider = x.dtype == torch.float64  # which the norm itself refuses to narrow
    seen = x.detach().float() if wider else x.detach()
    norm = torch.linalg.vector_norm(seen, dim=-1, dtype=torch.float32)
    mode.run.residuals.append(ResidualRecord(site, norm))
