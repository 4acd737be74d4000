"""The probe on torch.nn's own attention, and on modules that only look like attention."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.capture.handlers.projection_check import chained
from transformer_viz.core.interventions import (
    Causal,
    Intervention,
    ScaleHead,
    ScaleResidual,
    Temperature,
)

from .styles import ramp

FULL = CaptureRequest(check=True, scores=lambda s: True, qkv=lambda s: True)


def vectors(batch: int, tokens: int, width: int) -> torch.Tensor:
    count = torch.arange(batch * tokens * width, dtype=torch.float64)
    return torch.sin(count * 0.83 + 0.2).float().view(batch, tokens, width)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "bool", "float", "padding", "causal", "bias"])
def test_multihead_attention_equals_its_own_weights(mask, batch_first, need_weights):
    module = ramp(nn.MultiheadAttention(22, 2, batch_first=batch_first))
    x, y = vectors(3, 5, 22), vectors(3, 7, 22)
    if not batch_first:
        x, y = x.transpose(0, 1), y.transpose(0, 1)
    keys = torch.zeros(3, 7, dtype=torch.bool)
    keys[1, 5:] = True
    later = torch.ones(5, 7, dtype=torch.bool).triu(3)
    words = {
        "none": {},
        "bool": {"attn_mask": later},
        "float": {"attn_mask": torch.zeros(5, 7).masked_fill(later, float("-inf"))},
        "padding": {"key_padding_mask": keys},
        "causal": {"attn_mask": later, "key_padding_mask": keys},
        "bias": {
            "attn_mask": vectors(1, 5, 7)[0],
            "key_padding_mask": torch.zeros(3, 7).masked_fill(keys, float("-inf")),
        },
    }[mask]
    with torch.inference_mode():
        expected, weights = module(x, y, y, average_attn_weights=False, **words)
        with probe(module, want=FULL) as run:
            out, _ = module(x, y, y, need_weights=need_weights, **words)
    (record,) = run.attentions
    assert record.kind == "cross"
    torch.testing.assert_close(record.weights, weights, atol=2e-6, rtol=0)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=0)
    assert record.rebuilt is not None and record.rebuilt < 2e-6
    assert record.q.shape == (3, 2, 5, 11) and record.k.shape == record.v.shape == (3, 2, 7, 11)


def test_multihead_attention_without_a_batch():
    module = ramp(nn.MultiheadAttention(22, 2))
    x = vectors(1, 5, 22)[0]
    with torch.inference_mode():
        expected, weights = module(x, x, x, average_attn_weights=False)
        with probe(module) as run:
            out, _ = module(x, x, x, need_weights=False)
    (record,) = run.attentions
    assert record.weights.shape == (1, 2, 5, 5) and record.kind == "self"
    torch.testing.assert_close(record.weights[0], weights, atol=2e-6, rtol=0)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_encoder_is_seen_though_it_has_a_fast_path(norm_first, batch_first):
    layer = nn.TransformerEncoderLayer(
        22, 2, 29, norm_first=norm_first, batch_first=batch_first, dropout=0.1
    )
    module = ramp(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))
    x = vectors(1, 5, 22) if batch_first else vectors(1, 5, 22).transpose(0, 1)
    with torch.inference_mode():
        plain = module(x)
        with probe(module, want=FULL) as run:
            out = module(x)
    torch.testing.assert_close(out, plain, atol=5e-6, rtol=1e-5)
    assert [(r.stack, r.kind, r.layer) for r in run.attentions] == [
        ("encoder", "self", layer) for layer in range(3)
    ]
    assert len(run.norms) == 6 and len(run.residuals) == 7
    assert all(r.rebuilt < 2e-6 for r in run.attentions)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [True, False])
def test_whole_transformer(norm_first):
    module = ramp(
        nn.Transformer(22, 2, 3, 2, 29, norm_first=norm_first, batch_first=True, dropout=0.0)
    )
    x, y = vectors(1, 7, 22), vectors(1, 5, 22) + 0.1
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.inference_mode():
        plain = module(x, y, tgt_mask=mask, tgt_is_causal=True)
        with probe(module, want=FULL) as run:
            out = module(x, y, tgt_mask=mask, tgt_is_causal=True)
        with probe(module, Intervention((Causal(on=False),))) as lifted:
            free = module(x, y, tgt_mask=mask, tgt_is_causal=True)
        expected = module(x, y)
    torch.testing.assert_close(out, plain, atol=5e-6, rtol=1e-5)
    torch.testing.assert_close(free, expected, atol=5e-6, rtol=1e-5)
    assert [str(site) for site in run.sites] == [
        "encoder L0",
        "encoder L1",
        "encoder L2",
        "decoder L0",
        "cross L0",
        "decoder L1",
        "cross L1",
    ]
    assert [str(site) for site in lifted.sites] == [str(site) for site in run.sites]
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    decoder = [r for r in run.attentions if r.stack == "decoder" and r.kind == "self"]
    assert all((r.weights[..., later] == 0).all() for r in decoder)
    assert {n.stack for n in run.norms if n.stack} == {"encoder", "decoder"}


def test_source_and_target_may_be_one_tensor():
    module = ramp(nn.Transformer(22, 2, 1, 1, 29, batch_first=True))
    x = vectors(1, 5, 22)
    with torch.inference_mode(), probe(module) as run:
        module(x, x)
    assert [str(site) for site in run.sites] == ["encoder L0", "decoder L0", "cross L0"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_fused_attention_in_every_form(causal, groups, mask, scale):
    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, q, k, v, **words):
            return F.scaled_dot_product_attention(q, k, v, **words)

    q, k = vectors(12, 5, 11).view(2, 6, 5, 11), vectors(4 * 3 // groups, 5, 11)
    k = k.view(2, 6 // groups, 5, 11)
    words: dict = {"is_causal": causal, "scale": scale, "enable_gqa": groups > 1}
    if mask != "none" and not causal:
        hidden = torch.zeros(5, 5, dtype=torch.bool)
        hidden[2, 1] = hidden[3] = True  # one row sees nothing
        float_mask = torch.where(hidden, float("-inf"), 0.25 * vectors(1, 5, 5)[0])
        words["attn_mask"] = ~hidden if mask == "bool" else float_mask
    module = Attend()
    with torch.inference_mode():
        expected = F.scaled_dot_product_attention(q, k, k * 2, **words)
        with probe(module) as run:
            out = module(q, k, k * 2, **words)
    assert torch.equal(out, expected)  # the kernel itself gave it
    (record,) = run.attentions
    weights = record.weights @ (k * 2).repeat_interleave(groups, 1)
    torch.testing.assert_close(weights, expected, atol=2e-6, rtol=0)
    assert run.replaced == []


class Mixture(nn.Module):
    """Attention, then experts mixed by a router whose softmax is no attention."""

    def __init__(self, how: str):
        super().__init__()
        self.how, self.num_heads = how, 2
        self.attention = nn.MultiheadAttention(22, 2, batch_first=True)
        self.router = nn.Linear(22, 3)
        self.experts = nn.ModuleList(nn.Linear(22, 22) for _ in range(3))
        self.output = nn.Linear(22, 17)

    def forward(self, x):
        x = x + self.attention(x, x, x, need_weights=False)[0]
        gate = torch.softmax(self.router(x), dim=-1)
        each = torch.stack([expert(x) for expert in self.experts], dim=-2)
        if self.how == "einsum":
            mixed = torch.einsum("bte,bted->btd", gate, each)
        elif self.how == "matmul":
            mixed = (gate.unsqueeze(-2) @ each).squeeze(-2)
        else:
            mixed = (gate.unsqueeze(-1) * each).sum(-2)
        return torch.softmax(self.output(x + mixed), dim=-1)


@pytest.mark.parametrize("tokens", [5, 3, 1])
@pytest.mark.parametrize("how", ["einsum", "matmul", "multiply"])
def test_a_router_is_no_attention(how, tokens):
    module = ramp(Mixture(how))
    x = vectors(1, tokens, 22)
    with torch.inference_mode():
        plain = module(x)
        with probe(module) as run:
            out = module(x)
        with probe(module, Intervention((Temperature(value=2.0),))) as edited:
            module(x)
    torch.testing.assert_close(out, plain, atol=2e-6, rtol=0)
    assert [r.path for r in run.attentions] == [r.path for r in edited.attentions] == ["attention"]


class HeadByHead(nn.Module):
    """Every head a module of its own, outputs joined at the end, as lecture code does it."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(22, 11, bias=False) for _ in range(3))
            self.register_buffer("tril", torch.tril(torch.ones(16, 16)))

        def forward(self, x):
            t = x.shape[1]
            w = self.query(x) @ self.key(x).transpose(-2, -1) * 11**-0.5
            w = w.masked_fill(self.tril[:t, :t] == 0, float("-inf"))
            return F.softmax(w, dim=-1) @ self.value(x)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(HeadByHead.Head() for _ in range(2))
            self.proj = nn.Linear(22, 22)

        def forward(self, x):
            return x + self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(HeadByHead.Block(), HeadByHead.Block())

    def forward(self, x):
        return self.blocks(x)


