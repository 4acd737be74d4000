"""Walkthrough of one head: all stages between a token's embedding and the next layer, in numbers.

Plain read-only data of one run, filled by :mod:`transformer_viz.walkthrough`. A :class:`Stage` is
one step, a :class:`Walkthrough` the sequence of all steps, and :class:`Terms` the sum that gives
one number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..i18n import mark
from .apply_edits import HIDING
from .interventions import Intervention
from .renamed import renamed
from .sites import Site

#: Arrays of each kind of stage and their axes. ``out`` is the input of the next stage; ``x`` is the
#: input of this one. Brackets in the comments list the ``numbers`` and ``words`` of a kind.
FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    # a token's row of the embedding table, times a number [scale, id (-1: vectors were given)]
    "embedding": {"token": ("d_model",), "out": ("d_model",)},
    # the position's row is added [place: the token's own number; edits are included in the row]
    "position": {"x": ("d_model",), "table": ("d_model",), "out": ("d_model",)},
    # residual stream at the input of each layer, this one the last; added = out - x
    "below": {
        "x": ("d_model",),
        "layers": ("layer", "d_model"),
        "added": ("d_model",),
        "out": ("d_model",),
    },
    # output of the layer's other attention, added before (self) or after (cross); out = scale x +
    # added [scale]
    "beside": {"x": ("d_model",), "added": ("d_model",), "out": ("d_model",)},
    # centred = x - mean; normal = centred / spread; out = normal gain + bias
    # [mean, variance, eps, spread; norm: layer, annotated (unbiased, eps outside of the root), or
    # rms (nothing is subtracted: no mean, centred or bias; variance is the mean square of x)]
    "norm": {
        "x": ("d_model",),
        "centred": ("d_model",),
        "normal": ("d_model",),
        "gain": ("d_model",),
        "bias": ("d_model",),
        "out": ("d_model",),
    },
    # q is computed from x; k and v from each row of memory. No k if scores are by location
    # [made_from: origin of memory's rows: normed (as x), stream (post-norm; also query_only, if a
    # norm is applied to the query only) or encoder (its last states)]
    "qkv": {
        "x": ("d_model",),
        "memory": ("key", "d_model"),
        "q": ("d_k",),
        "k": ("key", "d_k"),
        "v": ("key", "d_v"),
    },
    # rotary positions rotate the pair (i, i + d_k/2) of q and k by an angle; q and k are rotated
    "turn": {
        "q_before": ("d_k",),
        "k_before": ("key", "d_k"),
        "angle": ("pair",),
        "k_angle": ("key", "pair"),
        "q": ("d_k",),
        "k": ("key", "d_k"),
    },
    # out = q·k for every key [score]. general: mapped = q W, out = mapped·k. additive: pairs =
    # tanh(q + k), out = pairs·vector. location: k is a learned column for each position, no key at
    # all
    "score": {
        "q": ("d_k",),
        "k": ("key", "d_k"),
        "mapped": ("d_k",),
        "pairs": ("key", "d_k"),
        "vector": ("d_k",),
        "out": ("key",),
    },
    # out = x / divisor, the square root of d_k (only scaled_dot has this stage) [divisor]
    "scale": {"x": ("key",), "out": ("key",)},
    # seen: 1 for visible keys; out is -inf or the model's own very low number elsewhere [hidden:
    # their number; why: for each key one of REASONS]
    "mask": {"x": ("key",), "seen": ("key",), "out": ("key",)},
    # out = x / temperature [temperature; 1 without an edit, 0 is hard attention: out = x]
    "temperature": {"x": ("key",), "out": ("key",)},
    # exponentials = exp(x - most); softmax = exponentials / total; out are the weights of the map:
    # softmax times head [most, total, head (1 without an edit); form: soft; hard (only the
    # largest); uniform (all visible keys equally); nothing (no key is visible: zeros)]
    "softmax": {
        "x": ("key",),
        "exponentials": ("key",),
        "softmax": ("key",),
        "out": ("key",),
    },
    # parts = each key's weight times its v; out is their sum
    "mix": {"x": ("key",), "v": ("key", "d_v"), "parts": ("key", "d_v"), "out": ("d_v",)},
    # outputs of all heads, concatenated; this head's part begins at start [start, stop]
    "concat": {"x": ("d_v",), "heads": ("head", "d_v"), "out": ("heads x d_v",)},
    # out = x W + bias; shares: each head's slice times its rows of W, whose sum is out without the
    # bias
    "project": {
        "x": ("heads x d_v",),
        "shares": ("head", "d_model"),
        "bias": ("d_model",),
        "out": ("d_model",),
    },
    # out = scale x + added: x is the residual stream, added the output of the sub-layer [scale: 1
    # without an edit]
    "residual": {"x": ("d_model",), "added": ("d_model",), "out": ("d_model",)},
    # inner = x W + b; out = activation(inner), times gate = x W' + b' if the model is gated
    # [activation]
    "inner": {
        "x": ("d_model",),
        "inner": ("d_ff",),
        "gate": ("d_ff",),
        "out": ("d_ff",),
    },
    # out = x W + bias
    "outer": {"x": ("d_ff",), "bias": ("d_model",), "out": ("d_model",)},
    # some models set the rows of padding to zero
    "zeroed": {"x": ("d_model",), "out": ("d_model",)},
    # for models other than the reference Transformer: the steps between q·k and the softmax. If
    # scale is not 0, out = x scale / temperature at visible keys; else further steps are unknown
    # [scale, temperature (1 without an edit)]
    "between": {"x": ("key",), "seen": ("key",), "out": ("key",)},
}

#: Reason why a key is visible or hidden: empty for none; the model's own masks (padding; a later
#: token); an edit, by its kind; or visible only because an edit lifted the causal mask. ``masked``
#: is used if the reason is unknown.
REASONS = (
    "",
    "padding",
    "future",
    *(edit.kind for edit in HIDING),
    "lifted",
    "masked",
)

#: Arrays of each kind with numbers that :func:`transformer_viz.walkthrough.terms` can expand. Names
#: that are no array belong to ``Stage.numbers``.
OPENS: dict[str, tuple[str, ...]] = {
    "embedding": ("out",),
    "position": ("out",),
    "below": ("added", "out"),
    "beside": ("out",),
    "norm": ("mean", "centred", "variance", "spread", "normal", "out"),
    "qkv": ("q", "k", "v"),
    "turn": ("q", "k"),
    "score": ("mapped", "pairs", "out"),
    "scale": ("out",),
    "mask": (),
    "temperature": ("out",),
    "softmax": ("exponentials", "total", "softmax", "out"),
    "mix": ("parts", "out"),
    "concat": (),
    "project": ("shares", "out"),
    "residual": ("out",),
    "inner": ("inner", "gate", "out"),
    "outer": ("out",),
    "zeroed": (),
    "between": (),
}

#: Text for a model whose layers differ from the reference Transformer.
PROBLEM = mark(
    "This model was built by another code, so only the way from q·k to weights times v is known "
    "here, as the run showed it; what makes q, k and v, and what comes after, is not."
)
#: Text for a model whose scores are no product of a query and a key.
NO_PRODUCT = mark(
    "This model was built by another code, and its scores are no product of a query and a key that "
    "is known here; only its weights and the values that they mix can be shown."
)


@dataclass(frozen=True, eq=False)
class Stage:
    """A step of the walkthrough, with all its numbers.

    Attributes:
        kind: One of :data:`FORMS`, which names the axes of ``arrays``.
        block: ``embedding``, ``self``, ``cross``, ``feed_forward``, or ``final`` for the norm after
            the last layer.
        arrays: float32, read-only; arrays that this model lacks are left out.
        numbers: Finite numbers.
        words: Plain texts.
        why: For a mask, the reason for each key.
    """

    kind: str
    block: str
    arrays: dict[str, np.ndarray]
    numbers: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    why: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the stage within a walkthrough, the same under every edit: ``norm.self``."""
        return f"{self.kind}.{self.block}"

    def __getitem__(self, array: str) -> np.ndarray:
        """Return an array by its name.

        Raises:
            LookupError: The stage has no such array. The message names those it has.
        """
        if array not in self.arrays:
            raise LookupError(f"{self.name} has no {array!r}; it has {', '.join(self.arrays)}.")
        return self.arrays[array]

    def shape(self, array: str) -> tuple[tuple[str, int], ...]:
        """Return the axes of an array and their sizes: ``(("key", 14), ("d_k", 32))``."""
        return tuple(zip(FORMS[self.kind][array], self[array].shape, strict=True))


