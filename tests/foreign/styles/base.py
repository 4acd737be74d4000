"""The description of a style, the list of all styles, and the block that most of them fill in."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..witness import Attention, Other, groups

BATCH, TOKENS, WIDTH, HEADS = 2, 9, 32, 4
LAWS = ("temperature", "head_off", "hidden_key", "cut_link")
sdpa = F.scaled_dot_product_attention


def vectors() -> tuple[Tensor]:
    return (torch.randn(BATCH, TOKENS, WIDTH),)


def ids() -> tuple[Tensor]:
    return (torch.randint(50, (BATCH, TOKENS)),)


def call(module: nn.Module, *inputs: Any) -> Any:
    return module(*inputs)


def same(module: nn.Module) -> nn.Module:
    return module


@dataclass(frozen=True)
class Style:
    """One way to write a module, and the truth about it.

    ``truth`` lists its softmaxes in call order. ``project`` are the paths of the linear layers
    whose input holds the heads side by side (``=wo``: change its weight, no hook reaches it), or a
    function ``(module, head)`` that silences a head; none: the witness zeroes weights. ``run``
    calls the module, ``plain`` calls it for the witness where ``run`` leads past it; ``probed``
    picks what is probed. ``taps``: its softmax is none of aten's, it calls ``tap`` with it.
    ``says`` is what a true sentence must match where the probe shows nothing. ``rounds``: a fused
    attention is replaced by its formula, so outputs may differ in rounding. ``later``: backward
    runs after the with. ``tolerance`` is relative, of outputs and edits; ``exact`` of the weights
    that are shown. ``needs``: what a machine may lack, so that it does not run at all.
    ``check`` gets the style and returns a fault, or nothing. ``row`` is the row of the list of
    known faults.
    """

    name: str
    build: Callable[[], nn.Module]
    truth: tuple[Attention | Other, ...]
    about: str = ""
    row: str = ""
    inputs: Callable[[], tuple[Any, ...]] = vectors
    run: Callable[..., Any] = call
    plain: Callable[..., Any] | None = None
    probed: Callable[[nn.Module], nn.Module] = same
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    project: str | tuple[str, ...] | Callable[[nn.Module, int], None] | None = "wo"
    head: int = 1
    key: int = 1
    laws: tuple[str, ...] = LAWS
    taps: bool = False
    train: bool = False
    grad: bool = False
    says: str = ""
    rounds: bool = False
    later: bool = False
    needs: str = ""
    tolerance: float = 1e-5
    exact: float = 1e-5
    check: Callable[[Style], str] | None = None

    @property
    def attentions(self) -> list[Attention]:
        return [role for role in self.truth if isinstance(role, Attention)]

    @property
    def asked(self) -> tuple[str, ...]:
        """The laws that are asked: a link can be cut where rows are an axis of their own."""
        plain = all(
            "q" in groups(role.axes) and (role.parts == 1 or role.join == "h")
            for role in self.attentions
        )
        laws = self.laws if self.attentions else self.laws[:2]
        return tuple(law for law in laws if law != "cut_link" or plain)


STYLES: dict[str, Style] = {}


def enter(
    name: str, about: str, build: Any, *truth: Attention | Other, none: bool = False, **words: Any
) -> None:
    """Enter a builder into the list; no ``truth`` is one plain attention, or with ``none`` none."""
    assert name not in STYLES, name
    truth = truth or (() if none else (Attention(),))
    STYLES[name] = Style(name, build, truth, about, **words)


def style(*truth: Attention | Other, **words: Any) -> Callable[[Any], Any]:
    """Enter a class, or a function that builds a module, under its name and docstring."""

    def decorate(build: Any) -> Any:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", build.__name__).lower()
        enter(name, build.__doc__.strip(), build, *truth, **words)
        return build

    return decorate


def ways(part: str, base: type[Module] | None = None) -> Callable[[type], type]:
    """Enter each function of a class: a module like ``base`` with it as its method ``part``."""

    def decorate(table: type) -> type:
        for name, function in vars(table).items():
            if not name.startswith("_"):
                truth, words = getattr(function, "options", ((), {}))
                words = dict(words)
                methods = {part: function} | words.pop("methods", {})
                build = (base or Block).of(**methods)
                enter(name, function.__doc__.strip(), build, *truth, **words)
        return table

    return decorate


def options(*truth: Attention | Other, parts: Any = None, **words: Any) -> Callable[[Any], Any]:
    """Give the truth and other fields of a style to `ways`; ``parts`` makes its other modules."""

    def decorate(function: Any) -> Any:
        methods = {} if parts is None else {"parts": staticmethod(parts)}
        function.options = (truth, {"methods": methods, **words})
        return function

    return decorate


def variants(part: str, table: dict[str, tuple[Any, ...]], base: Any = None, **words: Any) -> None:
    """Enter short styles: by name what it is, and the method ``part`` of a module like ``base``."""
    for name, (about, function) in table.items():
        enter(name, about, (base or Block).of(**{part: function}), **words)


class Module(nn.Module):
    """A module of ``parts``, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.take(self.parts())

    def take(self, parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            setattr(self, name, part)

    @classmethod
    def of(cls, **methods: Any) -> type[Module]:
        """A subclass with other methods: all that a short style needs."""
        return type(cls.__name__, (cls,), methods)

    def parts(self) -> dict[str, Any]:
        return {}

    def tap(self, what: str, x: Tensor) -> Tensor:
        """Where the witness reads what it cannot see itself; does nothing."""
        return x


class Block(Module):
    """Self-attention of 4 heads of 8 with a residual connection; its methods are the style."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        with torch.no_grad():  # logits near 1: an edit is to make a difference
            self.wq.weight *= 3
            self.wk.weight *= 3
        self.take(self.parts())

    def split(self, x: Tensor) -> Tensor:
        """``[batch, token, width]`` as ``[batch, head, token, width of a head]``."""
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def qkv(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x; keys and values of y, or of x too."""
        y = x if y is None else y
        return self.split(self.wq(x)), self.split(self.wk(y)), self.split(self.wv(y))

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5

    def soft(self, s: Tensor) -> Tensor:
        return s.softmax(-1)

    def weigh(self, q: Tensor, k: Tensor) -> Tensor:
        return self.soft(self.scores(q, k))

    def combine(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weigh(q, k) @ v

    def attend(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        return self.join(self.combine(*self.qkv(x, y)))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wo(self.attend(x))


class Stack(Module):
    """Blocks one after the other."""

    block, depth = Block, 2

    def parts(self) -> dict[str, Any]:
        return {"layers": nn.ModuleList(self.block() for _ in range(self.depth))}

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def library(**words: Any) -> nn.Module:
    """An nn.MultiheadAttention with logits near 1."""
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **words)
    with torch.no_grad():
        attention.in_proj_weight *= 2
    return attention


class Norm(nn.Module):
    """A layer norm by hand that counts its calls."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        x = x - x.mean(-1, keepdim=True)
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def causal(scores: Tensor) -> Tensor:
    """Scores with later keys hidden."""
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf)
