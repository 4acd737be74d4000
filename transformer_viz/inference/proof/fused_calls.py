"""Fused attention for the witness: the documented formula, and PyTorch's own mask objects.

A subclass of Tensor cannot be made under a `TorchDispatchMode`: its memory would come from the mode
as a plain Tensor. Under the modes of a proof the objects of `torch.nn.attention.bias` are made
outside of them.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode

_listening: set[type] = set()


def allow_mask_objects(mode: type) -> None:
    """Let mask objects be made while a dispatch mode of this class is the innermost one."""
    _listening.add(mode)
    objects = sys.modules.get("torch.nn.attention.bias")  # importing it takes seconds
    if objects is not None:
        objects.CausalBias.__new__ = make_mask_object


def make_mask_object(cls: type[Tensor], *sizes: Any) -> Tensor:
    """Make a mask object as PyTorch does, outside the modes of a proof."""
    if type(_get_current_dispatch_mode()) not in _listening:
        return Tensor.__new__(cls, *sizes)
    with _disable_current_modes():
        return Tensor.__new__(cls, *sizes)


def formula(given: dict[str, Any], kind: torch.dtype = torch.float64) -> Tensor:
    """Return the scores of a fused call with its masks ``[batch, head, query, key]``, computed in a
    type of number."""
    q, k = given["query"].to(kind), given["key"].to(kind)
    scale = given.get("scale") or q.shape[-1] ** -0.5
    scores = q @ shared(k, q.shape[1]).transpose(-1, -2) * scale
    for word in ("attn_mask", "attn_bias"):
        if given.get(word) is not None:
            scores = scores + given[word].to(kind)
    if given.get("is_causal"):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores


def weights_of(given: dict[str, Any], kind: torch.dtype) -> Tensor:
    """Return the weights of a fused call ``[batch, head, query, key]`` in a type of number.

    They are computed in float64, one head after the other.
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
    """Keys or values ``[batch, head, token, width]``, once for each head that shares them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)
