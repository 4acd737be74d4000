"""Reads of attention weights besides the weighted sum, and texts longer than the first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from tests.foreign.blind_spots import MODEL, Attention, Model, plain

from .test_pairs import counted, status_of, words

DILATION = 16


def weights(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1)


def twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = weights(q, k)
    return w @ (w @ v)


def gated_by_entropy(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = weights(q, k)
    sharp = (w * w.clamp(min=1e-9).log()).sum(-1).mean(-1)[..., None, None]
    return torch.sigmoid(sharp) * (w @ v)


def scaled_by_received(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = weights(q, k)
    return (w @ v) * w.sum(-2)[..., None]


def two_value_streams(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = weights(q, k)
    return w @ v + w @ torch.tanh(v)


def renormalised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = weights(q, k)
    return (w / w.sum(-1, keepdim=True)) @ v


def with_distances(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Add a vector for each distance to the values (Shaw et al. 2018)."""
    w, draw = weights(q, k), torch.Generator().manual_seed(0)
    distances = torch.randn(k.shape[2], k.shape[2], v.shape[-1], generator=draw)
    return w @ v + torch.einsum("bhqk,qkd->bhqd", w, distances)


class KeepsWeights(Attention):
    """An attention that returns its mean weights beside its output."""

    def __init__(self, unused: object = plain):
        super().__init__()
        self.attention = nn.MultiheadAttention(MODEL, 4, batch_first=True)

    def inner(self, x: Tensor) -> Tensor:
        out, self.__dict__["mean"] = self.attention(x, x, x)
        return out


class Reused(Model):
    """A model whose second block weighs its own values by the weights of the first one."""

    def __init__(self):
        super().__init__(Attention(self.first), Attention(self.second))

    def first(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.__dict__["weights"] = weights(q, k)
        return self.weights @ v

    def second(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weights @ v


READS = (twice, gated_by_entropy, scaled_by_received)
SOUND = (two_value_streams, renormalised, with_distances)


def test_weights_that_reach_rows_in_another_way_are_never_green():
    models = {one.__name__: lambda one=one: Model(Attention(), Attention(one)) for one in READS}
    faults = {*models, "reused"}
    models |= {one.__name__: lambda one=one: Model(Attention(), Attention(one)) for one in SOUND}
    models |= {"reused": Reused, "mean returned": lambda: Model(Attention(), KeepsWeights())}
    for name, make in models.items():
        torch.manual_seed(0)
        loaded = tv.load(make().eval())
        for count in (12, 9):
            report = tv.trace(loaded, words(count)).report
            case = name, count, report.untold, report.broken
            told = [line for line in report.untold if "its weights" in line]
            assert report.status == ("amber" if name in faults else "green"), case
            where = "L0" if name == "reused" else "L1"
            assert len(told) == (name in faults), case
            assert all(line.startswith(f"encoder {where}") for line in told), case


def dilated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Look at keys in the order of a dilated window: that of the words where they are few."""
    order = torch.arange(k.shape[2])
    order = order[(order % DILATION).argsort(stable=True)]
    return plain(q, k[:, :, order], v[:, :, order])


def word_before(part: Attention, x: Tensor) -> Tensor:
    """Add the word that stands `DILATION` words before; none in a short text."""
    return part.inner(x) + F.pad(x, (0, 0, DILATION, 0))[:, : x.shape[1]]


def test_faults_that_a_short_text_cannot_show_are_seen_on_a_longer_one():
    for part in (lambda: Attention(dilated), lambda: Attention(around=word_before)):
        torch.manual_seed(0)
        last = part()
        model = tv.load(Model(Attention(), last).eval())
        for count, status in ((9, "green"), (DILATION + 4, "amber"), (9, "green")):
            assert tv.trace(model, words(count)).report.status == status, (last.attend, count)
    loaded, made = counted(Model(Attention(), Attention()))
    passes = []
    for count in (9, 20, 20, 12):
        made.clear()
        assert tv.trace(loaded, words(count)).report.status == "green"
        passes.append(len(made))
    assert passes[0] <= 8 and passes[1] <= 6 and passes[2:] == [3, 3], passes


class AttentionOfConv(nn.Conv1d):
    """An attention in a class derived from a convolution, which makes its queries and keys."""

    def __init__(self) -> None:
        super().__init__(MODEL, 3 * MODEL, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = super().forward(x.mT).mT.chunk(3, -1)
        strong = torch.exp2(q @ k.mT)
        return strong @ v / strong.sum(-1, keepdim=True)


class CausalConv(nn.Conv1d):
    """A convolution over the words up to a row."""

    def __init__(self) -> None:
        super().__init__(MODEL, MODEL, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(super().forward(F.pad(x.mT, (2, 0)))).mT


class Gru(nn.GRU):
    """A recurrent layer that returns its rows alone."""

    def __init__(self) -> None:
        super().__init__(MODEL, MODEL, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)[0]


def test_a_subclass_of_a_mixer_is_judged_by_what_it_does():
    for part, status in ((AttentionOfConv, "amber"), (CausalConv, "green"), (Gru, "green")):
        torch.manual_seed(0)
        report = status_of(Model(Attention(), part()))
        assert report.status == status, (part, report.untold, report.broken)
        assert any(kernel.mixes for kernel in report.kernels) is (status == "green"), part


def test_an_attention_behind_mixed_tokens_is_not_blamed():
    torch.manual_seed(0)

    def exp2(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        strong = torch.exp2(q @ k.mT)
        return strong @ v / strong.sum(-1, keepdim=True)

    trace = tv.trace(tv.load(Model(Attention(exp2), Attention()).eval()), words(12))
    assert trace.report.status == "amber"
    assert not [laws for laws in trace.report.broken.values() if "token order" in laws]
    assert np.isfinite(trace.attention("encoder", layer=0)).all()
