"""The verdicts of `benchmarks.foreign` on modules written by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.foreign.verdict import Configuration, judge, measure
from transformer_viz.inference.proof.prove import Proof


class Right(nn.Module):
    """Self-attention of four heads as everybody writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.into, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.into(x).view(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        return (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1), v

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        weights, v = self.maps(x)
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


def configuration(own: bool | None, expected: int = 1) -> Configuration:
    def made() -> tuple[nn.Module, tuple[Tensor, ...]]:
        return Right(), (torch.randint(0, 20, (2, 7)),)

    def maps(module: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
        assert isinstance(module, Right)
        weights = module.maps(module.embed(inputs[0]))[0]
        return [weights if own else weights.flip(1)]

    return Configuration("by hand", made, expected, None if own is None else maps)


def test_a_right_module_is_proved() -> None:
    row = measure(configuration(own=True))
    assert (row.verdict, row.found, row.said) == ("proved", "1/1", "")
    assert measure(configuration(own=None)).verdict == "proved"


def test_a_proof_that_the_oracle_denies_is_wrong() -> None:
    assert measure(configuration(own=False)).verdict == "wrong"


def test_an_attention_that_nobody_mentions_is_silent() -> None:
    assert measure(configuration(own=True, expected=2)).verdict == "silent"


def test_nothing_said_of_nothing_found_is_silent() -> None:
    assert judge(Proof(0.0), 0, 1, None) == ("silent", "")
    assert judge(Proof(0.0, untold=("why",)), 0, 1, None) == ("said", "why")
