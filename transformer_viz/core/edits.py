"""Edits of a run: one small frozen dataclass per kind, with its checks and descriptions.

An edit leaves the model unchanged. The probe, or the recorder of the reference Transformer, applies
it during a forward pass (`apply_edits.py`). The base classes are in `editing/base.py`. See
docs/add-an-edit.md.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

from ..i18n import join_words, mark, say
from .editing.base import SELECTORS as SELECTORS
from .editing.base import Amount as Amount
from .editing.base import Edit as Edit
from .editing.base import HidingEdit as HidingEdit
from .editing.base import require as _require
from .editing.swaps import MeanHead, SwapHead, SwapPattern, SwapStream
from .plain_numbers import whole, wholes
from .sites import Site

MOST_PADDING = 10_000  # tokens


@dataclass(frozen=True, kw_only=True)
class Temperature(Amount):
    """Divides the complete scores before the softmax; 1 has no effect, 0 is hard attention.

    The division is implemented in `apply_edits.py`, `Plan.changed_scores`.
    """

    kind: ClassVar[str] = "temperature"
    acts_on: ClassVar[str] = "scores"
    least: ClassVar[float] = 0

    def change(self, source: tuple[str, ...] | None = None) -> str:
        if not self.value:
            return say("hard attention (temperature 0)")
        return say("temperature {value:g}", value=self.value)


@dataclass(frozen=True, kw_only=True)
class ScaleHead(Amount):
    """Multiplies a head's weights, before the output projection mixes heads; 0 switches it off."""

    kind: ClassVar[str] = "scale_head"
    acts_on: ClassVar[str] = "weights"

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return say("off") if self.value == 0 else say("scaled by {value:g}", value=self.value)


@dataclass(frozen=True, kw_only=True)
class UniformHead(Edit):
    """Makes a head attend to all visible keys equally; ``on`` false cancels a wider edit."""

    kind: ClassVar[str] = "uniform_head"
    acts_on: ClassVar[str] = "scores"  # needs the mask
    on: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(isinstance(self.on, bool), self, "on", "true or false", self.on)

    @property
    def idle(self) -> bool:
        return not self.on

    def to_dict(self) -> dict[str, Any]:  # default "on" left out, as in old files
        return {word: value for word, value in super().to_dict().items() if value is not True}

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return say("looks at all visible words alike") if self.on else say("looks as trained")


@dataclass(frozen=True, kw_only=True)
class Causal(HidingEdit):
    """Switches the causal mask of self-attention: on hides later tokens, off shows them."""

    kind: ClassVar[str] = "causal"
    reason: ClassVar[str] = mark("hidden: an edit, no later words")
    on: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(isinstance(self.on, bool), self, "on", "true or false", self.on)

    def matches(self, site: Site) -> bool:
        return super().matches(site) and site.block == "self"

    def hides(self, query: Any, key: Any) -> Any:
        return self.on and key > query

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return say("causal mask on") if self.on else say("causal mask off")


@dataclass(frozen=True, kw_only=True)
class Window(HidingEdit):
    """Keeps only keys at most ``radius`` tokens away, in addition to the model's own mask.

    A radius of None is no window: it exempts its site from a wider edit.
    """

    kind: ClassVar[str] = "window"
    reason: ClassVar[str] = mark("hidden: an edit, too far away")
    radius: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = self.radius is None or whole(self.radius)
        _require(fits, self, "radius", "null or a whole number from 0", self.radius)

    @property
    def idle(self) -> bool:
        return self.radius is None

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"radius": self.radius}

    def hides(self, query: Any, key: Any) -> Any:
        return self.radius is not None and abs(key - query) > self.radius

    def change(self, source: tuple[str, ...] | None = None) -> str:
        if self.radius is None:
            return say("no window")
        if self.radius == 1:
            return say("sees 1 word to each side")
        return say("sees {count} words to each side", count=self.radius)