@dataclass(frozen=True)
class Number:
    """Address of one number of a walkthrough: stage, array, and its index along each axis.

    For one of ``Stage.numbers``, ``array`` is its name and the index is empty.
    """

    stage: str
    array: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return "/".join((self.stage, self.array, *map(str, self.index)))


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """All stages from a token's embedding to the output of a head and its layer.

    Attributes:
        site: The head.
        row: Row of the query, from 0.
        query, key: Sentences of rows and columns (``source`` or ``target``).
        stages: Stages in the order of the model, under the edits of ``intervention``.
        intervention: Edits of the run.
        problem: Reason why the walkthrough is incomplete, a text for ``say``; empty if complete.
    """

    site: Site
    row: int
    query: str
    key: str
    stages: tuple[Stage, ...]
    intervention: Intervention
    problem: str = ""

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __contains__(self, name: object) -> bool:
        return any(stage.name == name for stage in self.stages)

    def __getitem__(self, name: str) -> Stage:
        """Return a stage by its name (``norm.self``), or the first one of a kind.

        Raises:
            LookupError: There is no such stage. The message names the stages.
        """
        for stage in self.stages:
            if name in (stage.name, stage.kind):
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise LookupError(f"This chain has no stage {name!r}; it has {names}.")

    def number(self, text: str) -> Number:
        """Return the address of a text such as ``qkv.self/k/3/17``; the inverse of ``str``.

        Raises:
            LookupError: An unknown stage, array or index. The message names the known ones.
        """
        stage, _, rest = text.partition("/")
        array, *places = rest.split("/")
        lone = array in self[stage].numbers
        sizes = () if lone else self[stage][array].shape
        plain = all(place.isascii() and place.isdecimal() for place in places)
        if not plain or len(places) != len(sizes):
            raise LookupError(f"{text!r} is no number; {array} has {len(sizes)} indices from 0.")
        index = tuple(map(int, places))
        if any(place >= size for place, size in zip(index, sizes, strict=True)):
            raise LookupError(f"{text!r} is outside of {array}, whose shape is {list(sizes)}.")
        return Number(self[stage].name, array, index)

    def value(self, number: Number) -> float:
        """Return the number at an address."""
        stage = self[number.stage]
        if number.array in stage.numbers:
            return stage.numbers[number.array]
        return float(stage[number.array][number.index])


