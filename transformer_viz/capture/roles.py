"""Data that the probe keeps about one tensor: its mark, and the possible roles of a tensor.

Plain records without rules; `lineage.py` and `propagation.py` hold the rules.
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
    """Columns before the newest tokens in keys that grew.

    ``memory`` columns belong to no token, followed by ``cached`` tokens of earlier passes.
    ``written`` means a cache of fixed length. ``joined`` tokens are of the same input, possibly
    queries of an earlier pass.
    """

    memory: int = 0
    cached: int = 0
    written: bool = False
    joined: int = 0


@dataclass(slots=True)
class Mark:
    """Mark of a tensor.

    Attributes:
        origin: Token streams it was computed from (empty: only weights and constants).
        depth: Number of attentions before it.
        role: Role of the tensor, or None.
        edited_rotary: Its value with edited rotary angles.
        wave: Angles of values read from a stored table.
        axes: Composition of its axes, None if no rule applies.
        front: Columns before its newest tokens.
        tokens: Sequences whose tokens are its rows (negative: rows of a constant).
        serial: Creation number.
        scored: Creation number of the latest product of queries and keys that contributes to it.
    """

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
    """Query times key, before the softmax. ``labels`` name its dimensions.

    Attributes:
        q: Queries; None for a loose one, a tensor that was masked like scores.
        q_labels: Labels of q, its token axis "q" and its width "k"; ``k_labels`` likewise.
        base: Scores without the model's masks; ``hidden`` are those masks. Kept only for edits.
        bias: Sum of added terms that are no mask.
        factor: Factor of the product, and ``inner`` the part of it before a tanh; None if unknown.
        folded: Shape and labels before all queries were merged into one axis with others.
        exponential: True after an exponential.
        front: Number of columns joined before the first key.
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
    """Output of a softmax, of the module at ``path``, that may be attention.

    ``same`` is True while unchanged, ``plan`` are the edits of its site, ``folded`` is as in
    `Scores`.
    """

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
    """Weights times v of one attention, and its reshaping since.

    For weights without a softmax, ``made`` is the serial number of their mark, and ``edited`` is
    True if an edit was applied.
    """

    record: Any
    chain: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = ()
    made: int = 0
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """Sum of weights without a softmax, by the serial number of their mark."""

    made: int


@dataclass(frozen=True, slots=True)
class SubLayer:
    """Attention output before the residual sum; ``exact`` is True while unchanged."""

    record: Any
    start: int
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Stream:
    """Residual stream; ``stack`` is set once an attention of that stack has been added."""

    stack: str | None = None


@dataclass(frozen=True, slots=True)
class Biased:
    """Constant that is a bias with a mask added: the two parts."""

    base: Tensor
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class Table:
    """Rows taken from a table of constants with ``rows`` rows."""

    rows: int


@dataclass(frozen=True, slots=True)
class Ids:
    """Integers of the input; ``counted`` is True after a cumulative sum along the tokens."""

    counted: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """Product with a constant computed from weights: queries or keys times relative positions.

    It is added to the scores later. With learned queries or keys it may be the ``scores``
    themselves, if a softmax follows.
    """

    scores: Scores | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """Queries of one token with heads on the token axis, one group of heads per key head."""