def test_heads_that_are_modules_become_one_attention():
    module = ramp(HeadByHead())
    x = vectors(1, 5, 22)
    off = Intervention((ScaleHead(value=0.0, layer=1, head=1),))
    with torch.inference_mode():
        with probe(module) as run:
            plain = module(x)
        with probe(module, off) as silent:
            out = module(x)
        middle = module.blocks[0](x)
        joined = torch.cat([module.blocks[1].heads[0](middle), torch.zeros(1, 5, 11)], dim=-1)
        expected = middle + module.blocks[1].proj(joined)
    assert [(str(r.site), r.heads) for r in run.attentions] == [
        ("decoder L0", 2),
        ("decoder L1", 2),
    ]
    assert run.attentions[0].weights.shape == (1, 2, 5, 5)
    torch.testing.assert_close(out, expected, atol=2e-6, rtol=0)
    assert (silent.attentions[1].weights[:, 1] == 0).all()
    assert not torch.equal(out, plain)


class Unusual(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how, self.num_heads = how, 2
        self.qkv, self.out = nn.Linear(22, 66), nn.Linear(22, 22)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 11).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-2, -1) / math.sqrt(11)
        if self.how == "sigmoid":
            w = torch.sigmoid(s)
        elif self.how == "squared relu":
            w = F.relu(s).square() / t
        elif self.how == "linear":
            return x + self.out((q @ (k.transpose(-2, -1) @ v)).transpose(1, 2).reshape(b, t, 22))
        return x + self.out((w @ v).transpose(1, 2).reshape(b, t, 22))


