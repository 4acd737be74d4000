"""Swapped tokens, other reads of the weights, and longer texts are seen in few passes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import transformer_viz as tv
from tests.foreign.blind_spots import MODEL, WORDS, Attend, Attention, Block, Model, causal, plain
from transformer_viz.core.trace_parts import Report
from transformer_viz.inference.proof.token_order import codes, exchanges

Choose = Callable[[Tensor], Tensor]


def counted(module: nn.Module) -> tuple[tv.Model, list[int]]:
    """A loaded module, and a list that gets the length of the batch of each pass."""
    made: list[int] = []
    module.eval().register_forward_pre_hook(lambda _, given: made.append(len(given[0])))
    model = tv.load(module)
    made.clear()
    return model, made


def words(count: int) -> list[int]:
    return torch.randint(WORDS, (count,), generator=torch.Generator().manual_seed(1)).tolist()


def status_of(module: nn.Module, count: int = 12) -> Report:
    return tv.trace(tv.load(module.eval()), words(count)).report


def turned(attend: Attend, *tokens: int) -> Attention:
    """An attention whose keys stand in each other's places."""

    def swapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        order = list(range(k.shape[2]))
        for n, other in zip(tokens, (*tokens[1:], tokens[0]), strict=True):
            order[n] = other
        return attend(q, k[:, :, order], v)

    return Attention(swapped)


def carried(attend: Attend, token: int, row: int) -> Attention:
    """An attention beside which one token is added to one row."""

    def add(part: Attention, x: Tensor) -> Tensor:
        out = part.inner(x)
        out[:, row] += x[:, token]
        return out

    return Attention(attend, around=add)


@pytest.mark.slow
@pytest.mark.parametrize("turns", [4, pytest.param(8, marks=pytest.mark.soak)])
@pytest.mark.parametrize("count", [5, 12, 40])
def test_no_pair_of_tokens_is_missed(count, turns):
    """Some pairs at random; that every pair is told apart: the test of `exchanges` below."""
    for attend in (plain, causal):
        torch.manual_seed(0)
        draw = Random(count)
        sound = status_of(Model(Attention(attend), Attention(attend)), count)
        assert sound.status == "green", (attend, sound.broken)
        for turn in range(turns):
            one, other, third = draw.sample(range(count), 3)
            swapped = turned(attend, one, other), turned(attend, one, other, third)
            for fault in (*swapped, carried(attend, one, other)):
                parts = [Attention(attend), Attention(attend)]
                parts[turn % 2] = fault
                report = status_of(Model(*parts), count)
                assert report.status == "amber", (attend, turn, one, other, third)


def test_each_token_is_exchanged_while_any_other_one_stays():
    for count in (*range(1, 13), 40, 128, 1024):
        found = np.array(codes(count, torch.Generator().manual_seed(0)))
        for own in found:
            contained = ~((found == 1) & (own == 0)).any(1)
            assert contained.sum() == 1, (count, own)
        assert found.shape[1] <= 13 and found.any(0).all(), count
    ids = torch.tensor([[3, 9, 3, 20, 9]])
    made = list(exchanges(ids))
    for one, other in permutations(range(5), 2):
        assert any(one in x.tokens and other not in x.tokens for x in made)
    for tokens, x in made:
        assert [n for n in range(5) if x[0, n] != ids[0, n]] == list(tokens)


class OneText(Model):
    """A model that takes no batch."""

    def forward(self, ids: Tensor) -> Tensor:
        if len(ids) > 1:
            raise RuntimeError("one text at a time")
        return super().forward(ids)


class Leading(Model):
    """A model whose texts read the first one of their batch."""

    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        return x + 0.1 * x[:1].mean(1, keepdim=True)


class Averaged(Model):
    """A model whose texts reach each other in a batch of more than three."""

    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        return x + (x.mean(0) if len(x) > 3 else 0 * x)


@pytest.mark.slow
def test_texts_run_one_by_one_where_a_batch_is_none():
    kinds = {OneText: "amber", Leading: "amber", Averaged: "green", Model: "green"}
    for kind, status in kinds.items():
        torch.manual_seed(0)
        for first, expected in ((Attention(), status), (turned(plain, 2, 7), "amber")):
            model, made = counted(kind(first, Attention()))
            report = tv.trace(model, words(12)).report
            assert report.status == expected, (kind, report.broken)
            if kind is Model and expected == "green":
                assert made == [1, 1, 1, 1, 3, 8]
            if kind is OneText:  # nothing but the batch cannot be told
                orders = {found["token order"] for found in report.laws.values()}
                assert (float("inf") in orders) is (first.attend is not plain)


class Pruned(nn.Module):
    """After a first layer the words that are looked at most go on, ``keep`` of them."""

    def __init__(self, choose: Choose):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, MODEL), nn.Embedding(64, MODEL)
        self.first, self.second = Block(Attention(self.look)), Block(Attention())
        self.head, self.choose = nn.Linear(MODEL, WORDS), choose

    def look(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT / 2).softmax(-1)
        self.__dict__["strength"] = weights.sum((1, 2))
        return weights @ v

    def forward(self, ids: Tensor) -> Tensor:
        x = self.first(self.words(ids) + self.places.weight[: ids.shape[1]])
        chosen = self.choose(self.strength)[..., None].expand(-1, -1, MODEL)
        return self.head(self.second(x.gather(1, chosen)))


def by_python(strength: Tensor) -> Tensor:
    rows = strength.tolist()
    return torch.tensor([sorted(range(len(row)), key=row.__getitem__)[-8:] for row in rows])


CHOICES: dict[str, Choose] = {
    "top-k": lambda strength: strength.topk(8).indices,
    "in their order": lambda strength: strength.topk(8).indices.sort(1).values,
    "argsort": lambda strength: strength.argsort(1),
    "a bound": lambda strength: torch.stack(
        [(row >= row.sort().values[-8]).nonzero()[:8, 0] for row in strength]
    ),
    "Python": by_python,
    "NumPy": lambda strength: torch.from_numpy(strength.numpy().argsort(1)[:, -8:].copy()),
}


@pytest.mark.slow
def test_words_that_attention_weights_choose_are_never_green():
    for name, choose in CHOICES.items():
        torch.manual_seed(0)
        module = Pruned(choose).eval()
        for ids in (words(12), words(14)[2:]):
            with torch.no_grad():
                module(torch.tensor([ids]))
            assert module.choose(module.strength)[0].tolist() != list(range(8))
            assert tv.trace(tv.load(module), ids).report.status == "amber", name


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


@pytest.mark.slow
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


@pytest.mark.slow
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