@dataclass(frozen=True, eq=False)
class Terms:
    """A number as a sum that can be computed manually: ``then((a·b + bias) / divisor)``.

    Attributes:
        number: Address of the number.
        a, b: Factors, ``[term]`` float32.
        total: The number in the run itself.
        a_name, b_name: Symbols of the factors in the formula (``x``, ``W``, ``q``, ``k`` ...).
            ``b_name`` is empty if all of ``b`` are 1 or -1.
        axis: Axis of the terms, as in :data:`FORMS`, or ``parts``.
        then: Function applied to the sum (``exp``, ``tanh``, ``sqrt``, an activation), or empty.
        labels: Name of each term if ``axis`` is ``parts``.
    """

    number: Number
    a: np.ndarray
    b: np.ndarray
    total: float
    a_name: str
    b_name: str
    axis: str
    bias: float | None = None
    divisor: float = 1.0
    then: str = ""
    labels: tuple[str, ...] = ()

    @property
    def products(self) -> np.ndarray:
        """Terms of the sum, ``[term]`` float64."""
        return np.asarray(self.a.astype(np.float64) * self.b)

    @property
    def sum(self) -> float:
        """Sum in float64, bias and divisor included, before ``then``."""
        return (float(self.products.sum()) + (self.bias or 0.0)) / self.divisor

    def digits(self, shown: int = 4, most: int = 9) -> int:
        """Return the decimals of the factors needed to reproduce ``sum`` to ``shown`` decimals.

        The result is the smallest number from ``shown`` whose rounded sum differs from ``sum`` by
        at most half a unit of the last shown decimal; ``most`` if there is none.
        """
        for digits in range(shown, most):
            a, b = (np.round(x.astype(np.float64), digits) for x in (self.a, self.b))
            again = float((a * b).sum()) + round(self.bias or 0.0, digits)
            divisor = round(self.divisor, digits)
            if divisor and abs(again / divisor - self.sum) <= 0.5 * 10.0**-shown:
                return digits
        return most


if not TYPE_CHECKING:  # deprecated, until the next minor release
    __getattr__ = renamed(__name__, {"Inside": "Walkthrough"})
