"""Products: the start of scores, and weights times values or a projection (rules 1, 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import torch_calls
from ..axes.atoms import ITEMS, kind_of
from ..axes.layout import einsum_factor, einsum_labels, factor_labels, matmul_labels
from ..roles import Context, Located, Scores, Total, Weights
from ..state import CaptureState
from ..torch_calls import Args, Kwargs, tensors
from .positions import encoded
from .projection_check import project
from .score_bias import biased
from .weighted_sum import gather


def on_matmul(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a product of two tensors, the first two operands (a third may be ``out``)."""
    return product(state, func, args, kwargs, tensors(args, kwargs)[:2])


def on_einsum(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle an einsum of two tensors as a product; others only if weights are among them."""
    pair = tensors(args, kwargs)
    if len(pair) > 2:
        return joint_product(state, func, args, kwargs, pair)
    if len(pair) != 2:
        return state.call(func, args, kwargs)
    return product(state, func, args, kwargs, pair)


def joint_product(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, operands: list[Tensor]
) -> Any:
    """Handle an einsum of more than two tensors that contains weights x values."""
    for p in operands:
        role = state.lineage.role(p)
        if isinstance(role, Weights):
            v = next((x for x in operands if x is not p and state.lineage.origin(x)), None)
            if v is not None:
                return gather(state, func, args, kwargs, role, p, v)
    return state.call(func, args, kwargs)


def product(state: CaptureState, func: Any, args: Args, kwargs: Kwargs, pair: list[Tensor]) -> Any:
    """Handle a product: weights x v, a projection of heads, the start of scores, or any other."""
    if len(pair) < 2:
        return state.call(func, args, kwargs)
    lineage = state.lineage
    encoded(state, pair)
    roles = [lineage.role(x) for x in pair]
    if all(isinstance(role, Weights) for role in roles):  # neither is the other's values
        return state.call(func, args, kwargs)
    for role, p, v in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Weights):
            return gather(state, func, args, kwargs, role, p, v)
    for role, x, other in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Context) and not lineage.origin(other):
            return project(state, func, args, kwargs, x, role)
    if isinstance(roles[0], Scores) and not roles[0].loose and custom(state, roles[0], *pair):
        role = Weights(roles[0], pair[0], roles[0].labels)
        return gather(state, func, args, kwargs, role, pair[0], pair[1], form="custom")
    grown = isinstance(roles[0], Scores) and roles[0].exponential and not lineage.origin(pair[1])
    if grown and bool((pair[1] == 1).all()):  # a product with ones alone is a sum
        total = Total(lineage.serial(pair[0]))
        return lineage.propagate(func(*args, **kwargs), pair, total)
    out = func(*args, **kwargs)
    if not isinstance(out, Tensor) or out.dim() < 2:
        return lineage.follow(out, func, args, kwargs)
    constants = [x for x in pair if not lineage.origin(x)]
    if not constants and out.dim() > 2:
        return lineage.propagate(out, pair, started(state, func, args, pair, out))
    learned = not lineage.origin(pair[0]) or not constants
    if learned and not isinstance(pair[1], nn.Parameter):
        return lineage.propagate(out, pair, Located(started(state, func, args, pair, out)))
    if len(constants) == 1 and out.dim() > 2 and not isinstance(constants[0], nn.Parameter):
        return lineage.propagate(out, pair, Located())  # q or k times a table of the model's
    return lineage.follow(out, func, args, kwargs)


def started(state: CaptureState, func: Any, args: Args, pair: list[Tensor], out: Tensor) -> Scores:
    """Return the scores that a product of two activations may be."""
    q, k = pair
    if func in torch_calls.EINSUM:
        dims = tuple(x.dim() for x in pair)
        labels = einsum_labels(args[0], dims)
        left, right = (einsum_factor(args[0], dims, labels, first) for first in (True, False))
    else:
        labels = matmul_labels(out.dim())
        left, right = (factor_labels(labels, first) for first in (True, False))
    origin, depth = state.lineage.origin, state.lineage.depth(q)
    return Scores(q, k, left, right, labels, origin(q), origin(k), depth)


def custom(state: CaptureState, role: Scores, s: Tensor, v: Tensor) -> bool:
    """Return True if untouched scores times an activation are attention without a softmax.

    Both axes of the scores must be token axes of their inputs. A single query per token may select
    experts of a router instead.
    """
    axes = state.lineage.axes(s)
    if s.shape[-2] == 1 and axes is not None and kind_of(axes[-1]) != ITEMS:
        return False
    lengths = state.lineage.token_lengths(role.q_origin | role.k_origin)
    return bool(state.lineage.origin(v)) and s.shape[-1] in lengths and s.shape[-2] in lengths


def on_baddbmm(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``beta * bias + alpha * q·k`` in one call (BLOOM, PyTorch's own attention)."""
    given = tensors(args, kwargs)
    if len(given) != 3 or not (state.lineage.origin(given[1]) and state.lineage.origin(given[2])):
        return state.call(func, args, kwargs)
    bias, q, k = given
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    scores = torch.bmm(q, k) * alpha
    begun = started(state, func, args, [q, k], scores)
    state.lineage.propagate(scores, [q, k], replace(begun, factor=alpha))
    if beta == 0:
        return scores
    bias_marked = bias if beta == 1 else state.call(torch.mul, (bias, beta), {})
    return biased(state, torch.add, scores, bias_marked, 1)
