"""Whether row 3 is word 3, in any layer: tokens that a module turns round, sorts or routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tests.foreign.styles.base import WIDTH, Block
from transformer_viz.core.intercept import InterceptCalls
from transformer_viz.inference.proof.prove import Changed, Proof, prove
from transformer_viz.inference.proof.reordered import ReorderMode

TOKENS = 6
HALVES = ((0, 2, 3), (1, 2, 5))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Layers(nn.Module):
    """Two blocks, and ``between`` them something that is done to the tokens ``[2, 6, width]``."""

    def __init__(self, between: Callable[[nn.Module, Tensor], Tensor]):
        super().__init__()
        self.between = between
        self.first, self.second = Block(), Block()
        self.hash = nn.Linear(WIDTH, 1)
        self.route = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self, self.first(x)))


def as_they_are(module, x):
    return x


def turned(module, x):
    return x.flip(1)


def in_turn(module, x):
    return x[:, torch.tensor((1, 0, 3, 2, 5, 4))]


def sorted_by_hash(module, x):
    order = module.hash(x).argsort(1)
    return x.gather(1, order.expand_as(x))


def sorted_in_python(module, x):
    order = module.hash(x[:1])[0, :, 0].argsort().tolist()
    return x[:, order]


def sorted_by_a_matrix(module, x):
    order = module.hash(x).argsort(1)
    return (order == torch.arange(TOKENS)).float() @ x


def below_the_third(module, x):
    """The third largest number is a bound, and no token moves."""
    return x.masked_fill(x >= x.topk(3).values[..., -1:], 0.0)


def picked_in_python(module, x):
    order = module.hash(x[:1])[0, :, 0].argsort()
    return torch.stack([x[:, n] for n in order], 1)


def routed(module, x):
    """A mixture of experts: each token's best expert alone takes it, and puts it back."""
    flat, best = x.flatten(0, 1), module.route(x).flatten(0, 1).argmax(-1)
    out = torch.zeros_like(flat)
    for number, expert in enumerate(module.experts):
        (mine,) = torch.where(best == number)
        out.index_add_(0, mine, expert(flat[mine]))
    return x + out.view_as(x)


def looked_up(module, x):
    """Rows of a weight, taken by numbers of the input, and a constant order taken and undone."""
    order = torch.tensor((3, 1, 0, 2, 5, 4))
    best = module.route(x).argmax(-1)
    return x[:, order][:, order.argsort()] + module.route.weight[best]


def calls(module: nn.Module, x: Tensor, halves: Sequence[tuple[int, ...]]) -> list[Changed]:
    """The module on the same tokens but for some."""

    def call(half: tuple[int, ...]) -> Tensor:
        other = x.clone()
        draw = torch.Generator().manual_seed(half[-1])
        other[:, half] = torch.randn(2, len(half), WIDTH, generator=draw)
        return module(other)

    return [Changed(half, TOKENS, partial(call, half)) for half in halves]


def proof_of(between: Callable[..., Tensor], halves: Sequence[tuple[int, ...]] = HALVES) -> Proof:
    module, x = Layers(between), torch.randn(2, TOKENS, WIDTH)
    return prove(
        module,
        lambda: module(x),
        alone=lambda: module(x[:1]),
        together=lambda: module(x),
        changed=calls(module, x, halves),
    )


@pytest.mark.parametrize("between", [as_they_are, routed, looked_up])
def test_tokens_that_stay_in_their_places_are_proved_in_every_layer(between):
    proof = proof_of(between)
    assert proof.holds, (proof.laws, proof.untold)
    assert len(proof.laws) == 2
    assert all(laws["token order"] == 0 for laws in proof.laws.values())


@pytest.mark.parametrize(
    "between",
    [turned, in_turn, sorted_by_hash, sorted_by_a_matrix, sorted_in_python, picked_in_python],
)
def test_a_later_layer_with_tokens_in_another_order_is_named(between):
    proof = proof_of(between)
    first, second = proof.laws.values()
    assert first["token order"] == 0
    assert second["token order"] == float("inf")
    assert not proof.holds


@pytest.mark.parametrize("between", [sorted_by_hash, sorted_by_a_matrix, routed])
def test_tokens_moved_by_their_numbers_are_not_proved_without_exchanges(between):
    (sentence,) = proof_of(between, ()).untold
    assert sentence.startswith("encoder L1")
    assert "before it tokens are sorted, chosen or moved by their own numbers" in sentence


@pytest.mark.parametrize(
    ("between", "reordered"),
    [
        *((kept, set()) for kept in (as_they_are, turned, looked_up, below_the_third)),
        (sorted_by_hash, {1}),
        (routed, {1}),
    ],
)
def test_the_witness_lists_softmaxes_that_read_moved_tokens(between, reordered):
    module, x = Layers(between), torch.randn(2, TOKENS, WIDTH)
    with torch.inference_mode(), InterceptCalls(), ReorderMode(module) as mode:
        module(x)
    assert len(mode.kernels) == 2
    assert mode.reordered == reordered
