"""The verdicts of `tests.soak.foreign` on modules written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._C import _len_torch_function_stack

from tests.soak.foreign.verdict import Configuration, measure


class Right(nn.Module):
    """Self-attention of four heads as everybody writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.into, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.into(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        return self.weights(q @ k.transpose(-1, -2) / 8**0.5), v

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        weights, v = self.maps(x)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


def configuration(own: bool | None, expected: int = 1) -> Configuration:
    def made() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Right(), (torch.randint(0, 20, (2, 7)),)

    def maps(module: nn.Module, ids: Tensor) -> list[Tensor]:
        assert isinstance(module, Right)
        weights = module.maps(module.embed(ids))[0]
        return [weights if own else weights.flip(1)]

    return Configuration("by hand", made, expected, None if own is None else maps)


def test_a_right_module_is_proved_unless_the_oracle_or_the_count_denies_it() -> None:
    row = measure(configuration(own=True))
    assert (row.verdict, row.found, row.said) == ("proved", "1/1", "")
    assert measure(configuration(own=None)).verdict == "proved"
    assert measure(configuration(own=False)).verdict == "wrong"
    assert measure(configuration(own=None, expected=2)).verdict == "wrong"


class Unseen(Right):
    """A second attention that NumPy reckons, after one of which not all can be told."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self.first, self.keys = Right(), keys
        self.memory = nn.Parameter(torch.randn(1, 4, keys, 8))

    def mixed(self, x: Tensor) -> Tensor:
        weights, v = (part.detach().numpy() for part in self.maps(x))
        return torch.from_numpy(weights @ v)

    def weights(self, scores: Tensor) -> Tensor:
        lifted = np.exp(scores.detach().numpy())
        return torch.from_numpy(lifted / lifted.sum(-1, keepdims=True))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        q, k, v = self.first.into(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        more = self.memory.expand(len(x), -1, -1, -1)
        k, v = torch.cat([more, k], 2), torch.cat([more, v], 2)
        seen = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
        x = x + self.first.out((seen @ v).transpose(1, 2).flatten(2))
        return x + self.out(self.mixed(x).transpose(1, 2).flatten(2))


def with_ids(make: type[nn.Module], expected: int = 1, *sizes: int) -> Configuration:
    return Configuration("odd", lambda: (make(*sizes), (torch.randint(0, 20, (2, 7)),)), expected)


class Twice(Right):
    def weights(self, scores: Tensor) -> Tensor:
        return super().weights(scores).cumsum(-1)


class Broken(Right):
    def forward(self, ids: Tensor) -> Tensor:
        raise RuntimeError("the module's own")


class Shy(Right):
    """Raises where it is watched."""

    def weights(self, scores: Tensor) -> Tensor:
        if type(scores) is not Tensor or _len_torch_function_stack():
            raise KeyError("watched")
        return super().weights(scores)


def test_an_attention_that_neither_probe_nor_kernels_show_is_said() -> None:
    for keys in (0, 2):
        row = measure(with_ids(Unseen, 2, keys))
        assert (row.verdict, row.found) == ("said", "1/2"), keys
    row = measure(with_ids(Twice))  # in the project's own words
    assert (row.verdict, row.found) == ("said", "0/1")
    assert row.said


def test_an_error_is_a_verdict_only_where_the_watched_module_alone_raises_it() -> None:
    with pytest.raises(RuntimeError, match="the module's own"):
        measure(with_ids(Broken))
    row = measure(with_ids(Shy))
    assert (row.verdict, row.said) == ("wrong", "raises KeyError: 'watched'")
