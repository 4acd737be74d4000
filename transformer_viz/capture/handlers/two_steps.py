"""Products with the values in two steps: broadcast and sum, or division after the product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..axes.product_labels import operands
from ..records import AttentionRecord
from ..roles import Context, Scores, Spread, Total, Weights
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, tensors
from .weighted_sum import weigh


def spread(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle weights times values by broadcasting; the sum over the keys makes it attention."""
    given = operands(args, kwargs)
    for p, v in ((given[0], given[-1]), (given[-1], given[0])):
        role = state.lineage.role(p)
        if not isinstance(role, Weights) or role.labels is None or p is v:
            continue
        refuse_lifting(state, role, v)
        if p.shape[-1] == 1 and state.lineage.origin(v) and len(role.labels) == p.dim():
            dim = role.labels.index("k") - p.dim()
            if v.dim() >= -dim and v.shape[dim] == p.shape[dim]:
                out = func(*args, **kwargs)
                return state.lineage.propagate(out, given, Spread(role, p, v, dim))
    return state.call(func, args, kwargs)


def refuse_lifting(state: CaptureState, role: Weights, other: Tensor) -> None:
    """Refuse to lift a mask that is applied after the softmax.

    Raises:
        ValueError: The causal mask is to be lifted, and it is no part of the scores.
    """
    if role.plan is None or state.lineage.origin(other) or other.dim() < 2:
        return
    if any(plan.lifts for plan in role.plan.heads) and bool((other == 0).any()):
        raise ValueError(
            f"The attention in {role.path or 'this module'} hides words after its softmax, so its "
            "causal mask cannot be lifted. Other edits can be made there."
        )


def on_sum(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle the sum over the keys of weights times values."""
    x = tensors(args, kwargs)[0]
    role = state.lineage.role(x)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if isinstance(dim, list | tuple) and len(dim) == 1:
        (dim,) = dim
    if isinstance(role, Scores):
        made = Total(state.lineage.serial(x))
        return state.lineage.propagate(func(*args, **kwargs), [x], made)
    if not isinstance(role, Spread) or not isinstance(dim, int) or kwargs.get("keepdim"):
        return state.call(func, args, kwargs)
    labels, axes = role.weights.labels, state.lineage.axes(role.p)
    if labels is None or dim % x.dim() - x.dim() != role.dim:
        return state.call(func, args, kwargs)

    def call(weights: Tensor, values: Tensor) -> Any:
        return func(weights.unsqueeze(-1) * values, *args[1:], **kwargs)

    axes = None if axes is None else axes[:-1]
    p = role.p.squeeze(-1)
    return weigh(state, role.weights, labels[:-1], None, p, role.v, call, axes)


def is_sum(x: Tensor, sums: Tensor) -> bool:
    """Return True if a divisor is the sum of the weights, bounded or shifted away from 0."""
    if x.dim() != sums.dim() + 1 or x.shape[-1] != 1 or x.shape[:-1] != sums.shape:
        return False
    return torch.allclose(x[..., 0].to(sums.dtype), sums, rtol=1e-3, atol=1e-5, equal_nan=True)


def divided(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, record: AttentionRecord
) -> Any:
    """Handle the division of a product by the sum of its weights, from a column of ones.

    The quotient is the product of the recorded weights with the values.
    """
    del state.undivided[id(record)]
    record.proof = None  # it belongs to the product before the division
    out = func(*args, **kwargs)
    return state.lineage.propagate(out, tensors(args, kwargs)[:2], Context(record))


def on_divide(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a division: weights may be divided by their sum only after the product.

    The recorded weights are then not those that the values were multiplied by.

    Raises:
        ValueError: An edit was made there; states the form to write instead.
    """
    roles = [state.lineage.role(x) for x in tensors(args, kwargs)[:2]]
    context, total = roles if len(roles) == 2 else (None, None)
    if isinstance(context, Context) and id(context.record) in state.undivided:
        by = tensors(args, kwargs)[1]
        same = isinstance(total, Context) and context.record is total.record
        if same or is_sum(by, state.undivided[id(context.record)][1]):
            return divided(state, func, args, kwargs, context.record)
    if not (isinstance(context, Context) and isinstance(total, Total)):
        return state.call(func, args, kwargs)
    record = context.record
    if context.made == total.made and record in state.capture.attentions:
        where = record.path or "this module"
        told = (
            f"an attention in {where} divides by the sum of its weights only after they met the "
            "values: divide them before, weights / weights.sum(-1, keepdim=True)"
        )
        if context.edited:
            raise ValueError(f"No edit can be made here: {told}.")
        state.capture.attentions.remove(record)
        state.capture.unrecognised.append(told)
    return state.call(func, args, kwargs)
