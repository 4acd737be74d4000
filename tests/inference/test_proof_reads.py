"""What reads attention weights besides the weighted sum, and what only a longer text shows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from tests.foreign.blind_spots import MODEL, Attention, Model, plain
from tests.inference.test_proof_pairs import words

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


READS = {one.__name__: one for one in (twice, gated_by_entropy, scaled_by_received)}
SOUND = {one.__name__: one for one in (two_value_streams, renormalised, with_distances)}


@pytest.mark.parametrize("name", [*READS, *SOUND, "reused", "mean weights returned"])
def test_weights_that_reach_rows_in_another_way_are_never_green(name):
    torch.manual_seed(0)
    if name == "reused":
        model = Reused().eval()
    elif name == "mean weights returned":
        model = Model(Attention(), KeepsWeights()).eval()
    else:
        model = Model(Attention(), Attention(READS.get(name) or SOUND[name])).eval()
    loaded = tv.load(model)
    for count in (12, 9):
        report = tv.trace(loaded, words(count)).report
        told = [line for line in report.untold if "its weights" in line]
        if name in SOUND or name == "mean weights returned":
            assert report.status == "green", (name, count, report.untold, report.broken)
        else:
            assert report.status == "amber" and len(told) == 1, (name, count, report.untold)
            where = "L0" if name == "reused" else "L1"
            assert told[0].startswith(f"encoder {where}"), told


def dilated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Look at keys in the order of a dilated window: that of the words where they are few."""
    order = torch.arange(k.shape[2])
    order = order[(order % DILATION).argsort(stable=True)]
    return plain(q, k[:, :, order], v[:, :, order])


def word_before(part: Attention, x: Tensor) -> Tensor:
    """Add the word that stands `DILATION` words before; none in a short text."""
    return part.inner(x) + F.pad(x, (0, 0, DILATION, 0))[:, : x.shape[1]]


@pytest.mark.parametrize("kind", ["keys", "words"])
def test_what_a_short_text_cannot_show_is_seen_on_a_longer_one(kind):
    torch.manual_seed(0)
    part = Attention(dilated) if kind == "keys" else Attention(around=word_before)
    model = tv.load(Model(Attention(), part).eval())
    assert tv.trace(model, words(9)).report.status == "green"
    assert tv.trace(model, words(DILATION + 4)).report.status == "amber"
    assert tv.trace(model, words(9)).report.status == "green"
    sound = Model(Attention(), Attention()).eval()
    made: list[int] = []
    sound.register_forward_pre_hook(lambda _, given: made.append(len(given[0])))
    loaded, passes = tv.load(sound), []
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


@pytest.mark.parametrize(
    ("part", "status"), [(AttentionOfConv, "amber"), (CausalConv, "green"), (Gru, "green")]
)
def test_a_subclass_of_a_mixer_is_judged_by_what_it_does(part, status):
    torch.manual_seed(0)
    report = tv.trace(tv.load(Model(Attention(), part()).eval()), words(12)).report
    assert report.status == status, (report.untold, report.broken)
    assert any(kernel.mixes for kernel in report.kernels) is (status == "green")


def test_an_attention_behind_mixed_tokens_is_not_blamed():
    torch.manual_seed(0)

    def exp2(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        strong = torch.exp2(q @ k.mT)
        return strong @ v / strong.sum(-1, keepdim=True)

    model = tv.load(Model(Attention(exp2), Attention()).eval())
    trace = tv.trace(model, words(12))
    assert trace.report.status == "amber"
    assert not [laws for laws in trace.report.broken.values() if "token order" in laws]
    assert np.isfinite(trace.attention("encoder", layer=0)).all()
