"""One attention, written the ways people write it. All share names and weights, so one oracle in
float64 numpy tells what each should have done."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS, WIDTH, TOKENS, BATCH = 2, 14, 7, 3


class Style(nn.Module):
    """Causal self-attention; ``padding`` ``[batch, token]`` is true at padding keys."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], WIDTH)

    def hidden(self, x: Tensor, padding: Tensor) -> Tensor:
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        return later | padding[:, None, None, :]

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        q, k, v = (self.heads(w(x)) for w in (self.wq, self.wk, self.wv))
        return x + self.wo(self.join(self.attend(q, k, v, self.hidden(x, padding))))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
        raise TypeError


class MatmulFill(Style):
    def attend(self, q, k, v, hidden):
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        return scores.masked_fill(hidden, -1e9).softmax(-1) @ v


class ScaledQueryAdditive(Style):
    def __init__(self):
        super().__init__()
        self.soft = nn.Softmax(dim=-1)

    def attend(self, q, k, v, hidden):
        mask = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        return self.soft((q * q.shape[-1] ** -0.5) @ k.mT + mask) @ v


class SequenceFirst(Style):
    """labml: ``[query, key, batch, head]`` and a softmax over dimension 1."""

    def attend(self, q, k, v, hidden):
        q, k, v = (t.permute(2, 0, 1, 3) for t in (q, k, v))
        scores = torch.einsum("ibhd,jbhd->ijbh", q, k) * q.shape[-1] ** -0.5
        mask = hidden.expand(-1, 1, -1, -1).permute(2, 3, 0, 1)
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), dim=1)
        return torch.einsum("ijbh,jbhd->ibhd", weights, v).permute(1, 2, 0, 3)


class MergedHeads(Style):
    """fairseq: ``bmm`` over batch x head, a view for the mask, softmax in float."""

    def attend(self, q, k, v, hidden):
        size = q.shape[:2]
        q, k, v = (t.flatten(0, 1) for t in (q / math.sqrt(q.shape[-1]), k, v))
        scores = torch.bmm(q, k.transpose(1, 2))
        scores = scores.view(*size, *scores.shape[1:]).masked_fill(hidden, float("-inf"))
        scores = scores.view(-1, *scores.shape[2:])
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return torch.bmm(weights, v).view(*size, -1, v.shape[-1])


class EinsumWhere(Style):
    def attend(self, q, k, v, hidden):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = torch.where(hidden, torch.finfo(scores.dtype).min, scores)
        return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(scores, dim=-1), v)


class Fused(Style):
    """nanoGPT: PyTorch's fused attention with a boolean mask."""

    def attend(self, q, k, v, hidden):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)


class FusedFloatMask(Style):
    def attend(self, q, k, v, hidden):
        mask = torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(torch.float32).min)
        return F.scaled_dot_product_attention(q, k, v, mask)


class KeysFirst(Style):
    """Keys times queries, and a softmax over the last but one dimension."""

    def attend(self, q, k, v, hidden):
        scores = (k @ q.mT) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden.mT, -1e9).softmax(-2)
        return (v.mT @ weights).mT


class HeadsLast(Style):
    """``[batch, query, head, key]``."""

    def attend(self, q, k, v, hidden):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.einsum("bqhd,bkhd->bqhk", q, k) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(hidden.transpose(1, 2), -1e9).softmax(-1)
        return torch.einsum("bqhk,bkhd->bqhd", weights, v).transpose(1, 2)


class Assigned(Style):
    """``scores[mask] = -inf`` in place."""

    def attend(self, q, k, v, hidden):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores[hidden.expand_as(scores)] = float("-inf")
        return scores.softmax(-1) @ v


class Subtracted(Style):
    """``scores - 1e4 * mask``, as the first BERT did."""

    def attend(self, q, k, v, hidden):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        return (scores - 10000.0 * hidden.float()).softmax(-1) @ v


class Baddbmm(Style):
    def attend(self, q, k, v, hidden):
        size, scale = q.shape[:2], 1 / math.sqrt(q.shape[-1])
        q, k, v = (t.flatten(0, 1) for t in (q, k, v))
        mask = torch.zeros(hidden.shape).masked_fill(hidden, float("-inf"))
        mask = mask.expand(*size, -1, -1).flatten(0, 1)
        scores = torch.baddbmm(mask, q, k.mT, alpha=scale)
        return torch.bmm(scores.softmax(-1), v).view(*size, -1, v.shape[-1])


class Exponentials(Style):
    """A softmax by hand."""

    def attend(self, q, k, v, hidden):
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, float("-inf"))
        e = torch.exp(scores - scores.amax(-1, keepdim=True))
        return (e / e.sum(-1, keepdim=True)) @ v


class CalledDirectly(MatmulFill):
    """A class that overrides ``__call__``, so that no hook would ever fire."""

    def __call__(self, x, padding):
        return self.forward(x, padding)


STYLES = (
    MatmulFill,
    ScaledQueryAdditive,
    SequenceFirst,
    MergedHeads,
    EinsumWhere,
    Fused,
    FusedFloatMask,
    KeysFirst,
    HeadsLast,
    Assigned,
    Subtracted,
    Baddbmm,
    Exponentials,
    CalledDirectly,
)


def ramp(module: nn.Module, scale: float = 1.5) -> nn.Module:
    """Fill every parameter with its own deterministic waves: ones and identities hide mistakes."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            count = torch.arange(parameter.numel(), dtype=torch.float64)
            wave = torch.sin(count * (0.7 + 0.13 * number) + number)
            size = scale / math.sqrt(parameter.shape[-1])
            parameter.copy_((wave * size).view(parameter.shape))
    return module.eval()


def example(batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """Vectors ``[batch, token, width]`` and padding: the second sentence has two padding tokens."""
    count = torch.arange(batch * TOKENS * WIDTH, dtype=torch.float64)
    x = torch.cos(count * 1.37 + (count // 5) * 0.21).float().view(batch, TOKENS, WIDTH)
    padding = torch.zeros(batch, TOKENS, dtype=torch.bool)
    if batch > 1:
        padding[1, -2:] = True
    return x, padding


def oracle(
    module: Style,
    x: Tensor,
    padding: Tensor,
    *,
    temperature: tuple[float, ...] = (1.0, 1.0),
    scale: tuple[float, ...] = (1.0, 1.0),
    window: int | None = None,
    causal: bool = True,
    keys: tuple[int, ...] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``[batch, head, query, key]`` and output ``[batch, token, width]`` in float64."""

    def linear(layer: nn.Linear, value: np.ndarray) -> np.ndarray:
        return (
            value @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        )

    inputs = x.double().numpy()
    q, k, v = (
        linear(w, inputs).reshape(len(inputs), TOKENS, HEADS, -1).transpose(0, 2, 1, 3)
        for w in (module.wq, module.wk, module.wv)
    )
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    place = np.arange(TOKENS)
    blocked = np.broadcast_to(padding.numpy()[:, None, None, :], scores.shape).copy()
    if causal:
        blocked |= place[None, :] > place[:, None]
    if window is not None:
        blocked |= np.abs(place[None, :] - place[:, None]) > window
    blocked[..., list(keys)] = True
    scores = scores / np.array(temperature)[None, :, None, None]
    scores[blocked] = -np.inf
    largest = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(largest), largest, 0))
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    weights *= np.array(scale)[None, :, None, None]
    context = np.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3)
    out = inputs + linear(module.wo, context.reshape(len(inputs), TOKENS, WIDTH))
    return weights, out
