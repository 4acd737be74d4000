"""The default check sees any two tokens that are swapped, at all lengths, in few passes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from random import Random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

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


@pytest.mark.parametrize("count", [5, 12, 40])
def test_no_pair_of_tokens_is_missed(count):
    for attend in (plain, causal):
        torch.manual_seed(0)
        draw = Random(count)
        sound = status_of(Model(Attention(attend), Attention(attend)), count)
        assert sound.status == "green", (attend, sound.broken)
        for turn in range(4):
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


def test_words_that_attention_weights_choose_are_never_green():
    for name, choose in CHOICES.items():
        torch.manual_seed(0)
        module = Pruned(choose).eval()
        for ids in (words(12), words(14)[2:]):
            with torch.no_grad():
                module(torch.tensor([ids]))
            assert module.choose(module.strength)[0].tolist() != list(range(8))
            assert tv.trace(tv.load(module), ids).report.status == "amber", name
