"""One attention, written the ways people write it, and a witness in float64 for all."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

HEADS, SIZE, TOKENS, BATCH = 4, 8, 9, 3
WIDTH = HEADS * SIZE
SINK = torch.tensor((0.3, -1.0, 2.0, 0.7)).view(1, HEADS, 1, 1)
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
store: dict[str, Tensor] = {}


class Layer(nn.Module):
    """Self-attention with a residual sum.

    ``attend`` gets q, k and v ``[batch, head, token, size]`` and what is hidden
    ``[batch, 1, query, key]``; styles in `JOINED` get q, k and v as projected.
    """

    def __init__(self, attend: Attend):
        super().__init__()
        self.style, self.num_heads = attend, HEADS
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        made = (f(x).unflatten(-1, (HEADS, SIZE)) for f in (self.q, self.k, self.v))
        return tuple(y.transpose(1, 2) for y in made)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
        return self.style(q, k, v, hidden)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        if self.style in JOINED:
            return x + self.o(self.style(self.q(x), self.k(x), self.v(x), x))
        q, k, v = self.heads(x)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)[None, None]
        if padding is not None:
            hidden = hidden | padding[:, None, None, :]
        return x + self.o(self.attend(q, k, v, hidden).transpose(1, 2).flatten(2))


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * SIZE**-0.5


def additive(hidden: Tensor, low: float = -torch.inf) -> Tensor:
    return torch.zeros(hidden.shape).masked_fill(hidden, low)


# ---- hide later tokens and padding ---------------------------------------------------------------


def matmul_fill(q, k, v, hidden):
    z = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return z.masked_fill(hidden, -1e9).softmax(-1) @ v


def sequence_first(q, k, v, hidden):
    """labml: ``[query, key, batch, head]`` and a softmax over dimension 1."""
    q, k, v = (t.permute(2, 0, 1, 3) for t in (q, k, v))
    z = torch.einsum("ibhd,jbhd->ijbh", q, k) * q.shape[-1] ** -0.5
    mask = hidden.expand(q.shape[1], 1, -1, -1).permute(2, 3, 0, 1)
    weights = F.softmax(z.masked_fill(mask, float("-inf")), dim=1)
    return torch.einsum("ijbh,jbhd->ibhd", weights, v).permute(1, 2, 0, 3)


def merged_heads(q, k, v, hidden):
    """fairseq: ``bmm`` over batch x head, a view for the mask, softmax in float."""
    size = q.shape[:2]
    q, k, v = (t.flatten(0, 1) for t in (q / math.sqrt(q.shape[-1]), k, v))
    z = torch.bmm(q, k.transpose(1, 2))
    z = z.view(*size, *z.shape[1:]).masked_fill(hidden, float("-inf"))
    z = z.view(-1, *z.shape[2:])
    weights = F.softmax(z.float(), dim=-1).type_as(z)
    return torch.bmm(weights, v).view(*size, -1, v.shape[-1])


def einsum_where(q, k, v, hidden):
    z = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    z = torch.where(hidden, torch.finfo(z.dtype).min, z)
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(z, dim=-1), v)


def fused(q, k, v, hidden):
    """nanoGPT: PyTorch's fused attention with a boolean mask."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)


def fused_float_mask(q, k, v, hidden):
    mask = additive(hidden, torch.finfo(torch.float32).min)
    return F.scaled_dot_product_attention(q, k, v, mask)


def keys_first(q, k, v, hidden):
    """Keys times queries, and a softmax over the last but one dimension."""
    weights = (k @ q.mT / math.sqrt(q.shape[-1])).masked_fill(hidden.mT, -1e9).softmax(-2)
    return (v.mT @ weights).mT


