"""The residual stream: which sums are residual sums, and how long the stream is after each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...core.interventions import ScaleResidual
from ...core.sites import Site
from ..propagation import swap, tensors
from ..records import ResidualRecord
from ..roles import Located, Scores, Stream, SubLayer
from ..state import CaptureState
from ..torch_calls import Args, Kwargs
from .positions import add_constants, add_table, biased


def on_add(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """A sum: scores and a bias, a residual sum, embeddings and positions, or none of these."""
    pair = tensors(args, kwargs)
    if len(pair) != 2 or kwargs.get("alpha", 1) != 1:
        return state.call(func, args, kwargs)
    a, b = pair
    for scores, other in ((a, b), (b, a)):
        if isinstance(state.lineage.role(scores), Scores):
            return biased(state, func, scores, other, 1, args, kwargs)
    origins = bool(state.lineage.origin(a)), bool(state.lineage.origin(b))
    if all(origins):
        if isinstance(state.lineage.role(a), Located) and isinstance(
            state.lineage.role(b), Located
        ):
            return state.call(func, args, kwargs)
        if a.shape == b.shape and a.dim() > 1:
            return residual_sum(state, func, args, kwargs, a, b)
        return state.call(func, args, kwargs)
    if not any(origins):
        return add_constants(state, func, args, kwargs, a, b)
    return add_table(state, func, args, kwargs, *((a, b) if origins[0] else (b, a)))


def on_subtract(state: CaptureState, func: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """Scores minus a large number where they are masked."""
    pair = tensors(args, kwargs)
    if (
        len(pair) == 2
        and isinstance(state.lineage.role(pair[0]), Scores)
        and kwargs.get("alpha", 1) == 1
    ):
        return biased(state, func, pair[0], pair[1], -1, args, kwargs)
    return state.call(func, args, kwargs)


def residual_sum(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, a: Tensor, b: Tensor
) -> Any:
    """The stream plus a sub-layer's output; the stream's part can be scaled by an edit."""
    for y, x in ((a, b), (b, a)):
        role = state.lineage.role(y)
        if isinstance(role, SubLayer):
            if isinstance(state.lineage.role(x), Stream) or serial(state, x) < role.start:
                return summed(state, func, args, kwargs, x, role.record.site, role.record)
            merged = SubLayer(role.record, role.start, False)  # two sub-layers side by side
            return state.lineage.propagate(func(*args, **kwargs), [a, b], merged)
    streams = [isinstance(state.lineage.role(t), Stream) for t in (a, b)]
    if streams[0] == streams[1]:
        role = Stream() if not state.lineage.depth(a) and not state.lineage.depth(b) else None
        return state.lineage.propagate(func(*args, **kwargs), [a, b], role)
    x = a if streams[0] else b
    stack = state.lineage.role(x).stack
    if stack is None:
        return state.lineage.propagate(func(*args, **kwargs), [a, b], Stream())
    site = Site(stack, "feed_forward", state.layers.get(stack, 0))
    return summed(state, func, args, kwargs, x, site, None)


def serial(state: CaptureState, x: Tensor) -> int:
    mark = state.lineage.mark(x)
    return 0 if mark is None else mark.serial


def summed(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, site: Site, record: Any
) -> Any:
    """Do one residual sum, edited where asked, and note the stream's length after it."""
    state.layers[site.stack] = site.layer
    edits = [e for e in state.intervention if isinstance(e, ScaleResidual) and e.matches(site)]
    state.used.update(edits)  # those too that the last one overrides
    parents = tensors(args, kwargs)
    if state.request.residuals and site.layer == 0 and site.block == "self":
        lengths(state, Site(site.stack, "embedding", 0), x)
    if record is not None and state.request.hidden and site.block == "self":
        record.stream = x.detach().clone()
    if edits:
        scaled = x * edits[-1].value
        args, kwargs = swap(args, {id(x): scaled}), swap(kwargs, {id(x): scaled})
    out = func(*args, **kwargs)
    if state.request.residuals:
        lengths(state, site, out)
    if state.request.hidden:
        state.capture.streams[site.stack] = out
    return state.lineage.propagate(out, parents, Stream(site.stack))


def lengths(state: CaptureState, site: Site, x: Tensor) -> None:
    wider = x.dtype == torch.float64  # which the norm itself refuses to narrow
    seen = x.detach().float() if wider else x.detach()
    norm = torch.linalg.vector_norm(seen, dim=-1, dtype=torch.float32)
    state.capture.residuals.append(ResidualRecord(site, norm))
