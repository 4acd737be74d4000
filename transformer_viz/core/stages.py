"""One head's whole chain in numbers: the stages between a word's embedding and the next layer.

Plain read-only data, as one run made it; :mod:`transformer_viz.walkthrough` fills it. A
:class:`Stage` is one step that a finger follows, an :class:`Walkthrough` all of them in order, and
:class:`Terms` the sum behind one number.
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

#: The arrays of each kind of stage and their axes. ``out`` goes on to the next stage; ``x`` is what
#: came in. What is in brackets behind a kind in the comments are its ``numbers`` and ``words``.
FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    # a word's row of the table, times a number [scale, id (-1: vectors were given)]
    "embedding": {"token": ("d_model",), "out": ("d_model",)},
    # the position's row is added [place: the word's own number; the edits are in the row]
    "position": {"x": ("d_model",), "table": ("d_model",), "out": ("d_model",)},
    # what the layers below made of it: the stream as it entered each layer, this one the last;
    # added = out - x
    "below": {
        "x": ("d_model",),
        "layers": ("layer", "d_model"),
        "added": ("d_model",),
        "out": ("d_model",),
    },
    # what the layer's other attention adds before (self) or after (cross); out = scale x + added
    # [scale]
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
    # x makes q; each row of memory makes a k and a v. There is no k where scores are by location
    # [made_from: what memory's rows are: normed (as x), stream (post-norm; and query_only, where a
    # norm touches the query alone) or encoder (its last states)]
    "qkv": {
        "x": ("d_model",),
        "memory": ("key", "d_model"),
        "q": ("d_k",),
        "k": ("key", "d_k"),
        "v": ("key", "d_v"),
    },
    # rotary positions turn the pair (i, i + d_k/2) of q and k by an angle; q and k after it
    "turn": {
        "q_before": ("d_k",),
        "k_before": ("key", "d_k"),
        "angle": ("pair",),
        "k_angle": ("key", "pair"),
        "q": ("d_k",),
        "k": ("key", "d_k"),
    },
    # out = q·k for every key [score]. general: mapped = q W, out = mapped·k. additive: pairs =
    # tanh(q + k), out = pairs·vector. location: k is a learned column for each place, no key at all
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
    # seen: 1 where the row may look; out is -inf or the model's own very low number elsewhere
    # [hidden: how many; why: for each key one of REASONS]
    "mask": {"x": ("key",), "seen": ("key",), "out": ("key",)},
    # out = x / temperature [temperature; 1 where nobody changed it, 0 is hard attention: out = x]
    "temperature": {"x": ("key",), "out": ("key",)},
    # exponentials = exp(x - most); softmax = exponentials / total; out are the weights of the map:
    # softmax times head [most, total, head (1 where nobody changed it); form: soft; hard (the
    # largest takes all); uniform (all seen alike); nothing (no key is left: zeros)]
    "softmax": {
        "x": ("key",),
        "exponentials": ("key",),
        "softmax": ("key",),
        "out": ("key",),
    },
    # parts = each key's weight times its v; out is their sum
    "mix": {"x": ("key",), "v": ("key", "d_v"), "parts": ("key", "d_v"), "out": ("d_v",)},
    # what all heads found, one after another; this head's own part begins at start
    # [start, stop]
    "concat": {"x": ("d_v",), "heads": ("head", "d_v"), "out": ("heads x d_v",)},
    # out = x W + bias; shares: each head's slice times its own rows of W, which add up to out
    # without the bias
    "project": {
        "x": ("heads x d_v",),
        "shares": ("head", "d_model"),
        "bias": ("d_model",),
        "out": ("d_model",),
    },
    # out = scale x + added: x is the stream, added what the sub-layer made of it
    # [scale: 1 where nobody changed it]
    "residual": {"x": ("d_model",), "added": ("d_model",), "out": ("d_model",)},
    # inner = x W + b; out = activation(inner), times gate = x W' + b' where the model is gated
    # [activation]
    "inner": {
        "x": ("d_model",),
        "inner": ("d_ff",),
        "gate": ("d_ff",),
        "out": ("d_ff",),
    },
    # out = x W + bias
    "outer": {"x": ("d_ff",), "bias": ("d_model",), "out": ("d_model",)},
    # some models write zeros into the rows of padding
    "zeroed": {"x": ("d_model",), "out": ("d_model",)},
    # of a model that is not our Transformer: what lies between q·k and the softmax. Where scale is
    # not 0, out = x scale / temperature at the keys that are seen; else more happens there than
    # can be told [scale, temperature (1 where nobody changed it)]
    "between": {"x": ("key",), "seen": ("key",), "out": ("key",)},
}

#: Why a key is seen or hidden: nothing to say; the model's own masks (padding; a word that comes
#: later); an edit, by its kind; or seen only since an edit lifted the causal mask. ``masked`` is
#: said where nobody knows more.
REASONS = (
    "",
    "padding",
    "future",
    *(edit.kind for edit in HIDING),
    "lifted",
    "masked",
)

#: Of each kind the arrays whose numbers :func:`transformer_viz.walkthrough.terms` can open.
#: Names that are no array are those of ``Stage.numbers``.
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

#: What is said of a model whose layers are not those of our Transformer.
PROBLEM = mark(
    "This model was built by another code, so only the way from q·k to weights times v is known "
    "here, as the run showed it; what makes q, k and v, and what comes after, is not."
)
#: ... and where even its scores are no product of a query and a key.
NO_PRODUCT = mark(
    "This model was built by another code, and its scores are no product of a query and a key that "
    "is known here; only its weights and the values that they mix can be shown."
)


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of the chain, with all its numbers.

    ``kind`` is one of :data:`FORMS`, which names the axes of ``arrays`` (float32, read-only; those
    that this model does not have are left out). ``block`` says where it stands: ``embedding``,
    ``self``, ``cross``, ``feed_forward``, or ``final`` for the norm above the last layer.
    ``numbers`` are finite; ``words`` are plain words, ``why`` of a mask one a key.
    """

    kind: str
    block: str
    arrays: dict[str, np.ndarray]
    numbers: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    why: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The stage's own name within a chain, the same under every edit: ``norm.self``."""
        return f"{self.kind}.{self.block}"

    def __getitem__(self, array: str) -> np.ndarray:
        """An array by its name.

        Raises:
            LookupError: the stage has none of this name; names those it has.
        """
        if array not in self.arrays:
            raise LookupError(f"{self.name} has no {array!r}; it has {', '.join(self.arrays)}.")
        return self.arrays[array]

    def shape(self, array: str) -> tuple[tuple[str, int], ...]:
        """The axes of an array and their sizes: ``(("key", 14), ("d_k", 32))``."""
        return tuple(zip(FORMS[self.kind][array], self[array].shape, strict=True))


