"""The pieces of a Transformer written down once more, in float64 on a file's own tensors.

Nothing here is shared with the package: what a layout computes is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

State = Mapping[str, Tensor]
#: By stack, what enters each layer, and what leaves the stack.
Streams = dict[str, list[Tensor]]


def linear(x: Tensor, state: State, name: str) -> Tensor:
    """``x W^T + b`` with the file's ``name.weight`` and, if there is one, ``name.bias``."""
    y = x @ state[f"{name}.weight"].double().T
    bias = state.get(f"{name}.bias")
    return y if bias is None else y + bias.double()


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """``(x - mean) / sqrt(variance + eps)``, with the biased variance, times gain plus bias."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    return centred / (variance + eps).sqrt() * gain.double() + bias.double()


def attend(
    q: Tensor, k: Tensor, v: Tensor, heads: int, hidden: Tensor, fill: float
) -> tuple[Tensor, Tensor]:
    """The context ``[batch, query, heads * d_v]`` and the weights ``[batch, head, query, key]``.

    ``q``, ``k``, ``v`` are ``[batch, token, rows]`` with the heads one after the other; ``hidden``
    ``[batch, query, key]`` is true where the score is replaced by ``fill``.
    """
    contexts, maps = [], []
    for a, b, c in zip(*(x.chunk(heads, dim=-1) for x in (q, k, v)), strict=True):
        scores = torch.einsum("bqd,bkd->bqk", a, b) / a.shape[-1] ** 0.5
        scores = torch.where(hidden, torch.full_like(scores, fill), scores)
        weights = scores.softmax(-1)
        maps.append(weights)
        contexts.append(torch.einsum("bqk,bkd->bqd", weights, c))
    return torch.cat(contexts, dim=-1), torch.stack(maps, dim=1)


def hidden_keys(keys: Tensor, pad: int | None, queries: int) -> Tensor:
    """``[batch, query, key]``, true at the keys that are padding."""
    padding = torch.zeros_like(keys, dtype=torch.bool) if pad is None else keys == pad
    return padding[:, None, :].repeat(1, queries, 1)


def hidden_future(ids: Tensor) -> Tensor:
    """``[1, query, key]``, true where the key comes after the query."""
    place = torch.arange(ids.shape[1])
    return (place[None, :] > place[:, None])[None]


def random(seed: int, **shapes: tuple[int, ...]) -> dict[str, Tensor]:
    """Random float32 weights by name (``__`` stands for a dot), as training leaves them.

    Matrices keep the scale of their input; what is called a gain (``layer_norm``, ``norm``,
    ``a_2``) stands around 1; other vectors are small.
    """
    draw = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=draw)
        if len(shape) > 1:
            values = values / shape[1] ** 0.5 * 1.5
        else:
            gain = name.endswith(("norm__weight", "a_2")) or "norm" in name.split("__")[-2]
            values = 1 + values / 4 if gain and not name.endswith(("bias", "b_2")) else values / 4
        made[name.replace("__", ".")] = values
    return made
