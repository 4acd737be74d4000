"""Batch and heads are told by what axes are made of, whatever a module's own order is.

Witness: the usual attention of the same projections, written once as [batch, head, query, key].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from transformer_viz.capture import CaptureRequest, probe
from transformer_viz.capture.axes.atoms import of_input, reshaped, size_of

HEADS, SIZE, TOKENS = 4, 8, 9
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def split(x: Tensor) -> Tensor:
    return x.view(*x.shape[:2], HEADS, SIZE)


def usual(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Weights ``[batch, head, query, key]`` as everybody writes them."""
    q, k = (split(x).transpose(1, 2) for x in (q, k))
    return torch.softmax(q @ k.mT / SIZE**0.5, -1)


def joined_heads_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (split(x).permute(0, 2, 1, 3).reshape(-1, TOKENS, SIZE) for x in (q, k, v))
    w = torch.einsum("bid,bjd->bij", q, k).div(SIZE**0.5).softmax(-1)
    out = torch.einsum("bij,bjd->bid", w, v)
    return out.view(-1, HEADS, TOKENS, SIZE).transpose(1, 2).flatten(2)


def joined_heads_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (split(x).permute(2, 0, 1, 3).reshape(-1, TOKENS, SIZE) for x in (q, k, v))
    out = torch.bmm(torch.bmm(q, k.mT).div(SIZE**0.5).softmax(-1), v)
    return out.view(HEADS, -1, TOKENS, SIZE).permute(1, 2, 0, 3).flatten(2)


def chunks_joined(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (torch.cat(x.chunk(HEADS, -1), 0) for x in (q, k, v))
    out = (q @ k.transpose(1, 2) / SIZE**0.5).softmax(-1) @ v
    return torch.cat(out.chunk(HEADS, 0), -1)


def chunks_stacked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (torch.stack(x.split(SIZE, -1), 1) for x in (q, k, v))
    out = (q @ k.mT / SIZE**0.5).softmax(-1) @ v
    return torch.cat([part.squeeze(1) for part in out.chunk(HEADS, 1)], -1)


def einsum_heads_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = torch.einsum("bihd,bjhd->hbij", split(q), split(k)).div(SIZE**0.5).softmax(-1)
    return torch.einsum("hbij,bjhd->bihd", w, split(v)).flatten(2)


def einsum_batch_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    w = torch.einsum("bihd,bjhd->ijhb", split(q), split(k)).div(SIZE**0.5).softmax(1)
    return torch.einsum("ijhb,bjhd->bihd", w, split(v)).flatten(2)


STYLES: list[Attend] = [
    joined_heads_last,
    joined_heads_first,
    chunks_joined,
    chunks_stacked,
    einsum_heads_first,
    einsum_batch_last,
]


class Module(nn.Module):
    """Three projections and one way to attend; it names no number of heads."""

    def __init__(self, attend: Attend):
        super().__init__()
        width = HEADS * SIZE
        self.attend = attend
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.o(self.attend(self.q(x), self.k(x), self.v(x)))
        return out


def test_batch_and_heads_are_those_of_the_usual_way() -> None:
    for attend in STYLES:
        for batch in (1, 2, HEADS):
            case = attend.__name__, batch
            torch.manual_seed(0)
            module, x = Module(attend), torch.randn(batch, TOKENS, HEADS * SIZE)
            with torch.no_grad():
                expected = usual(module.q(x), module.k(x), module.v(x))
                plain = module(x)
                with probe(module) as run:
                    watched = module(x)
            (record,) = run.attentions
            assert record.weights is not None and record.heads == HEADS, case
            assert record.weights.shape == expected.shape, case
            assert float((record.weights - expected).abs().max()) <= 1e-6, case
            assert torch.equal(plain, watched), case


def test_atoms_follow_every_reshape() -> None:
    """Law: the atoms of an axis multiply to its size; a reshape there and back is the identity."""
    axes = of_input((2, 9, 32), features=True)
    for shape in ((2, 9, 4, 8), (18, 32), (2, 3, 3, 32), (6, 3, 4, 8), (2, 288), (576,)):
        made = reshaped(axes, shape)
        assert tuple(map(size_of, made)) == shape
    heads = reshaped(axes, (2, 9, 4, 8))
    assert heads[2] == (("f", 4),)
    assert reshaped(heads, (2, 9, 32)) == (axes[0], axes[1], (("f", 4), ("f", 8)))
    assert reshaped(axes, (18, 32))[0] == (("a", 2), ("a", 9))
    mixed = reshaped(axes, (4, 144))  # 4 takes both items and a part of the tokens: not known
    assert {kind for one in mixed for kind, _ in one} == {"u"}
    empty = of_input((2, 0, 32), features=True)
    assert tuple(map(size_of, reshaped(empty, (0, 4, 8)))) == (0, 4, 8)


def test_a_key_head_that_is_expanded_stands_once_for_each_query_head() -> None:
    torch.manual_seed(0)
    project = nn.Linear(32, 32), nn.Linear(32, SIZE), nn.Linear(32, SIZE)

    class OneKeyHead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = split(project[0](x)).transpose(1, 2)
            k, v = (w(x)[:, None].expand(-1, HEADS, -1, -1) for w in project[1:])
            return torch.softmax(q @ k.mT, -1) @ v

    module, x = OneKeyHead(), torch.randn(2, TOKENS, 32)
    with torch.no_grad(), probe(module, want=CaptureRequest(qkv=lambda site: True)) as run:
        module(x)
    (record,) = run.attentions
    assert record.q is not None and record.k is not None and record.v is not None
    assert record.k.shape == record.v.shape == (2, HEADS, TOKENS, SIZE)
    assert record.weights is not None
    torch.testing.assert_close((record.q @ record.k.mT).softmax(-1), record.weights)
