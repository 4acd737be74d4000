"""Training: losses, gradients, random numbers; checkpointing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from .base import Attention, Block, Module, Norm, enter, library, options, sdpa, style, ways
from .passes import Normed, Rms

AGAIN = (Attention(), Attention(optional=True))


def by_formula(module: nn.Module, x: Tensor) -> Any:
    """Call without the fused kernel, whose backward no witness can edit."""
    with sdpa_kernel([SDPBackend.MATH]):
        return module(x)


def dropped(self, q, k):
    return self.tap("multiplied", F.dropout(Block.weigh(self, q, k), 0.2, self.training))


Dropped = Block.of(weigh=dropped)


@ways("combine")
class Fused:
    @options(train=True, rounds=True, plain=by_formula)
    def train_sdpa(self, q, k, v):
        """SDPA in training"""
        return sdpa(q, k, v)

    @options(train=True, rounds=True)
    def train_sdpa_dropout(self, q, k, v):
        """SDPA with dropout in training"""
        return sdpa(q, k, v, dropout_p=0.2)


@style(
    Attention("(bh)qk"),
    train=True,
    project="=attention.out_proj",
    row="smaller",
    laws=("temperature", "hidden_key", "cut_link"),
)
class TrainTorchModule(Module):
    """nn.MultiheadAttention with dropout that gives its weights"""

    def parts(self):
        return {"attention": library(dropout=0.2)}

    def forward(self, x):
        out, weights = self.attention(x, x, x, average_attn_weights=False)
        self.tap("multiplied", weights.flatten(0, 1))  # after dropout, as they met the values
        return x + out


class NoisyNorm(Norm):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.2, self.training)


class Again(Block):
    """The attention is computed again in backward."""

    reentrant = False

    def parts(self):
        return {"start": nn.Parameter(torch.ones(()))}

    def forward(self, x):
        x = x * self.start
        return x + self.wo(checkpoint(self.attend, x, use_reentrant=self.reentrant))


class AgainNormed(Normed):
    """Norm and attention are computed again in backward."""

    reentrant, make = False, staticmethod(Rms)

    def forward(self, x):
        x = x * self.norm.gain.mean()
        return x + self.wo(checkpoint(self.inner, x, use_reentrant=self.reentrant))

    def inner(self, x):
        return self.attend(self.norm(x))


def steps(module: Any, x: Tensor) -> list[Tensor]:
    """Make three steps of SGD in one with; return their losses."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [loss.detach().requires_grad_() for loss in losses]


OLD, LATER, ONE = {"reentrant": True}, {"later": True}, ()
S14, S18 = {"row": "S14"}, {"row": "S18"}
for name, about, build, truth, words in (
    ("train_plain", "one training step", Block, ONE, {}),
    ("train_dropout", "dropout on the weights in training", Dropped, ONE, {}),
    ("train_later", "backward after the with", Block, ONE, LATER),
    ("train_norm", "a norm by hand in training", Normed, ONE, S14),
    ("train_norm_dropout", "a norm by hand with a dropout inside, in training",
     Normed.of(make=staticmethod(NoisyNorm)), ONE, S14),
    ("three_steps", "three steps of SGD with dropout, all in one with", Dropped,
     (Attention(),) * 3, {"run": steps, "row": "S4", "laws": ("temperature",)}),
    ("checkpoint_new", "checkpoint, use_reentrant=False", Again, AGAIN, S18),
    ("checkpoint_old", "checkpoint, use_reentrant=True", Again.of(**OLD), AGAIN, S18),
    ("checkpoint_new_later", "checkpoint, use_reentrant=False, backward after the with",
     Again, AGAIN, S18 | LATER),
    ("checkpoint_old_later", "checkpoint, use_reentrant=True, backward after the with",
     Again.of(**OLD), AGAIN, S18 | LATER),
    ("checkpoint_dropout", "checkpoint with a dropout on the weights",
     Again.of(weigh=dropped), AGAIN, S18),
    ("checkpoint_norm", "checkpoint over a norm by hand, use_reentrant=False (Hugging Face)",
     AgainNormed, AGAIN, S14),
    ("checkpoint_norm_old", "the same, use_reentrant=True",
     AgainNormed.of(**OLD), AGAIN, S14),
    ("checkpoint_norm_later", "the same, use_reentrant=False, backward after the with",
     AgainNormed, AGAIN, S14 | LATER),
):  # fmt: skip
    enter(name, about, build, *truth, train=True, **words)
