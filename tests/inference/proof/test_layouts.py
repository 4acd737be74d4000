"""The proof where tokens move and where rows, layers, heads and gates lie in less usual ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tests.foreign.styles.base import WIDTH, Block
from transformer_viz import probe
from transformer_viz.capture import Capture, CaptureRequest
from transformer_viz.capture.torch_function_mode import InterceptCalls
from transformer_viz.inference.proof.prove import Changed, Proof, prove
from transformer_viz.inference.proof.reordered import ReorderMode

TOKENS = 6
HALVES = ((0, 2, 3), (1, 2, 5))
VECTORS = (2, 9, WIDTH)


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
    return x[:, module.hash(x[:1])[0, :, 0].argsort().tolist()]


def sorted_by_a_matrix(module, x):
    return (module.hash(x).argsort(1) == torch.arange(TOKENS)).float() @ x


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


def proof_of(
    module: nn.Module, shape: tuple[int, ...] = VECTORS, halves: Sequence[tuple[int, ...]] = ()
) -> Proof:
    x = torch.randn(shape)
    words = {"changed": calls(module, x, halves)} if shape[1] == TOKENS else {}
    run = lambda: module(x)  # noqa: E731
    return prove(module, run, alone=lambda: module(x[:1]), together=run, **words)


@pytest.mark.slow
def test_tokens_in_another_order_are_named_and_others_proved_in_every_layer():
    stay = (as_they_are, routed, looked_up)
    move = (turned, in_turn, sorted_by_hash, sorted_by_a_matrix, sorted_in_python, picked_in_python)
    for between in (*stay, *move):
        torch.manual_seed(0)
        proof = proof_of(Layers(between), (2, TOKENS, WIDTH), HALVES)
        orders = [laws["token order"] for laws in proof.laws.values()]
        assert orders == [0, 0 if between in stay else float("inf")], between
        assert proof.holds == (between in stay), (between, proof.laws, proof.untold)


def test_tokens_moved_by_their_numbers_are_not_proved_without_exchanges():
    for between in (sorted_by_hash, sorted_by_a_matrix, routed):
        torch.manual_seed(0)
        (sentence,) = proof_of(Layers(between), (2, TOKENS, WIDTH)).untold
        assert sentence.startswith("encoder L1"), between
        assert "before it tokens are sorted, chosen or moved by their own numbers" in sentence
    kept = {between: set() for between in (as_they_are, turned, looked_up, below_the_third)}
    for between, reordered in (kept | {sorted_by_hash: {1}, routed: {1}}).items():
        torch.manual_seed(0)
        module, x = Layers(between), torch.randn(2, TOKENS, WIDTH)
        with torch.inference_mode(), InterceptCalls(), ReorderMode(module) as mode:
            module(x)
        assert len(mode.kernels) == 2 and mode.reordered == reordered, between


def probed(
    module: nn.Module, shape: tuple[int, ...] = VECTORS, *, times: int = 1, **words
) -> Capture:
    with torch.no_grad(), probe(module, None, CaptureRequest(**words)) as run:
        for _ in range(times):
            module(torch.randn(shape))
    return run


class Branches(nn.Module):
    """Layers of two blocks side by side."""

    def __init__(self):
        super().__init__()
        pairs = (nn.ModuleList((Block(), nn.Sequential(Block()))) for _ in range(3))
        self.layers = nn.ModuleList(pairs)

    def forward(self, x: Tensor) -> Tensor:
        for one, other in self.layers:
            x = one(x) + other(x)
        return x


def test_branches_and_paths_have_the_number_of_their_layer():
    module = Branches()
    found = probed(module, times=2).attentions
    assert [record.layer for record in found] == 2 * [0, 0, 1, 1, 2, 2]
    assert proof_of(module).holds
    layers = nn.Sequential(nn.Tanh(), Block(), nn.Tanh(), Block())
    module, x = nn.ModuleDict({"layers": layers}), torch.randn(VECTORS)
    with torch.no_grad(), probe(module) as run:
        layers(x)
    assert [(record.layer, record.number) for record in run.attentions] == [(0, 1), (1, 3)]
    assert [record.number for record in probed(layers[1]).attentions] == [None]


class Joint(Block):
    """Words and patches in one attention, each with a projection of its own."""

    def __init__(self, first: int = 4):
        super().__init__()
        self.first, self.patches = first, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        made = self.join(self.scores(q, k).softmax(-1) @ v)
        words, patches = made[:, : self.first], made[:, self.first :]
        return torch.cat((self.wo(words), self.patches(patches)), 1)


class Rows(Block):
    """Attention along each row of a picture, batch, rows and heads on one axis."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, *x.shape[2:])
        q, k, v = (part.flatten(0, 1) for part in self.qkv(rows))
        weights = torch.einsum("bie,bje->bij", q, k).softmax(-1)
        made = torch.einsum("bij,bje->bie", weights, v).unflatten(0, (len(rows), -1))
        return x + self.wo(self.join(made)).view(x.shape)


def test_rows_of_two_projections_are_counted_and_heads_on_an_axis_of_rows_are_heads():
    proof = proof_of(Joint())
    assert proof.laws["encoder L0"]["rows"] == 0 and proof.holds
    proof = proof_of(Joint(5), (2, 10, WIDTH))  # parts of like size may be heads
    assert proof.laws["encoder L0"]["rows"] is None
    assert "its 20 rows are not the 10 rows" in proof.untold[0]
    module, shape = Rows(), (2, 5, 6, WIDTH)
    (record,) = probed(module, shape).attentions
    assert record.heads == 4 and record.weights.shape == (10, 4, 6, 6)
    assert proof_of(module, shape).holds


class Mixed(Block):
    """Heads that are mixed before the softmax, beside their own scores."""

    def __init__(self, fill: Callable[[Tensor], Tensor]):
        super().__init__()
        self.mix = nn.Conv2d(4, 4, 1, bias=False)
        fill(self.mix.weight.data)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        scores = self.scores(q, k)
        return self.join((scores + self.mix(scores)).softmax(-1) @ v)


class Gated(Block):
    """Attention behind a gate that is closed at first."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gate * self.wo(self.attend(x))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x)
        return self.join(self.scores(q, k).softmax(-1) @ v)


def test_mixed_scores_have_no_scale_and_a_closed_gate_proves_nothing():
    for fill in (nn.init.dirac_, nn.init.normal_):
        torch.manual_seed(0)
        module = Mixed(fill)
        (record,) = probed(module, qkv=lambda site: True).attentions
        assert record.q is not None and record.scale is None, fill
        proof = proof_of(module)
        assert proof.holds and "queries and keys" not in proof.laws["encoder L0"], fill
    torch.manual_seed(0)
    module = Gated()
    proof = proof_of(module)
    assert not proof.holds
    assert proof.untold[0].startswith("On this input the output does not depend on what is")
    nn.init.ones_(module.gate)
    assert proof_of(module).holds
