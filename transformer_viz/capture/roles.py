"""What the probe remembers about one tensor: its mark, and the roles that a tensor can have.

Plain records without rules: how marks travel stands in `lineage.py` and `propagation.py`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .axes.atoms import Axes

NOWHERE: frozenset[int] = frozenset()
_serial = itertools.count(1)
Folded = tuple[tuple[int, ...], tuple[str, ...]]  # a shape, and the labels of its dimensions


@dataclass(frozen=True, slots=True)
class Front:
    """What stands before the newest tokens in keys that grew: ``memory`` columns that no token
    made, then ``cached`` tokens of earlier passes; ``written`` into a store of a fixed length;
    ``joined`` tokens of the same input, which an earlier pass may have asked about."""

    memory: int = 0
    cached: int = 0
    written: bool = False
    joined: int = 0


@dataclass(slots=True)
class Mark:
    """``origin``: the token streams a tensor was made from (empty: only weights and constants);
    ``tokens``: the sequences whose tokens its rows are (negative: of a constant's rows);
    ``depth``: how many attentions stand before it; ``role``: what it is, if anything;
    ``edited_rotary``: what it would be with edited rotary angles; ``wave``: the angles behind
    values read from a stored table; ``axes``: what its axes are made of, None where no rule tells;
    ``front``: what stands before its newest tokens; ``serial``: when it was made; ``scored``: when
    the latest product of queries and keys was made that has a part in it."""

    origin: frozenset[int] = NOWHERE
    depth: int = 0
    role: Any = None
    edited_rotary: Tensor | None = None
    wave: Tensor | None = None
    axes: Axes | None = None
    front: Front | None = None
    tokens: frozenset[int] = NOWHERE
    serial: int = field(default_factory=lambda: next(_serial))
    scored: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """Query times key, on its way to the softmax. ``labels`` name its dimensions.

    ``base`` are the scores without the model's masks and ``hidden`` those masks, remembered only
    where an edit needs them; ``bias`` is what was added that is no mask. A loose one (no q) is
    some tensor that was masked like scores. ``q_labels`` and ``k_labels`` name the dimensions of
    q and k, their token axis "q" and their width "k". ``factor`` is what the product was
    multiplied with, and ``inner`` the part of it before a tanh; None where no number tells.
    ``folded`` are shape and labels from before all queries were put on one axis with other things.
    ``exponential`` once an exponential was taken of them; ``front`` counts columns that were joined
    before the first key.
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
    folded: Folded | None = None
    exponential: bool = False
    front: int = 0

    @property
    def loose(self) -> bool:
        return self.q is None


@dataclass(frozen=True, slots=True)
class Weights:
    """The output of a softmax, of the module at ``path``, that may be attention; ``same`` while
    nothing changed it, ``plan`` the edits of its place; ``folded`` as in `Scores`."""

    scores: Scores
    given: Tensor
    labels: tuple[str, ...] | None
    site: Any = None
    same: bool = True
    path: str = ""
    plan: Any = None
    folded: Folded | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Weights times values by broadcasting, before the sum over the keys."""

    weights: Weights
    p: Tensor
    v: Tensor
    dim: int


@dataclass(frozen=True, slots=True)
class Context:
    """Weights times v of one attention, and the reshaping done to it since; of weights that no
    softmax made, ``made`` is the serial number of their mark, and ``edited`` whether an edit met
    them."""

    record: Any
    chain: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = ()
    made: int = 0
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of weights that no softmax made, by the serial number of their mark."""

    made: int


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
    """A product with what only weights made: queries or keys times relative positions, on its way
    to the scores; or these ``scores``, of learned queries or keys, if a softmax takes them."""

    scores: Scores | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """Queries of one token whose heads stand on the token axis, a group of them a key head."""