def heads_last(q, k, v, hidden):
    """``[batch, query, head, key]``."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    z = torch.einsum("bqhd,bkhd->bqhk", q, k) / math.sqrt(q.shape[-1])
    weights = z.masked_fill(hidden.transpose(1, 2), -1e9).softmax(-1)
    return torch.einsum("bqhk,bkhd->bqhd", weights, v).transpose(1, 2)


def assigned(q, k, v, hidden):
    z = scores(q, k)
    z[hidden.expand_as(z)] = float("-inf")
    return z.softmax(-1) @ v


def subtracted(q, k, v, hidden):
    """``scores - 1e4 * mask``, as the first BERT did."""
    return (scores(q, k) - 10000.0 * hidden.float()).softmax(-1) @ v


def baddbmm(q, k, v, hidden):
    size, scale = q.shape[:2], 1 / math.sqrt(q.shape[-1])
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    mask = additive(hidden).expand(*size, -1, -1).flatten(0, 1)
    z = torch.baddbmm(mask, q, k.mT, alpha=scale)
    return torch.bmm(z.softmax(-1), v).view(*size, -1, v.shape[-1])


def filled_exponentials(q, k, v, hidden):
    """A softmax by hand."""
    z = scores(q, k).masked_fill(hidden, float("-inf"))
    return divided(torch.exp(z - z.amax(-1, keepdim=True)), v)


def called_directly(q, k, v, hidden):
    return matmul_fill(q, k, v, hidden)


class CalledDirectly(Layer):
    """A class that overrides ``__call__``, so that no hook would ever fire."""

    def __call__(self, x, padding=None):
        return self.forward(x, padding)


def softmax_module(q, k, v, hidden):
    raise TypeError("its layer attends")


class SoftmaxModule(Layer):
    """Queries scaled beforehand, a mask that is added, and a module for the softmax."""

    def __init__(self, attend):
        super().__init__(attend)
        self.soft = nn.Softmax(dim=-1)

    def attend(self, q, k, v, hidden):
        return self.soft((q * q.shape[-1] ** -0.5) @ k.mT + additive(hidden)) @ v


# ---- the softmax written out, and hidden later tokens --------------------------------------------


def exponentials(q: Tensor, k: Tensor) -> Tensor:
    z = scores(q, k)
    return (z - z.amax(-1, keepdim=True)).exp()


def divided(e: Tensor, v: Tensor) -> Tensor:
    return (e / e.sum(-1, keepdim=True)) @ v


def mask_multiplied(q, k, v, hidden):
    return divided(exponentials(q, k) * (~hidden).float(), v)


def mask_in_place(q, k, v, hidden):
    e = exponentials(q, k)
    e *= ~hidden
    return divided(e, v)


def mask_tril(q, k, v, hidden):
    return divided(torch.tril(exponentials(q, k)), v)


def mask_filled(q, k, v, hidden):
    return divided(exponentials(q, k).masked_fill(hidden, 0.0), v)


def mask_where(q, k, v, hidden):
    return divided(torch.where(~hidden, exponentials(q, k), 0.0), v)


def ones_masked(q, k, v, hidden):
    y = torch.tril(exponentials(q, k)) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] / y[..., -1:].clamp(min=1e-30)


def sink_masked(q, k, v, hidden):
    z = scores(q, k).masked_fill(hidden, float("-inf"))
    return torch.cat((SINK.expand(*z.shape[:3], 1), z), -1).softmax(-1)[..., 1:] @ v


def least_number(q, k, v, hidden):
    z = scores(q, k)
    return z.masked_fill(hidden, torch.finfo(z.dtype).min).softmax(-1) @ v


def mask_object(q, k, v, hidden):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(TOKENS, TOKENS))


def mask_object_left(q, k, v, hidden):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_upper_left(TOKENS, TOKENS))


# ---- nothing hidden ------------------------------------------------------------------------------


def ones_behind(q, k, v, _):
    y = exponentials(q, k) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] / y[..., -1:]


def ones_in_front(q, k, v, _):
    values = torch.cat((torch.ones_like(v[..., :1]), v), -1)
    y = torch.einsum("bhij,bhjd->bhid", exponentials(q, k), values)
    return y[..., 1:] / y[..., :1]


def sink_in_front(q, k, v, _):
    z = scores(q, k)
    return torch.cat((SINK.expand(*z.shape[:3], 1), z), -1).softmax(-1)[..., 1:] @ v


def sink_of_zero(q, k, v, _):
    return F.pad(scores(q, k), (1, 0)).softmax(-1)[..., 1:] @ v


def shared_buffer(q, k, v, _):
    z = scores(q, k)
    weights = store.setdefault("weights", torch.empty_like(z))
    torch.softmax(z, -1, out=weights)
    return weights @ v


def copied_into_buffer(q, k, v, _):
    z = scores(q, k)
    return store.setdefault("copied", torch.empty_like(z)).copy_(z.softmax(-1)) @ v


def written_over(q, k, v, _):
    weights = scores(q, k).softmax(-1)
    y = weights @ v
    weights.zero_()
    return y


def complex_values(q, k, v, _):
    values = torch.view_as_complex(v.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(scores(q, k).softmax(-1).to(values.dtype) @ values).flatten(-2)


# ---- batch and heads in another order, from the projections --------------------------------------


def split(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], HEADS, SIZE)


def joined_heads_last(q, k, v, _):
    tokens = q.shape[1]
    q, k, v = (split(x).permute(0, 2, 1, 3).reshape(-1, tokens, SIZE) for x in (q, k, v))
    w = torch.einsum("bid,bjd->bij", q, k).div(SIZE**0.5).softmax(-1)
    out = torch.einsum("bij,bjd->bid", w, v)
    return out.view(-1, HEADS, tokens, SIZE).transpose(1, 2).flatten(2)


def joined_heads_first(q, k, v, _):
    tokens = q.shape[1]
    q, k, v = (split(x).permute(2, 0, 1, 3).reshape(-1, tokens, SIZE) for x in (q, k, v))
    out = torch.bmm(torch.bmm(q, k.mT).div(SIZE**0.5).softmax(-1), v)
    return out.view(HEADS, -1, tokens, SIZE).permute(1, 2, 0, 3).flatten(2)


def chunks_joined(q, k, v, _):
    q, k, v = (torch.cat(x.chunk(HEADS, -1), 0) for x in (q, k, v))
    out = (q @ k.transpose(1, 2) / SIZE**0.5).softmax(-1) @ v
    return torch.cat(out.chunk(HEADS, 0), -1)


def chunks_stacked(q, k, v, _):
    q, k, v = (torch.stack(x.split(SIZE, -1), 1) for x in (q, k, v))
    out = (q @ k.mT / SIZE**0.5).softmax(-1) @ v
    return torch.cat([part.squeeze(1) for part in out.chunk(HEADS, 1)], -1)


def einsum_heads_first(q, k, v, _):
    w = torch.einsum("bihd,bjhd->hbij", split(q), split(k)).div(SIZE**0.5).softmax(-1)
    return torch.einsum("hbij,bjhd->bihd", w, split(v)).flatten(2)


def einsum_batch_last(q, k, v, _):
    w = torch.einsum("bihd,bjhd->ijhb", split(q), split(k)).div(SIZE**0.5).softmax(1)
    return torch.einsum("ijhb,bjhd->bihd", w, split(v)).flatten(2)


PADDED = (
    matmul_fill, softmax_module, sequence_first, merged_heads, einsum_where, fused,
    fused_float_mask, keys_first, heads_last, assigned, subtracted, baddbmm, filled_exponentials,
    called_directly,
)  # fmt: skip
CAUSAL = (
    mask_multiplied, mask_in_place, mask_tril, mask_filled, mask_where, ones_masked, sink_masked,
    least_number, mask_object, mask_object_left,
)  # fmt: skip
OPEN = (
    ones_behind, ones_in_front, sink_in_front, sink_of_zero, shared_buffer, copied_into_buffer,
    written_over, complex_values,
)  # fmt: skip
JOINED = (
    joined_heads_last, joined_heads_first, chunks_joined, chunks_stacked, einsum_heads_first,
    einsum_batch_last,
)  # fmt: skip
STYLES = (*PADDED, *CAUSAL, *OPEN, *JOINED)
SUNK = {sink_in_front: SINK, sink_masked: SINK, sink_of_zero: torch.zeros_like(SINK)}
LAYERS = {called_directly: CalledDirectly, softmax_module: SoftmaxModule}


def made(style: Attend) -> Layer:
    """A layer of a style with weights that tell its tokens apart."""
    torch.manual_seed(0)
    store.clear()
    layer = LAYERS.get(style, Layer)(style).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.25)
    return layer


def example(style: Attend, batch: int = BATCH) -> tuple[Tensor, Tensor | None]:
    """Vectors and padding: the second sentence has two padding tokens, where a style takes some."""
    x = torch.randn(batch, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    if style not in PADDED:
        return x, None
    padding = torch.zeros(batch, TOKENS, dtype=torch.bool)
    padding[1:2, -2:] = True
    return x, padding


def witness(
    layer: Layer,
    x: Tensor,
    padding: Tensor | None,
    *,
    warm: tuple[float, ...] = (1.0,) * HEADS,
    scale: tuple[float, ...] = (1.0,) * HEADS,
    radius: int | None = None,
    causal: bool = True,
    keys: tuple[int, ...] = (),
) -> tuple[Tensor, Tensor]:
    """Weights and output of one layer in plain torch, with the softmax of its masked scores."""
    q, k, v = (y.double() for y in layer.heads(x))
    place = torch.arange(TOKENS)
    seen = torch.ones(len(x), 1, TOKENS, TOKENS, dtype=torch.bool)
    if causal and layer.style in (*PADDED, *CAUSAL):
        seen = seen & (place <= place[:, None])
    if padding is not None:
        seen = seen & ~padding[:, None, None, :]
    if radius is not None:
        seen = seen & ((place[:, None] - place).abs() <= radius)
    seen[..., list(keys)] = False
    z = scores(q, k).masked_fill(~seen, float("-inf"))
    if layer.style in SUNK:
        z = torch.cat((z, SUNK[layer.style].double().expand(*z.shape[:3], 1)), -1)
    heat, gain = (torch.tensor(y, dtype=torch.float64)[:, None, None] for y in (warm, scale))
    weights = (z / heat).softmax(-1).nan_to_num(0.0)[..., :TOKENS] * gain
    joined = (weights @ v).transpose(1, 2).flatten(2)
    out = F.linear(joined, layer.o.weight.double(), layer.o.bias.double())
    return weights, x + out.float()


def ramp(module: nn.Module, scale: float = 1.5) -> nn.Module:
    """Fill every parameter with its own deterministic waves: ones and identities hide mistakes."""
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            count = torch.arange(parameter.numel(), dtype=torch.float64)
            wave = torch.sin(count * (0.7 + 0.13 * number) + number)
            size = scale / math.sqrt(parameter.shape[-1])
            parameter.copy_((wave * size).view(parameter.shape))
    return module.eval()
