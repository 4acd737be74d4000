"""Products: where scores start, and where weights meet values or a projection (rules 1, 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import torch_calls
from ..axis_layout import einsum_factor, einsum_labels, factor_labels, matmul_labels
from ..lineage import Context, Located, Scores, Weights
from ..torch_function_mode import Mode, tensors
from .positions import biased
from .projection_check import project
from .weighted_sum import gather


def operands(args: tuple[Any, ...], kwargs: dict[str, Any], first: int = 0) -> list[Tensor]:
    """The two factors of a product, wherever they stand."""
    return tensors(args[first:], kwargs)[:2]


def on_matmul(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return product(mode, func, args, kwargs, operands(args, kwargs))


def on_einsum(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    pair = tensors(args, kwargs)
    if len(pair) != 2:
        return mode.plain(func, args, kwargs)
    return product(mode, func, args, kwargs, pair)


def product(mode: Mode, func: Any, args: Any, kwargs: Any, pair: list[Tensor]) -> Any:
    """A product: weights x v, a projection of heads, the start of scores, or nothing to us."""
    if len(pair) < 2:
        return mode.plain(func, args, kwargs)
    roles = [mode.role(x) for x in pair]
    for role, p, v in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Weights):
            return gather(mode, func, args, kwargs, role, p, v)
    for role, x, other in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Context) and not mode.origin(other):
            return project(mode, func, args, kwargs, x, role)
    if isinstance(roles[0], Scores) and not roles[0].loose and custom(mode, roles[0], *pair):
        role = Weights(roles[0], pair[0], roles[0].labels)
        return gather(mode, func, args, kwargs, role, pair[0], pair[1], form="custom")
    out = func(*args, **kwargs)
    if not isinstance(out, Tensor) or out.dim() < 3:
        return mode.follow(out, func, args, kwargs)
    constants = [x for x in pair if not mode.origin(x)]
    if constants:
        made = len(constants) == 1 and not isinstance(constants[0], nn.Parameter)
        return mode.put(out, pair, Located()) if made else mode.follow(out, func, args, kwargs)
    return mode.put(out, pair, started(mode, func, args, pair, out))


def started(mode: Mode, func: Any, args: Any, pair: list[Tensor], out: Tensor) -> Scores:
    """A product of two activations may be scores."""
    q, k = pair
    if func in torch_calls.EINSUM:
        labels = einsum_labels(args[0])
        left, right = (einsum_factor(args[0], labels, first) for first in (True, False))
    else:
        labels = matmul_labels(out.dim())
        left, right = (factor_labels(labels, first) for first in (True, False))
    return Scores(q, k, left, right, labels, mode.origin(q), mode.origin(k), mode.depth(q))


def custom(mode: Mode, role: Scores, s: Tensor, v: Tensor) -> bool:
    """Whether untouched scores times an activation are attention without a softmax: both axes
    of the scores must be token axes of the streams they come from."""
    lengths = set().union(*(mode.lengths[o] for o in role.q_origin | role.k_origin))
    return bool(mode.origin(v)) and s.shape[-1] in lengths and s.shape[-2] in lengths


def on_baddbmm(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``beta * bias + alpha * q·k`` in one call (BLOOM, PyTorch's own attention)."""
    given = tensors(args, kwargs)
    if len(given) != 3 or not (mode.origin(given[1]) and mode.origin(given[2])):
        return mode.plain(func, args, kwargs)
    bias, q, k = given
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    scores = torch.bmm(q, k) * alpha
    begun = started(mode, func, args, [q, k], scores)
    mode.put(scores, [q, k], replace(begun, factor=alpha))
    if beta == 0:
        return scores
    bias_marked = bias if beta == 1 else mode.plain(torch.mul, (bias, beta), {})
    return biased(mode, torch.add, scores, bias_marked, 1)
