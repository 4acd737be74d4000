"""The probe on torch.nn's own attention, and on modules that only look like attention."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
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


def vectors(batch: int, tokens: int, width: int) -> Tensor:
    count = torch.arange(batch * tokens * width, dtype=torch.float64)
    return torch.sin(count * 0.83 + 0.2).float().view(batch, tokens, width)


X = vectors(1, 5, 22)


def watch(module, *given, edits=(), want=FULL, **words):
    """Run a module alone, then under the probe: both outputs and what was seen."""
    with torch.inference_mode():
        plain = module(*given, **words)
        with probe(module, Intervention(edits), want) as run:
            out = module(*given, **words)
    return plain, out, run


def close(got, expected, case, atol=2e-6, rtol=0.0):
    torch.testing.assert_close(
        got, expected, atol=atol, rtol=rtol, msg=lambda text: f"{case}: {text}"
    )


def test_multihead_attention_equals_its_own_weights():
    keys = torch.zeros(3, 7, dtype=torch.bool)
    keys[1, 5:] = True
    later = torch.ones(5, 7, dtype=torch.bool).triu(3)
    masks = {
        "none": {},
        "bool": {"attn_mask": later},
        "float": {"attn_mask": torch.zeros(5, 7).masked_fill(later, float("-inf"))},
        "padding": {"key_padding_mask": keys},
        "causal": {"attn_mask": later, "key_padding_mask": keys},
        "bias": {
            "attn_mask": vectors(1, 5, 7)[0],
            "key_padding_mask": torch.zeros(3, 7).masked_fill(keys, float("-inf")),
        },
    }
    for case in itertools.product(masks, (True, False), (True, False)):
        mask, batch_first, need_weights = case
        module = ramp(nn.MultiheadAttention(22, 2, batch_first=batch_first))
        x, y = vectors(3, 5, 22), vectors(3, 7, 22)
        if not batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        with torch.inference_mode():
            expected, weights = module(x, y, y, average_attn_weights=False, **masks[mask])
        _, (out, _), run = watch(module, x, y, y, need_weights=need_weights, **masks[mask])
        (record,) = run.attentions
        assert record.kind == "cross", case
        close(record.weights, weights, case)
        close(out, expected, case)
        assert record.rebuilt is not None and record.rebuilt < 2e-6, case
        assert record.q.shape == (3, 2, 5, 11), case
        assert record.k.shape == record.v.shape == (3, 2, 7, 11), case
    module, x = ramp(nn.MultiheadAttention(22, 2)), X[0]  # without a batch
    with torch.inference_mode():
        expected, weights = module(x, x, x, average_attn_weights=False)
    _, (out, _), run = watch(module, x, x, x, want=None, need_weights=False)
    (record,) = run.attentions
    assert record.weights.shape == (1, 2, 5, 5) and record.kind == "self"
    close(record.weights[0], weights, "no batch")
    close(out, expected, "no batch")


def test_encoder_is_seen_though_it_has_a_fast_path():
    for case in itertools.product((True, False), repeat=2):
        words = dict(zip(("norm_first", "batch_first"), case, strict=True))
        layer = nn.TransformerEncoderLayer(22, 2, 29, dropout=0.1, **words)
        module = ramp(nn.TransformerEncoder(layer, 3, enable_nested_tensor=False))
        plain, out, run = watch(module, X if case[1] else X.transpose(0, 1))
        close(out, plain, case, 5e-6, 1e-5)
        places = [(r.stack, r.kind, r.layer) for r in run.attentions]
        assert places == [("encoder", "self", layer) for layer in range(3)], case
        assert len(run.norms) == 6 and len(run.residuals) == 7, case
        assert all(r.rebuilt < 2e-6 for r in run.attentions), case


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_whole_transformer():
    x, y = vectors(1, 7, 22), X + 0.1
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    sites = "encoder L0,encoder L1,encoder L2,decoder L0,cross L0,decoder L1,cross L1"
    words = {"tgt_mask": mask, "tgt_is_causal": True}
    for norm_first in (True, False):
        sizes = {"norm_first": norm_first, "batch_first": True, "dropout": 0.0}
        module = ramp(nn.Transformer(22, 2, 3, 2, 29, **sizes))
        plain, out, run = watch(module, x, y, **words)
        lift = (Causal(on=False),)
        _, free, lifted = watch(module, x, y, edits=lift, want=None, **words)
        with torch.inference_mode():
            close(free, module(x, y), norm_first, 5e-6, 1e-5)
        close(out, plain, norm_first, 5e-6, 1e-5)
        for seen in (run, lifted):
            assert ",".join(map(str, seen.sites)) == sites, norm_first
        later = torch.ones(5, 5, dtype=torch.bool).triu(1)
        decoder = [r for r in run.attentions if r.stack == "decoder" and r.kind == "self"]
        assert all((r.weights[..., later] == 0).all() for r in decoder)
        assert {n.stack for n in run.norms if n.stack} == {"encoder", "decoder"}
    module = ramp(nn.Transformer(22, 2, 1, 1, 29, batch_first=True))
    *_, run = watch(module, X, X)  # source and target may be one tensor
    assert [str(site) for site in run.sites] == ["encoder L0", "decoder L0", "cross L0"]


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, q, k, v, **words):
        return F.scaled_dot_product_attention(q, k, v, **words)


def test_fused_attention_in_every_form():
    hidden = torch.zeros(5, 5, dtype=torch.bool)
    hidden[2, 1] = hidden[3] = True  # one row sees nothing
    masks = {
        "none": None,
        "bool": ~hidden,
        "float": torch.where(hidden, float("-inf"), 0.25 * vectors(1, 5, 5)[0]),
    }
    q = vectors(12, 5, 11).view(2, 6, 5, 11)
    for case in itertools.product((False, True), (1, 3), masks, (None, 0.3)):
        causal, groups, mask, scale = case
        k = vectors(4 * 3 // groups, 5, 11).view(2, 6 // groups, 5, 11)
        words: dict = {"is_causal": causal, "scale": scale, "enable_gqa": groups > 1}
        if mask != "none" and not causal:
            words["attn_mask"] = masks[mask]
        expected, out, run = watch(Attend(), q, k, k * 2, want=None, **words)
        assert torch.equal(out, expected), case  # the kernel itself gave it
        (record,) = run.attentions
        close(record.weights @ (k * 2).repeat_interleave(groups, 1), expected, case)
        assert run.replaced == [], case


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


def test_a_router_is_no_attention():
    for how, tokens in itertools.product(("einsum", "matmul", "multiply"), (5, 3, 1)):
        module, x = ramp(Mixture(how)), vectors(1, tokens, 22)
        plain, out, run = watch(module, x, want=None)
        *_, edited = watch(module, x, edits=(Temperature(value=2.0),), want=None)
        close(out, plain, (how, tokens))
        for seen in (run, edited):
            assert [r.path for r in seen.attentions] == ["attention"], (how, tokens)


class HeadByHead(nn.Module):
    """Two blocks whose heads are modules, joined at the end, as lecture code does it."""

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
    *_, run = watch(module, X, want=None)
    plain, out, silent = watch(module, X, edits=(ScaleHead(value=0.0, layer=1, head=1),), want=None)
    with torch.inference_mode():
        middle = module.blocks[0](X)
        joined = torch.cat([module.blocks[1].heads[0](middle), torch.zeros(1, 5, 11)], dim=-1)
        expected = middle + module.blocks[1].proj(joined)
    places = [(str(r.site), r.heads) for r in run.attentions]
    assert places == [("decoder L0", 2), ("decoder L1", 2)]
    assert run.attentions[0].weights.shape == (1, 2, 5, 5)
    close(out, expected, "a silent head")
    assert (silent.attentions[1].weights[:, 1] == 0).all() and not torch.equal(out, plain)


class Unusual(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how, self.num_heads = how, 2
        self.qkv, self.out = nn.Linear(22, 66), nn.Linear(22, 22)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 11).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-2, -1) / math.sqrt(11)
        if self.how == "linear":
            return x + self.out((q @ (k.transpose(-2, -1) @ v)).transpose(1, 2).reshape(b, t, 22))
        w = torch.sigmoid(s) if self.how == "sigmoid" else F.relu(s).square() / t
        return x + self.out((w @ v).transpose(1, 2).reshape(b, t, 22))


def test_attention_without_softmax_is_custom():
    for how in ("sigmoid", "squared relu"):
        module = ramp(Unusual(how))
        *_, run = watch(module, X, want=None)
        _, out, off = watch(module, X, edits=(ScaleHead(value=0.0),), want=None)
        with pytest.raises(ValueError, match="is no softmax and its rows do not sum to 1"):
            watch(module, X, edits=(Temperature(value=2.0),), want=None)
        assert [r.form for r in run.attentions] == ["custom"], how
        assert (off.attentions[0].weights == 0).all(), how
        close(out, X + module.out.bias, how)
    *_, run = watch(ramp(Unusual("linear")), X, want=None)
    assert not run.attentions and "no attention was seen" in run.unrecognised[0]


def test_a_residual_can_be_cut_and_an_edit_without_a_place_names_the_places():
    layer = nn.TransformerEncoderLayer(22, 2, 29, norm_first=True, batch_first=True)
    module = ramp(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    cut = ScaleResidual(value=0.0, layer=1, block="feed_forward")
    _, out, _ = watch(module, X, edits=(cut,), want=None)
    with torch.inference_mode():
        one, two = module.layers[0](X), module.layers[1]
        y = two.norm1(one)
        middle = one + two.self_attn(y, y, y, need_weights=False)[0]
        expected = two.linear2(F.relu(two.linear1(two.norm2(middle))))
    close(out, expected, "cut", 5e-6, 1e-5)
    module = ramp(nn.MultiheadAttention(22, 2, batch_first=True))
    edit = Temperature(value=2.0, stack="decoder", block="cross", layer=4)
    with pytest.raises(ValueError, match=r"cross L4: temperature 2.*it has encoder L0 \(2 heads\)"):
        watch(module, X, X, X, edits=(edit,), want=None)


def test_output_projections_in_other_layouts_and_in_parts() -> None:
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
    # A projection in parts is not checked rather than guessed.
    *_, run = watch(ramp(Experts()), torch.linspace(-1, 1, 70).view(1, 5, 14))
    assert [record.rebuilt for record in run.attentions] == [None]


class Experts(nn.Module):
    """One attention whose result is cut in two, each half with a projection of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.halves = nn.Linear(14, 42), nn.ModuleList(nn.Linear(14, 14) for _ in "ab")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part[:, None] for part in self.inner(x).chunk(3, -1))
        made = (torch.softmax(q @ k.transpose(-2, -1), -1) @ v)[:, 0]
        first, second = made.split([2, 3], dim=1)
        return x + torch.cat((self.halves[0](first), self.halves[1](second)), 1)