@pytest.mark.parametrize("how", ["sigmoid", "squared relu"])
def test_attention_without_softmax_is_custom(how):
    module = ramp(Unusual(how))
    x = vectors(1, 5, 22)
    with torch.inference_mode():
        with probe(module) as run:
            module(x)
        with probe(module, Intervention((ScaleHead(value=0.0),))) as off:
            out = module(x)
        warm = probe(module, Intervention((Temperature(value=2.0),)))
        with pytest.raises(ValueError, match="is no softmax and its rows do not sum to 1"), warm:
            module(x)
    assert [r.form for r in run.attentions] == ["custom"]
    assert (off.attentions[0].weights == 0).all()
    torch.testing.assert_close(out, x + module.out.bias, atol=2e-6, rtol=0)


def test_linear_attention_says_that_there_is_nothing_to_see():
    module = ramp(Unusual("linear"))
    with torch.inference_mode(), probe(module) as run:
        module(vectors(1, 5, 22))
    assert not run.attentions and "no attention was seen" in run.unrecognised[0]


def test_a_residual_can_be_cut():
    layer = nn.TransformerEncoderLayer(22, 2, 29, norm_first=True, batch_first=True)
    module = ramp(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    x = vectors(1, 5, 22)
    cut = Intervention((ScaleResidual(value=0.0, layer=1, block="feed_forward"),))
    with torch.inference_mode():
        with probe(module, cut):
            out = module(x)
        one = module.layers[0](x)
        two = module.layers[1]
        y = two.norm1(one)
        middle = one + two.self_attn(y, y, y, need_weights=False)[0]
        expected = two.linear2(F.relu(two.linear1(two.norm2(middle))))
    torch.testing.assert_close(out, expected, atol=5e-6, rtol=1e-5)


def test_an_edit_without_a_place_names_the_places():
    module = ramp(nn.MultiheadAttention(22, 2, batch_first=True))
    x = vectors(1, 5, 22)
    edit = Temperature(value=2.0, stack="decoder", block="cross", layer=4)
    words = r"cross L4: temperature 2.*it has encoder L0 \(2 heads\)"
    with pytest.raises(ValueError, match=words), probe(module, Intervention((edit,))):
        module(x, x, x)


def test_a_kernel_may_lay_its_output_out_as_it_likes() -> None:
    """Those of a graphics card give rows first, so that a later view takes no copy; weights x v,
    which are checked against it, are laid out heads first."""
    given = torch.randn(5, 3, 2, 11).permute(1, 2, 0, 3)  # [batch, head, token, width]
    rows_first = given.permute(2, 0, 1, 3)
    joined = rows_first.view(15, 22)
    chain = [
        (torch.Tensor.permute, (given, 2, 0, 1, 3), {}),
        (torch.Tensor.view, (rows_first, 15, 22), {}),
    ]
    again = chained(SimpleNamespace(chain=chain), given.contiguous().double())
    assert again.dtype == torch.float64 and torch.equal(again.float(), joined)
