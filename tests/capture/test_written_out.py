"""Attentions written out in unusual ways: maps and edits against plain torch on their weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from transformer_viz.capture import probe
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    ScaleHead,
    Temperature,
    Window,
)

HEADS, WIDTH, TOKENS = 4, 8, 9
SINK = torch.tensor((0.3, -1.0, 2.0, 0.7)).view(1, HEADS, 1, 1)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
store: dict[str, Tensor] = {}


class Layer(nn.Module):
    """Self-attention whose ``attend`` gets q, k and v ``[batch, head, token, width]``."""

    def __init__(self, attend: Attend):
        super().__init__()
        self.attend = attend
        self.q, self.k, self.v, self.o = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> tuple[Tensor, ...]:
        made = (f(x).unflatten(-1, (HEADS, WIDTH)) for f in (self.q, self.k, self.v))
        return tuple(y.transpose(1, 2) for y in made)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.o(self.attend(*self.heads(x)).transpose(1, 2).flatten(2))


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT * WIDTH**-0.5


def lower(z: Tensor) -> Tensor:
    return torch.ones(z.shape[-2:], dtype=torch.bool).tril()


def exponentials(q: Tensor, k: Tensor) -> Tensor:
    z = scores(q, k)
    return (z - z.amax(-1, keepdim=True)).exp()


def divided(e: Tensor, v: Tensor) -> Tensor:
    return (e / e.sum(-1, keepdim=True)) @ v


def mask_multiplied(q, k, v):
    e = exponentials(q, k)
    return divided(e * lower(e).float(), v)


def mask_in_place(q, k, v):
    e = exponentials(q, k)
    e *= lower(e)
    return divided(e, v)


def mask_tril(q, k, v):
    return divided(torch.tril(exponentials(q, k)), v)


def mask_filled(q, k, v):
    e = exponentials(q, k)
    return divided(e.masked_fill(~lower(e), 0.0), v)


def mask_where(q, k, v):
    e = exponentials(q, k)
    return divided(torch.where(lower(e), e, 0.0), v)


def ones_behind(q, k, v):
    y = exponentials(q, k) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] / y[..., -1:]


def ones_in_front(q, k, v):
    y = torch.einsum(
        "bhij,bhjd->bhid", exponentials(q, k), torch.cat((torch.ones_like(v[..., :1]), v), -1)
    )
    return y[..., 1:] / y[..., :1]


def ones_masked(q, k, v):
    y = torch.tril(exponentials(q, k)) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] / y[..., -1:].clamp(min=1e-30)


def sink_in_front(q, k, v):
    z = scores(q, k)
    return torch.cat((SINK.expand(*z.shape[:3], 1), z), -1).softmax(-1)[..., 1:] @ v


def sink_masked(q, k, v):
    z = scores(q, k)
    z = z.masked_fill(~lower(z), float("-inf"))
    return torch.cat((SINK.expand(*z.shape[:3], 1), z), -1).softmax(-1)[..., 1:] @ v


def sink_of_zero(q, k, v):
    return F.pad(scores(q, k), (1, 0)).softmax(-1)[..., 1:] @ v


def least_number(q, k, v):
    z = scores(q, k)
    return z.masked_fill(~lower(z), torch.finfo(z.dtype).min).softmax(-1) @ v


def shared_buffer(q, k, v):
    z = scores(q, k)
    weights = store.setdefault("weights", torch.empty_like(z))
    torch.softmax(z, -1, out=weights)
    return weights @ v


def copied_into_buffer(q, k, v):
    z = scores(q, k)
    return store.setdefault("copied", torch.empty_like(z)).copy_(z.softmax(-1)) @ v


def written_over(q, k, v):
    weights = scores(q, k).softmax(-1)
    y = weights @ v
    weights.zero_()
    return y


def mask_object(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(TOKENS, TOKENS))


def mask_object_left(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_upper_left(TOKENS, TOKENS))


def complex_values(q, k, v):
    z, values = scores(q, k), torch.view_as_complex(v.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z.softmax(-1).to(values.dtype) @ values).flatten(-2)


#: Those whose rows see no later key, and the scores that stand beside the words.
LATER = {mask_multiplied, mask_in_place, mask_tril, mask_filled, mask_where, ones_masked}
LATER |= {sink_masked, least_number, mask_object, mask_object_left}
SUNK = {sink_in_front: SINK, sink_masked: SINK, sink_of_zero: torch.zeros_like(SINK)}
EITHER = (
    ones_behind, ones_in_front, sink_in_front, sink_of_zero,
    shared_buffer, copied_into_buffer, written_over, complex_values,
)  # fmt: skip
STYLES = (*sorted(LATER, key=lambda f: f.__name__), *EITHER)
EDITS = {
    "clean": (None, {}),
    "temperature": (Temperature(value=2.5), {"warm": 2.5}),
    "head off": (ScaleHead(value=0.0, head=1), {"off": 1}),
    "hidden key": (BlockKeys(keys=(2,)), {"key": 2}),
    "window": (Window(radius=1), {"radius": 1}),
    "causal off": (Causal(on=False), {"causal": False}),
}


def witness(
    layer: Layer, x: Tensor, warm=1.0, off=None, key=None, radius=None, causal=True
) -> tuple[Tensor, Tensor]:
    """Weights and output of one layer in plain torch, with the softmax of its masked scores."""
    q, k, v = (y.double() for y in layer.heads(x))
    seen = lower(q @ k.mT) if causal and layer.attend in LATER else torch.ones(TOKENS, TOKENS) > 0
    if key is not None:
        seen = seen & (torch.arange(TOKENS) != key)
    if radius is not None:
        places = torch.arange(TOKENS)
        seen = seen & ((places[:, None] - places).abs() <= radius)
    z = scores(q, k).masked_fill(~seen, float("-inf"))
    if layer.attend in SUNK:
        z = torch.cat((z, SUNK[layer.attend].double().expand(*z.shape[:3], 1)), -1)
    weights = (z / warm).softmax(-1).nan_to_num(0.0)[..., :TOKENS]
    if off is not None:
        weights[:, off] = 0.0
    joined = (weights @ v).transpose(1, 2).flatten(2)
    return weights, x + F.linear(joined, layer.o.weight.double(), layer.o.bias.double()).float()


def test_two_layers_show_and_edit_what_plain_torch_gives() -> None:
    for style in STYLES:
        torch.manual_seed(0)
        store.clear()
        layers = nn.Sequential(Layer(style), Layer(style)).eval()
        for p in layers.parameters():
            nn.init.normal_(p, std=0.25)
        x = torch.randn(2, TOKENS, HEADS * WIDTH)
        with torch.no_grad():
            plain = layers(x)
            for name, (edit, words) in EDITS.items():
                case = style.__name__, name
                with probe(layers, Intervention(() if edit is None else (edit,))) as run:
                    got = layers(x)
                first, between = witness(layers[0], x, **words)
                second, expected = witness(layers[1], between, **words)
                for record, wanted in zip(run.attentions, (first, second), strict=True):
                    gap = float((record.weights - wanted).abs().max())
                    assert gap < 1e-5, (case, record.path)
                assert torch.allclose(got, expected, atol=1e-4), case
                assert not run.unrecognised, case
                assert edit is not None or torch.equal(got, plain), case


def sparse_softmax(q, k, v):
    flat = scores(q, k).flatten(0, 2)
    return torch.sparse.softmax(flat.to_sparse(), 1).to_dense().view(*q.shape[:3], -1) @ v


def complex_weights(q, k, v):
    z = scores(q, k)
    weights = z.softmax(-1) * torch.exp(1j * z)
    return (weights @ v.to(weights.dtype)).real


def never_divided(q, k, v):
    y = exponentials(q, k) @ F.pad(v, (0, 1), value=1.0)
    return y[..., :-1] + y[..., -1:]


def test_what_has_no_map_is_said_and_the_output_stays() -> None:
    for style in (sparse_softmax, complex_weights, never_divided):
        torch.manual_seed(0)
        layer, x = Layer(style).eval(), torch.randn(1, TOKENS, HEADS * WIDTH)
        with torch.no_grad():
            plain = layer(x)
            with probe(layer) as run:
                got = layer(x)
            assert torch.equal(got, plain) and not run.attentions, style
            assert len(run.unrecognised) == 1, run.unrecognised
            with pytest.raises(ValueError), probe(layer, Intervention((Temperature(value=2.0),))):
                layer(x)


class Windows(Layer):
    """Windows of 3 queries that look at 5 keys, with batch, windows and heads on one axis."""

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        asks = x.view(-1, 3, width)
        told = F.pad(x, (0, 0, 1, 1)).unfold(1, 5, 3).mT.reshape(-1, 5, width)
        q, k, v = (
            f(y).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2).flatten(0, 1)
            for f, y in ((self.q, asks), (self.k, told), (self.v, told))
        )
        z = torch.einsum("bid,bjd->bij", q, k) * WIDTH**-0.5
        y = torch.einsum("bij,bjd->bid", z.softmax(-1), v).unflatten(0, (-1, HEADS))
        return self.o(y.transpose(1, 2).flatten(2).view(batch, tokens, width))


def test_heads_beside_windows_are_heads() -> None:
    torch.manual_seed(0)
    layer, x = Windows(written_over).eval(), torch.randn(2, TOKENS, HEADS * WIDTH)
    with torch.no_grad(), probe(layer) as run:
        layer(x)
    padded = F.pad(x, (0, 0, 1, 1))
    for item in range(2):
        for window in range(3):
            part, told = x[item, 3 * window :][:3], padded[item, 3 * window :][:5]
            q, k = layer.q(part).view(3, HEADS, -1), layer.k(told).view(5, HEADS, -1)
            wanted = scores(q.transpose(0, 1), k.transpose(0, 1)).softmax(-1)
            got = run.attentions[0].weights[3 * item + window]
            assert torch.allclose(got, wanted, atol=1e-6), (item, window)


class Towers(nn.Module):
    """Two stacks of two layers on one input, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = (
            nn.Sequential(Layer(written_over), Layer(written_over)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.left(x), self.right(x)), -1)


def test_the_layers_of_a_second_tower_are_counted_on_in_each_pass() -> None:
    module, x = Towers(), torch.randn(1, TOKENS, HEADS * WIDTH)
    with torch.no_grad(), probe(module) as run:
        module(x)
        module(x)
    assert [record.layer for record in run.attentions] == [0, 1, 2, 3] * 2
