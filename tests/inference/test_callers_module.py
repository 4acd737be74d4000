"""Test that a trace leaves the caller's module as it was, whatever tensors it holds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right

import transformer_viz as tv

HEADS, WIDTH, IDS = 2, 8, (3, 1, 4, 1, 5, 9, 2, 6)


class Reader(nn.Module):
    """One layer over word ids; ``turned`` does something to queries and keys on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, HEADS * WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(4))
        self.head = nn.Linear(HEADS * WIDTH, 10)

    def turned(self, x: Tensor) -> Tensor:
        return x

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT * WIDTH**-0.5).softmax(-1) @ v

    def weights(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        made = (f(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for f in (self.q, self.k))
        q, k = (self.turned(y) for y in made)
        return q, k, self.v(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        y = self.attend(*self.weights(x)).transpose(1, 2).flatten(2)
        return self.head(x + self.o(y))


class Lazy(Reader):
    """Makes its table of factors at the first call, anew where the text is longer."""

    table: Tensor | None = None

    def turned(self, x: Tensor) -> Tensor:
        if self.table is None or len(self.table) < x.shape[2]:
            self.table = torch.linspace(0.5, 1.5, x.shape[2])
        return x * self.table[: x.shape[2], None]


class Sparse(Reader):
    """Holds a sparse buffer and reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pairs", torch.eye(16).to_sparse(), persistent=False)

    def turned(self, x: Tensor) -> Tensor:
        return self.pairs.to_dense()[: x.shape[2], : x.shape[2]] @ x


class Masked(Reader):
    """Makes PyTorch's own mask object at each call."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = causal_lower_right(q.shape[2], k.shape[2])
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("kind", (Lazy, Sparse, Masked))
def test_a_traced_module_is_proved_and_can_still_be_trained(kind):
    torch.manual_seed(0)
    module = kind().eval()
    run = tv.trace(tv.load(module), list(IDS[:4]))
    run = tv.trace(tv.load(module), list(IDS))
    assert run.report.status == "green", (run.report.untold, run.report.missed)
    with torch.no_grad():
        q, k, _ = module.weights(module.words(torch.tensor([IDS])))
        z = q @ k.mT * WIDTH**-0.5
        later = torch.ones(z.shape[-2:], dtype=torch.bool).triu(1)
        wanted = (z.masked_fill(later, -torch.inf) if kind is Masked else z).softmax(-1)[0]
    assert torch.allclose(torch.tensor(run.attentions[0].weights), wanted, atol=1e-6)
    module.train()(torch.tensor([IDS])).square().mean().backward()
    assert module.q.weight.grad is not None