@dataclass(frozen=True, kw_only=True)
class BlockKeys(HidingEdit):
    """Hides keys from every query; numbers index the key sentence of each site."""

    kind: ClassVar[str] = "block_keys"
    reason: ClassVar[str] = mark("hidden: an edit hides this word")
    keys: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(wholes(self.keys), self, "keys", "a list of numbers from 0", self.keys)
        object.__setattr__(self, "keys", tuple(sorted(set(self.keys))))

    def hides(self, query: Any, key: Any) -> Any:
        return reduce(operator.or_, (key == number for number in self.keys), False)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        names = [_name(key, source) for key in self.keys]
        return say("{words} hidden", words=join_words(names)) if names else say("nothing hidden")


@dataclass(frozen=True, kw_only=True)
class BlockEdges(HidingEdit):
    """Cuts single (query, key) links."""

    kind: ClassVar[str] = "block_edges"
    reason: ClassVar[str] = mark("hidden: an edit cuts this link")
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = isinstance(self.edges, list | tuple) and all(
            isinstance(edge, list | tuple) and len(edge) == 2 and wholes(edge)
            for edge in self.edges
        )
        _require(pairs, self, "edges", "a list of [query, key] pairs", self.edges)
        edges = sorted({(int(query), int(key)) for query, key in self.edges})
        object.__setattr__(self, "edges", tuple(edges))

    def hides(self, query: Any, key: Any) -> Any:
        cut = ((query == row) & (key == column) for row, column in self.edges)
        return reduce(operator.or_, cut, False)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        links = join_words(f"{query}→{key}" for query, key in self.edges)
        return say("link {links} cut", links=links) if self.edges else say("no link cut")


@dataclass(frozen=True, kw_only=True)
class Pad(Edit):
    """Appends padding to the source; with ``masked`` false the model can attend to it."""

    kind: ClassVar[str] = "pad"
    everywhere: ClassVar[str] = mark("source")
    count: int
    masked: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        right = whole(self.count) and self.count <= MOST_PADDING
        _require(right, self, "count", f"a whole number from 0 to {MOST_PADDING}", self.count)
        _require(isinstance(self.masked, bool), self, "masked", "true or false", self.masked)
        alone = self.selectors == (None,) * len(SELECTORS)
        _require(alone, self, "selectors", "none (it acts on the source)", self.selectors)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        if self.count == 1:
            one = say("1 padding token added, masked")
            return one if self.masked else say("1 padding token added, not masked")
        if self.masked:
            return say("{count} padding tokens added, masked", count=self.count)
        return say("{count} padding tokens added, not masked", count=self.count)


@dataclass(frozen=True, kw_only=True)
class ScalePositions(Amount):
    """Scales the added table, the rotary angles or the relative bias; 0 drops positions."""

    kind: ClassVar[str] = "scale_positions"

    def change(self, source: tuple[str, ...] | None = None) -> str:
        if self.value == 0:
            return say("positions dropped")
        return say("positions scaled by {value:g}", value=self.value)


@dataclass(frozen=True, kw_only=True)
class ShufflePositions(Edit):
    """Permutes the position numbers of ordinary tokens; special tokens keep theirs."""

    kind: ClassVar[str] = "shuffle_positions"
    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(whole(self.seed), self, "seed", "a whole number from 0", self.seed)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        return say("positions shuffled (seed {seed})", seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class ScaleResidual(Amount):
    """Scales the residual input that a sub-layer's output is added to; 0 cuts the connection."""

    kind: ClassVar[str] = "scale_residual"

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.head is None, self, "head", "left out (a sum has no heads)", self.head)

    def change(self, source: tuple[str, ...] | None = None) -> str:
        if self.value == 0:
            return say("residual cut")
        return say("residual scaled by {value:g}", value=self.value)


#: All kinds of edits, in the order of the user interface.
EDITS: tuple[type[Edit], ...] = (
    Temperature,
    ScaleHead,
    UniformHead,
    Causal,
    Window,
    BlockKeys,
    BlockEdges,
    Pad,
    ScalePositions,
    ShufflePositions,
    ScaleResidual,
    MeanHead,
    SwapHead,
    SwapPattern,
    SwapStream,
)


def _name(key: int, source: tuple[str, ...] | None) -> str:
    if source is not None and key < len(source):
        return say("“{word}”", word=source[key])
    return say("word {number}", number=key)
