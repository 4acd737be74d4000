"""Norms by hand and other parts that count: nothing of the user's may run twice."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import oracle
from .base import TOKENS, WIDTH, Attention, Block, Norm, Style, style


class Normed(Block):
    """A block with a norm by hand in front: ``make`` is the style."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = self.make()

    def make(self) -> nn.Module:
        return Norm()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wo(self.attend(self.norm(x)))


@style(row="S14")
class NormCounts(Normed):
    """a layer norm by hand that counts its calls"""


class Rms(Norm):
    """An RMS norm that counts."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


@style(row="S14")
class NormRmsCounts(Normed):
    """an RMS norm by hand (Llama) that counts its calls"""

    def make(self) -> nn.Module:
        return Rms()


class Annotated(nn.Module):
    """The annotated Transformer's norm, counting in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.get_buffer("seen").add_(1)
        return (
            self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b_2
        )


@style(row="S14")
class NormCountsInBuffer(Normed):
    """the annotated Transformer's norm, counting in a buffer"""

    def make(self) -> nn.Module:
        return Annotated()


class Running(nn.Module):
    """A norm that moves running statistics in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(WIDTH))
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.get_buffer("mean").lerp_(x.mean((0, 1)), 0.1)
        x = x - self.get_buffer("mean")
        return x / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * self.weight


@style(row="S14")
class NormRunning(Normed):
    """a norm with running statistics"""

    def make(self) -> nn.Module:
        return Running()


class Noisy(Norm):
    """A norm with a dropout inside that is never off."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.1, training=True)


@style(row="S14")
class NormNoisy(Normed):
    """a norm with a dropout inside: random numbers"""

    def make(self) -> nn.Module:
        return Noisy()


class Hooked(Norm):
    """A norm that hands its output to a list."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks = 0
        self.register_forward_hook(self._note)

    def _note(self, module: Any, args: Any, out: Any) -> None:
        self.hooks += 1
        self.calls = 100 * self.hooks + self.calls % 100


@style(row="S14")
class NormHooked(Normed):
    """a norm with a forward hook of the user's that counts"""

    def make(self) -> nn.Module:
        return Hooked()


class Offloaded(Norm):
    """A norm whose parameter stands on no device until it is called (accelerate's offload)."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = torch.linspace(0.5, 1.5, WIDTH)
        self.gain = nn.Parameter(torch.empty(WIDTH, device="meta"))
        self.register_forward_pre_hook(self._load)
        self.register_forward_hook(self._drop)

    def _load(self, module: Any, args: Any) -> None:
        self.gain = nn.Parameter(self.stored)

    def _drop(self, module: Any, args: Any, out: Any) -> None:
        self.gain = nn.Parameter(torch.empty(WIDTH, device="meta"))


@style(row="S14")
class NormOffloaded(Normed):
    """a norm whose weights are loaded by a hook and dropped again"""

    def make(self) -> nn.Module:
        return Offloaded()


class Wrapped(Offloaded):
    """The same by a forward of the instance, as accelerate wraps it."""

    def __init__(self) -> None:
        super().__init__()
        self._forward_pre_hooks.clear()
        self._forward_hooks.clear()
        written = self.forward

        def forward(x: Tensor) -> Tensor:
            self._load(self, x)
            out = written(x)
            self._drop(self, x, out)
            return out

        self.forward = forward  # type: ignore[method-assign]


@style(row="S14")
class NormWrapped(Normed):
    """a norm whose weights are loaded by a wrapped forward (accelerate's offload)"""

    def make(self) -> nn.Module:
        return Wrapped()


@style(row="S14")
class ScoresCount(Block):
    """attention by hand that counts its own calls"""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        self.calls += 1
        return super().weigh(q, k)


@style(row="S14")
class PositionsCount(Block):
    """sinusoids made anew in each call by a module that counts"""

    def __init__(self) -> None:
        super().__init__()
        self.places = Places()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.places(x))


class Places(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        angles = torch.arange(x.shape[1])[:, None] * 10.0 ** -torch.arange(WIDTH // 2)
        return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@style(Attention(), Attention(layer=1), project=("0.wo", "1.wo"), row="S14")
def norm_shared() -> nn.Module:
    """two blocks share one norm by hand"""
    blocks = nn.Sequential(NormCounts(), NormCounts())
    blocks[1].norm = blocks[0].norm
    return blocks


@style(inputs=lambda: (torch.randn(2, TOKENS, WIDTH),))
class ForwardHooksChange(Block):
    """a forward hook of the user's doubles what the projection gives"""

    def __init__(self) -> None:
        super().__init__()
        self.wo.register_forward_hook(lambda module, args, out: out * 2)


def error_passes(style: Style) -> str:
    """Whether an error of the model comes out as it is, and leaves nothing behind."""
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


@style(check=error_passes)
class ErrorInside(Block):
    """an error of the model inside the with"""


@style()
class InPlace(Block):
    """the residual is added in place, into a clone of the input"""

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        x += self.wo(self.attend(x))
        return x
