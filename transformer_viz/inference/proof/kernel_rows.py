"""Rows of a kernel's weights, and PyTorch's formula for those of fused attention."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

BLOCK = 2**18  # numbers of a softmax computed together
_listening: set[type] = set()  # modes under which mask objects may be created


class Rows:
    """Weights ``[row, key]`` of a running kernel."""

    def __init__(self, rows: Tensor):
        self.rows = rows.detach()
        self.dtype, self.shape = rows.dtype, (rows.shape[0], rows.shape[1])

    def kept(self, shown: Sequence[Tensor]) -> Callable[[], Tensor]:
        """Return a function that gives the rows later.

        It refers to one of the ``shown`` maps if that is bit-identical, else to a copy.
        """
        for other in (x for x in shown if not is_functorch_wrapped_tensor(x)):
            like = (other.dtype, other.device, other.shape[-1], other.numel())
            if like == (self.dtype, self.rows.device, self.shape[1], self.rows.numel()):
                lines = other.detach().reshape(self.shape)
                if torch.equal(lines, self.rows):
                    return lines.float
        copy = self.rows.to(torch.float32, copy=True)
        return lambda: copy


class FusedRows(Rows):
    """Weights of a fused attention, computed on request from its queries and keys."""

    def __init__(self, given: dict[str, Any], dtype: torch.dtype):
        self.given, self.dtype = given, dtype
        self.shape = (math.prod(given["query"].shape[:-1]), given["key"].shape[-2])

    def kept(self, shown: Sequence[Tensor]) -> Callable[[], Tensor]:
        """Return a function that computes the rows from copies of queries, keys and masks.

        Where the weights are smaller, it returns a copy of them.
        """
        taken = {word: self.given.get(word) for word in ("query", "key", "attn_mask", "attn_bias")}
        size = sum(x.numel() for x in taken.values() if x is not None)
        if size > math.prod(self.shape):
            copy = weights_of(self.given, self.dtype).view(self.shape).float()
            return lambda: copy
        copies = {word: x if x is None else x.clone() for word, x in taken.items()}
        copies |= {word: self.given.get(word) for word in ("scale", "is_causal")}
        return lambda: weights_of(copies, self.dtype).view(self.shape).float()


def lead_of(x: Tensor, dim: int) -> tuple[int, ...]:
    """Return the shape of a tensor without the axis ``dim``."""
    return tuple(size for n, size in enumerate(x.shape) if n != dim % x.dim())


def rowed(x: Tensor, dim: int) -> Tensor:
    """Return a tensor as rows ``[row, key]``: the axis ``dim`` last, the others in order."""
    last = x.movedim(dim, -1)
    return last.reshape(-1, last.shape[-1])


def unrowed(rows: Tensor, like: Tensor, dim: int) -> Tensor:
    """Return rows ``[row, key]`` in the shape and type of ``like``."""
    shape = like.movedim(dim, -1).shape
    return rows.to(like.dtype).reshape(shape).movedim(-1, dim)


def formula(given: dict[str, Any], kind: torch.dtype = torch.float64) -> Tensor:
    """Return the scores of a fused call, masks included, ``[batch, head, query, key]``."""
    q, k = given["query"].to(kind), given["key"].to(kind)
    scale = given.get("scale") or q.shape[-1] ** -0.5
    scores = (q @ shared(k, q.shape[1]).transpose(-1, -2)).mul_(scale)
    for word in ("attn_mask", "attn_bias"):
        if given.get(word) is not None:
            mask = given[word].to(kind)
            fits = torch.broadcast_shapes(mask.shape, scores.shape) == scores.shape
            scores = scores.add_(mask) if fits else scores + mask
    if given.get("is_causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill_(later, -torch.inf)
    return scores


def softmax_in_place(rows: Tensor) -> Tensor:
    """Turn scores ``[row, key]`` into weights in place; fully masked rows become zeros."""
    for some in rows.split(max(1, BLOCK // max(1, rows.shape[-1]))):
        some.copy_(some.softmax(-1).nan_to_num(0.0))
    return rows


def weights_of(given: dict[str, Any], kind: torch.dtype) -> Tensor:
    """Return the weights of a fused call ``[batch, head, query, key]`` in type ``kind``.

    They are computed in float64, one head at a time.
    """
    q, k = given["query"], given["key"]
    heads, share = q.shape[1], q.shape[1] // k.shape[1]
    masks = {word: x for word in ("attn_mask", "attn_bias") if (x := given.get(word)) is not None}
    found = torch.empty(*q.shape[:3], k.shape[2], dtype=kind, device=q.device)
    for head in range(heads):
        own = {
            word: x[:, head : head + 1] if x.dim() == 4 and x.shape[1] == heads else x
            for word, x in masks.items()
        }
        shown = given | own
        shown |= {"query": q[:, head : head + 1], "key": k[:, head // share][:, None]}
        found[:, head] = formula(shown).softmax(-1).nan_to_num(0.0)[:, 0]
    return found


def shared(x: Tensor, heads: int) -> Tensor:
    """Return keys or values ``[batch, head, token, width]``, repeated for heads that share them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def allow_mask_objects(mode: type) -> None:
    """Allow PyTorch's mask objects (`torch.nn.attention.bias`) while this mode is innermost.

    A Tensor subclass cannot be created under a `TorchDispatchMode`: its memory would come from the
    mode as a plain Tensor. During a proof these objects are created outside of its modes.
    """
    _listening.add(mode)
    objects = sys.modules.get("torch.nn.attention.bias")  # importing it takes seconds
    if objects is not None:
        objects.CausalBias.__new__ = make_mask_object


def make_mask_object(cls: type[Tensor], *sizes: Any) -> Tensor:
    """Create a mask object as PyTorch does, outside the modes of a proof."""
    if type(_get_current_dispatch_mode()) not in _listening:
        return Tensor.__new__(cls, *sizes)
    with _disable_current_modes():
        return Tensor.__new__(cls, *sizes)
