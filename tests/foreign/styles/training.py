"""Training: losses, gradients, random numbers; checkpointing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from .base import HEADS, WIDTH, Attention, Block, Norm, style
from .passes import Normed, Rms

ONCE, AGAIN = Attention(), Attention(optional=True)


@style(train=True)
class TrainPlain(Block):
    """one training step"""


@style(train=True)
class TrainDropout(Block):
    """dropout on the weights in training"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.tap("multiplied", F.dropout(super().weigh(q, k), 0.2, self.training))


def by_formula(module: nn.Module, x: Tensor) -> Any:
    """Without the fused kernel, whose backward no witness can edit."""
    with sdpa_kernel([SDPBackend.MATH]):
        return module(x)


@style(train=True, rounds=True, plain=by_formula)
class TrainSdpa(Block):
    """SDPA in training"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x)))


@style(train=True, rounds=True)
class TrainSdpaDropout(Block):
    """SDPA with dropout in training"""

    def attend(self, x: Tensor) -> Tensor:
        return self.join(F.scaled_dot_product_attention(*self.qkv(x), dropout_p=0.2))


@style(
    Attention("(bh)qk"),
    train=True,
    project="=attention.out_proj",
    row="smaller",
    laws=("temperature", "hidden_key", "cut_link"),
)
class TrainTorchModule(nn.Module):
    """nn.MultiheadAttention with dropout that gives its weights"""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.2, batch_first=True)
        with torch.no_grad():
            self.attention.in_proj_weight *= 2

    def tap(self, what: str, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        out, weights = self.attention(x, x, x, average_attn_weights=False)
        self.tap("multiplied", weights.flatten(0, 1))  # after dropout, as they met the values
        return x + out


@style(train=True, row="S14")
class TrainNorm(Normed):
    """a norm by hand in training"""


class NoisyNorm(Norm):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(super().forward(x), 0.2, self.training)


@style(train=True, row="S14")
class TrainNormDropout(Normed):
    """a norm by hand with a dropout inside, in training"""

    def make(self) -> nn.Module:
        return NoisyNorm()


class Again(Block):
    """The attention is computed again in backward."""

    reentrant = False

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.start
        return x + self.wo(checkpoint(self.attend, x, use_reentrant=self.reentrant))

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.ones(()))


@style(ONCE, AGAIN, train=True, row="S18")
class CheckpointNew(Again):
    """checkpoint, use_reentrant=False"""


@style(ONCE, AGAIN, train=True, row="S18")
class CheckpointOld(Again):
    """checkpoint, use_reentrant=True"""

    reentrant = True


@style(ONCE, AGAIN, train=True, later=True, row="S18")
class CheckpointNewLater(Again):
    """checkpoint, use_reentrant=False, backward after the with"""


@style(ONCE, AGAIN, train=True, later=True, row="S18")
class CheckpointOldLater(Again):
    """checkpoint, use_reentrant=True, backward after the with"""

    reentrant = True


@style(train=True, later=True)
class TrainLater(Block):
    """backward after the with"""


class AgainNormed(Normed):
    """Norm and attention are computed again in backward."""

    reentrant = False

    def make(self) -> nn.Module:
        return Rms()

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.norm.gain.mean()
        return x + self.wo(checkpoint(self.inner, x, use_reentrant=self.reentrant))

    def inner(self, x: Tensor) -> Tensor:
        return self.attend(self.norm(x))


@style(ONCE, AGAIN, train=True, row="S14")
class CheckpointNorm(AgainNormed):
    """checkpoint over a norm by hand, use_reentrant=False (Hugging Face)"""


@style(ONCE, AGAIN, train=True, row="S14")
class CheckpointNormOld(AgainNormed):
    """the same, use_reentrant=True"""

    reentrant = True


@style(ONCE, AGAIN, train=True, later=True, row="S14")
class CheckpointNormLater(AgainNormed):
    """the same, use_reentrant=False, backward after the with"""


@style(ONCE, AGAIN, train=True, row="S18")
class CheckpointDropout(Again):
    """checkpoint with a dropout on the weights"""

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.tap("multiplied", F.dropout(super().weigh(q, k), 0.2, self.training))


def steps(module: Any, x: Tensor) -> list[Tensor]:
    """Three steps of SGD in one with; their losses."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [loss.detach().requires_grad_() for loss in losses]


@style(*(Attention() for _ in range(3)), run=steps, train=True, row="S4", laws=("temperature",))
class ThreeSteps(TrainDropout):
    """three steps of SGD with dropout, all in one with"""
