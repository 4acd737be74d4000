"""Norms by hand and other parts that count: nothing of the user's may run twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import oracle
from .base import WIDTH, Attention, Block, Norm, Style, enter, options, ways


class Normed(Block):
    """A block with a norm by hand in front: ``make`` is the style."""

    make: Any = Norm

    def parts(self):
        return {"norm": self.make()}

    def forward(self, x):
        return x + self.wo(self.attend(self.norm(x)))


class Rms(Norm):
    """An RMS norm that counts."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


class Annotated(nn.Module):
    """The annotated Transformer's norm, counting in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        deviation = x.std(-1, keepdim=True) + 1e-6
        return self.a_2 * (x - x.mean(-1, keepdim=True)) / deviation + self.b_2


class Running(nn.Module):
    """A norm that moves running statistics in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(WIDTH))
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mean.lerp_(x.mean((0, 1)), 0.1)
        x = x - self.mean
        return x / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * self.weight


class Noisy(Norm):
    """A norm with a dropout inside that is never off."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.1, training=True)


class Hooked(Norm):
    """A norm that hands its output to a list."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks = 0
        self.register_forward_hook(self._note)

    def _note(self, module: Any, args: Any, out: Any) -> None:
        self.hooks += 1
        self.calls = 100 * self.hooks + self.calls % 100


class Offloaded(Norm):
    """A norm whose parameter stands on no device until it is called (accelerate's offload)."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = torch.linspace(0.5, 1.5, WIDTH)
        self.gain = nn.Parameter(torch.empty(WIDTH, device="meta"))
        self.attach()

    def attach(self) -> None:
        self.register_forward_pre_hook(self._load)
        self.register_forward_hook(self._drop)

    def _load(self, module: Any, args: Any) -> None:
        self.gain = nn.Parameter(self.stored)

    def _drop(self, module: Any, args: Any, out: Any) -> None:
        self.gain = nn.Parameter(torch.empty(WIDTH, device="meta"))


class Wrapped(Offloaded):
    """The same by a forward of the instance, as accelerate wraps it."""

    def attach(self) -> None:
        written = self.forward

        def forward(x: Tensor) -> Tensor:
            self._load(self, x)
            out = written(x)
            self._drop(self, x, out)
            return out

        self.forward = forward  # type: ignore[method-assign]


for name, about, norm in (
    ("counts", "a layer norm by hand that counts its calls", Norm),
    ("rms_counts", "an RMS norm by hand (Llama) that counts its calls", Rms),
    ("counts_in_buffer", "the annotated Transformer's norm, counting in a buffer", Annotated),
    ("running", "a norm with running statistics", Running),
    ("noisy", "a norm with a dropout inside: random numbers", Noisy),
    ("hooked", "a norm with a forward hook of the user's that counts", Hooked),
    ("offloaded", "a norm whose weights are loaded by a hook and dropped again", Offloaded),
    ("wrapped", "a norm whose weights are loaded by a wrapped forward (accelerate)", Wrapped),
):
    enter(f"norm_{name}", about, Normed.of(make=staticmethod(norm)), row="S14")


def two_that_share() -> nn.Module:
    blocks = nn.Sequential(Normed(), Normed())
    blocks[1].norm = blocks[0].norm
    return blocks


enter(
    *("norm_shared", "two blocks share one norm by hand", two_that_share),
    *(Attention(), Attention(layer=1)),
    project=("0.wo", "1.wo"),
    row="S14",
)


class Places(nn.Module):
    """Sinusoids made anew in each call, which are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        angles = torch.arange(x.shape[1])[:, None] * 10.0 ** -torch.arange(WIDTH // 2)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class Doubled(Block):
    def __init__(self) -> None:
        super().__init__()
        self.wo.register_forward_hook(lambda module, args, out: out * 2)


def error_passes(style: Style) -> str:
    """Say if an error of the model does not come out as it is, or leaves something behind."""
    module, (x,) = oracle.fresh(style)
    with torch.no_grad():
        before = module(x)
        try:
            with oracle.probe(module):
                module(x[..., :7])
        except RuntimeError as error:
            own = "shapes cannot be multiplied" in str(error)
            return "" if own and torch.equal(module(x), before) else f"changed: {error}"
    return "the error of the model is lost"


enter("forward_hooks_change", "a hook of the user's doubles what the projection gives", Doubled)
enter("error_inside", "an error of the model inside the with", Block, check=error_passes)


@ways("weigh")
class Counted:
    @options(row="S14", parts=lambda: {"calls": 0})
    def scores_count(self, q, k):
        """attention by hand that counts its own calls"""
        self.calls += 1
        return Block.weigh(self, q, k)


@ways("forward")
class Around:
    @options(row="S14", parts=lambda: {"places": Places()})
    def positions_count(self, x):
        """sinusoids made anew in each call by a module that counts"""
        return Block.forward(self, self.places(x))

    def in_place(self, x):
        """the residual is added in place, into a clone of the input"""
        x = x.clone()
        x += self.wo(self.attend(x))
        return x
