"""What the probe remembers about a tensor while it lives: where it came from, what it is for.

A mark hangs on the tensor itself, so it ends with it and nothing outlives its layer; each run has a
name of its own for its marks, so that those of another run are never read.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..core.numerics import MASK_SCORE

NOWHERE: frozenset[int] = frozenset()
_serial = itertools.count(1)


@dataclass(slots=True)
class Mark:
    """``origin``: the token streams a tensor was made from (empty: only weights and constants);
    ``depth``: how many attentions stand before it; ``role``: what it is, if anything;
    ``shadow``: what it would be with edited rotary angles; ``wave``: the angles behind values read
    from a stored table; ``serial``: when it was made."""

    origin: frozenset[int] = NOWHERE
    depth: int = 0
    role: Any = None
    shadow: Tensor | None = None
    wave: Tensor | None = None
    serial: int = field(default_factory=lambda: next(_serial))


@dataclass(frozen=True, slots=True)
class Scores:
    """Query times key, on its way to the softmax. ``labels`` name its dimensions.

    ``base`` are the scores without the model's masks and ``hidden`` those masks, remembered only
    where an edit needs them; ``bias`` is what was added that is no mask. A loose one (no q) is
    some tensor that was masked like scores. ``q_labels`` and ``k_labels`` name the dimensions of
    q and k, their token axis "q" and their width "k". ``factor`` is what the product was
    multiplied with, and ``inner`` the part of it before a tanh; None where no number tells.
    """

    q: Tensor | None = None
    k: Tensor | None = None
    q_labels: tuple[str, ...] | None = None
    k_labels: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    q_origin: frozenset[int] = NOWHERE
    k_origin: frozenset[int] = NOWHERE
    depth: int = 0
    base: Tensor | None = None
    hidden: Tensor | None = None
    bias: Tensor | None = None
    factor: Any = 1.0
    inner: Any = None

    @property
    def loose(self) -> bool:
        return self.q is None


@dataclass(frozen=True, slots=True)
class Weights:
    """The output of a softmax, of the module at ``path``, that may be attention."""

    scores: Scores
    given: Tensor
    labels: tuple[str, ...] | None
    site: Any = None
    same: bool = True
    path: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """Weights times v of one attention, and the reshaping done to it since."""

    record: Any
    chain: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class SubLayer:
    """An attention's output on its way to the residual sum; ``exact`` while nothing changed it."""

    record: Any
    start: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Stream:
    """The residual stream; ``stack`` once an attention of that stack has been added."""

    stack: str | None = None


@dataclass(frozen=True, slots=True)
class Biased:
    """A constant that is a bias with a mask added: the two parts."""

    base: Tensor
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class Table:
    """Rows taken from a table of constants that has ``rows`` of them."""

    rows: int


@dataclass(frozen=True, slots=True)
class Ids:
    """Integers that came in with the input; ``counted`` if they were summed up along the tokens."""

    counted: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """What queries or keys make of relative positions, on its way to the scores."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Queries of one token whose heads stand on the token axis, a group of them a key head."""


def split_mask(constant: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """The mask (bool, true = hidden) and the bias of a tensor added to scores; None if absent."""
    if constant.dtype == torch.bool or not constant.is_floating_point():
        return None, constant
    hidden = constant <= MASK_SCORE
    bias = constant.masked_fill(hidden, 0.0)
    return (hidden if hidden.any() else None), (bias if bias.any() else None)
