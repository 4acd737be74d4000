"""Residual stream: detection of residual sums, and its length after each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...core.interventions import ScaleResidual
from ...core.sites import Site
from ..records import ResidualRecord, ResidualSum
from ..roles import Located, Scores, Stream, SubLayer
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, swap, tensors
from . import lend
from .positions import add_table
from .score_bias import add_constants, biased


def on_add(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a sum: scores and a bias, a residual sum, embeddings and positions, or any other."""
    pair = tensors(args, kwargs)
    if len(pair) != 2 or kwargs.get("alpha", 1) != 1:
        return state.call(func, args, kwargs)
    a, b = pair
    roles = [state.lineage.role(x) for x in pair]
    if isinstance(roles[0], Scores):
        return biased(state, func, a, b, 1, args, kwargs)
    if isinstance(roles[1], Scores):
        return biased(state, func, b, a, 1, args, kwargs)
    made = [bool(state.lineage.origin(x)) for x in pair]  # from the input, not from constants alone
    if not any(made):
        return add_constants(state, func, args, kwargs, a, b)
    if not all(made):
        return add_table(state, func, args, kwargs, *((a, b) if made[0] else (b, a)))
    located = isinstance(roles[0], Located) and isinstance(roles[1], Located)
    if a.shape == b.shape and a.dim() > 1 and not located:
        return residual_sum(state, func, args, kwargs, a, b)
    return state.call(func, args, kwargs)


def on_subtract(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle scores minus a large number where they are masked."""
    pair = tensors(args, kwargs)
    if len(pair) != 2 or kwargs.get("alpha", 1) != 1:
        return state.call(func, args, kwargs)
    if not isinstance(state.lineage.role(pair[0]), Scores):
        return state.call(func, args, kwargs)
    return biased(state, func, pair[0], pair[1], -1, args, kwargs)


def residual_sum(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, a: Tensor, b: Tensor
) -> Any:
    """Handle the residual stream plus a sub-layer's output; edits can scale the residual stream."""
    lineage = state.lineage
    for y, x in ((a, b), (b, a)):
        role = lineage.role(y)
        if isinstance(role, SubLayer):
            if isinstance(lineage.role(x), Stream) or lineage.serial(x) < role.start:
                return summed(state, func, args, kwargs, x, role.record.site, role.record)
            merged = SubLayer(role.record, role.start, False)  # two sub-layers side by side
            return lineage.propagate(func(*args, **kwargs), [a, b], merged)
    streams = [isinstance(lineage.role(t), Stream) for t in (a, b)]
    if streams[0] == streams[1]:  # before any attention: the sum of embeddings
        role = Stream() if not lineage.depth(a) and not lineage.depth(b) else None
        return lineage.propagate(func(*args, **kwargs), [a, b], role)
    x = a if streams[0] else b
    stack = lineage.role(x).stack
    if stack is None:
        return lineage.propagate(func(*args, **kwargs), [a, b], Stream())
    site = Site(stack, "feed_forward", state.layers.get(stack, 0))
    return summed(state, func, args, kwargs, x, site, None)


def summed(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, site: Site, record: Any
) -> Any:
    """Compute a residual sum with its edits, and record the length of the residual stream."""
    state.layers[site.stack] = site.layer
    edits = [e for e in state.intervention if isinstance(e, ScaleResidual) and e.matches(site)]
    state.used.update(edits)  # also those that the last one overrides
    parents = tensors(args, kwargs)
    if state.request.residuals and site.layer == 0 and site.block == "self":
        note_length(state, Site(site.stack, "embedding", 0), x)
    if record is not None and state.request.hidden and site.block == "self":
        record.stream = x.detach().clone()
    if edits:
        scaled = x * edits[-1].value
        args, kwargs = swap(args, {id(x): scaled}), swap(kwargs, {id(x): scaled})
    parts = kept_parts(state, args, kwargs, x if not edits else scaled)
    out = lend.stream(state, site, func(*args, **kwargs))
    if parts is not None:
        state.capture.sums.append(ResidualSum(site, *parts, out.detach().clone()))
    if state.request.residuals:
        note_length(state, site, out)
    if state.request.hidden:
        state.capture.streams[site.stack] = out
    return state.lineage.propagate(out, parents, Stream(site.stack))


def kept_parts(
    state: CaptureState, args: Args, kwargs: Kwargs, x: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return copies of the residual stream and the summand before a sum; None if not requested."""
    if not state.request.sums:
        return None
    other = next((t for t in tensors(args, kwargs) if t is not x), x)
    return x.detach().clone(), other.detach().clone()


def note_length(state: CaptureState, site: Site, x: Tensor) -> None:
    """Record the Euclidean length of each token's vector in the residual stream,
    ``[batch, token]``.
    """
    state.capture.residuals.append(ResidualRecord(site, length_of(x)))


def length_of(x: Tensor) -> Tensor:
    """Return the Euclidean length of each token's vector, ``[batch, token]`` float32."""
    wider = x.dtype == torch.float64  # the norm itself refuses to narrow it
    seen = x.detach().float() if wider else x.detach()
    return torch.linalg.vector_norm(seen, dim=-1, dtype=torch.float32)