@dataclass(frozen=True)
class Number:
    """The address of one number of a chain: stage, array, and its index along each axis.

    One of ``Stage.numbers`` has its name in the place of the array, and no index.
    """

    stage: str
    array: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return "/".join((self.stage, self.array, *map(str, self.index)))


@dataclass(frozen=True, eq=False)
class Walkthrough:
    """How one word comes to what a head, and then its whole layer, makes of it.

    ``site`` names the head, ``row`` the query's number from 0; ``query`` and ``key`` the sentences
    of rows and columns (``source`` or ``target``); ``stages`` stand in the order of the model,
    under the edits of ``intervention``. ``problem`` says in a sentence why a chain is not whole,
    and is empty where it is (a text for ``say``).
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
        """A stage by its name (``norm.self``), or by its kind alone: the first one of it.

        Raises:
            LookupError: the chain has no such stage; names those it has.
        """
        for stage in self.stages:
            if name in (stage.name, stage.kind):
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise LookupError(f"This chain has no stage {name!r}; it has {names}.")

    def number(self, text: str) -> Number:
        """The address that a text such as ``qkv.self/k/3/17`` names; the inverse of ``str``.

        Raises:
            LookupError: a stage, array or index that this chain lacks; names those it has.
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
        """The number at an address."""
        stage = self[number.stage]
        if number.array in stage.numbers:
            return stage.numbers[number.array]
        return float(stage[number.array][number.index])


@dataclass(frozen=True, eq=False)
class Terms:
    """One number as a sum that can be done by hand: ``then((a·b + bias) / divisor)``.

    ``a`` and ``b`` ``[term]`` float32 are what is multiplied, ``a_name`` and ``b_name`` the symbols
    of the formula that they belong to (``x``, ``W``, ``q``, ``k`` ...; ``b_name`` is empty where
    all of ``b`` are 1 or -1). ``total`` is the number that the run itself had. ``then`` is what is
    done to the sum (``exp``, ``tanh``, ``sqrt``, an activation), empty for nothing. ``axis`` names
    what the terms run along, as in :data:`FORMS`; where it is ``parts``, ``labels`` names each.
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
        """What is added up, ``[term]`` float64."""
        return np.asarray(self.a.astype(np.float64) * self.b)

    @property
    def sum(self) -> float:
        """The sum in float64, bias and divisor included, before ``then``."""
        return (float(self.products.sum()) + (self.bias or 0.0)) / self.divisor

    def digits(self, shown: int = 4, most: int = 9) -> int:
        """How many decimals the factors need so that their sum gives ``sum`` to ``shown`` decimals.

        The least number from ``shown`` on with which the same sum of rounded numbers is at most
        half a unit of the last shown decimal away from ``sum``; ``most`` where none is.
        """
        for digits in range(shown, most):
            a, b = (np.round(x.astype(np.float64), digits) for x in (self.a, self.b))
            again = float((a * b).sum()) + round(self.bias or 0.0, digits)
            divisor = round(self.divisor, digits)
            if divisor and abs(again / divisor - self.sum) <= 0.5 * 10.0**-shown:
                return digits
        return most


if not TYPE_CHECKING:  # until the next minor release
    __getattr__ = renamed(__name__, {"Inside": "Walkthrough"})
