"""The proof where rows, layers, heads and gates are laid out in less usual ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.foreign.styles.base import WIDTH, Block
from transformer_viz import probe
from transformer_viz.capture import CaptureRequest
from transformer_viz.inference.proof.prove import Proof, prove

VECTORS = (2, 9, WIDTH)


def proof_of(module: nn.Module, shape: tuple[int, ...] = VECTORS) -> Proof:
    x = torch.randn(shape)
    return prove(module, lambda: module(x), alone=lambda: module(x[:1]), together=lambda: module(x))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Branches(nn.Module):
    """Layers of two blocks side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList((Block(), nn.Sequential(Block()))) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        for one, other in self.layers:
            x = one(x) + other(x)
        return x


def test_branches_side_by_side_have_the_number_of_their_layer():
    module = Branches()
    with torch.no_grad(), probe(module) as run:
        module(torch.randn(VECTORS))
        module(torch.randn(VECTORS))
    assert [record.layer for record in run.attentions] == 2 * [0, 0, 1, 1, 2, 2]
    assert proof_of(module).holds


class Joint(Block):
    """Words and patches in one attention, each with a projection of its own."""

    def __init__(self, first: int = 4) -> None:
        super().__init__()
        self.first, self.patches = first, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        made = self.join(self.scores(q, k).softmax(-1) @ v)
        words, patches = made[:, : self.first], made[:, self.first :]
        return torch.cat((self.wo(words), self.patches(patches)), 1)


def test_rows_that_two_projections_share_are_all_counted():
    proof = proof_of(Joint())
    assert proof.laws["encoder L0"]["rows"] == 0
    assert proof.holds


def test_parts_of_like_size_may_be_heads_and_are_not_told():
    proof = proof_of(Joint(5), (2, 10, WIDTH))
    assert proof.laws["encoder L0"]["rows"] is None
    assert "its 20 rows are not the 10 rows" in proof.untold[0]


class Rows(Block):
    """Attention along each row of a picture, batch, rows and heads on one axis."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, *x.shape[2:])
        q, k, v = (part.flatten(0, 1) for part in self.qkv(rows))
        weights = torch.einsum("bie,bje->bij", q, k).softmax(-1)
        made = torch.einsum("bij,bje->bie", weights, v).unflatten(0, (len(rows), -1))
        return x + self.wo(self.join(made)).view(x.shape)


def test_heads_on_the_axis_of_a_pictures_rows_are_heads():
    module = Rows()
    with torch.no_grad(), probe(module) as run:
        module(torch.randn(2, 5, 6, WIDTH))
    (record,) = run.attentions
    assert record.heads == 4 and record.weights is not None
    assert record.weights.shape == (10, 4, 6, 6)
    assert proof_of(module, (2, 5, 6, WIDTH)).holds


class Mixed(Block):
    """Heads that are mixed before the softmax, beside their own scores."""

    def __init__(self, fill: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mix = nn.Conv2d(4, 4, 1, bias=False)
        fill(self.mix.weight.data)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        return self.join((scores + self.mix(scores)).softmax(-1) @ v)


@pytest.mark.parametrize("fill", [nn.init.dirac_, nn.init.normal_])
def test_no_scale_is_shown_of_scores_that_are_mixed(fill):
    module = Mixed(fill)
    with torch.no_grad(), probe(module, None, CaptureRequest(qkv=lambda site: True)) as run:
        module(torch.randn(VECTORS))
    (record,) = run.attentions
    assert record.q is not None and record.scale is None
    proof = proof_of(module)
    assert proof.holds and "queries and keys" not in proof.laws["encoder L0"]


class Gated(Block):
    """Attention behind a gate that is closed at first."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gate * self.wo(self.attend(x))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.join(self.scores(q, k).softmax(-1) @ v)


def test_edits_that_cannot_reach_the_output_prove_nothing():
    module = Gated()
    proof = proof_of(module)
    assert not proof.holds
    assert proof.untold[0].startswith("On this input the output does not depend on what is")
    nn.init.ones_(module.gate)
    assert proof_of(module).holds


def test_the_paths_own_number_of_a_layer():
    module = nn.ModuleDict({"layers": nn.Sequential(nn.Tanh(), Block(), nn.Tanh(), Block())})
    x = torch.randn(VECTORS)
    with torch.no_grad(), probe(module) as run:
        module["layers"](x)
    assert [(record.layer, record.number) for record in run.attentions] == [(0, 1), (1, 3)]
    with torch.no_grad(), probe(module["layers"][1]) as run:
        module["layers"][1](x)
    assert [record.number for record in run.attentions] == [None]
