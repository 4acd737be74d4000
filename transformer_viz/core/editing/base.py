"""What every edit has: where it acts, its checks, its JSON and its words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from ...i18n import mark, say
from ..errors import short
from ..plain_numbers import MAX_FLOAT, finite, whole
from ..sites import BLOCKS, STACKS, Site, called, map_name

SELECTORS = ("stack", "block", "layer", "head", "path")
PARTS = {"self": mark("self"), "feed_forward": mark("feed-forward")}  # blocks that are no maps


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One change of a run. ``stack``, ``block``, ``layer`` and ``head`` left out mean all, and so
    does ``path``: a glob for the path of the module that attends, or of one around it; ``""`` is
    the probed module itself.

    ``acts_on`` says what of an attention the edit needs: ``scores`` (it acts before the softmax, or
    must know what is hidden), ``weights`` (after it), or nothing.
    """

    kind: ClassVar[str] = ""
    acts_on: ClassVar[str] = ""
    everywhere: ClassVar[str] = mark("everything")  # the place in words where no selector is given
    stack: str | None = None
    block: str | None = None
    layer: int | None = None
    head: int | None = None
    path: str | None = None

    def __post_init__(self) -> None:
        given = self.path is None or isinstance(self.path, str)
        require(given, self, "path", "the path of a module, or a pattern with *", self.path)
        require(self.stack in (None, *STACKS), self, "stack", f"one of {STACKS}", self.stack)
        require(self.block in (None, *BLOCKS), self, "block", f"one of {BLOCKS}", self.block)
        for word in ("layer", "head"):
            value = getattr(self, word)
            require(value is None or whole(value), self, word, "a number from 0", value)

    def matches(self, site: Site) -> bool:
        """Whether this edit acts on the site; a site without head matches any head selector."""
        return (
            self.stack in (None, site.stack)
            and self.block in (None, site.block)
            and self.layer in (None, site.layer)
            and (self.head is None or site.head is None or self.head == site.head)
            and (self.path is None or self._names(site.path))
        )

    def _names(self, path: str) -> bool:
        """Whether the glob names a module, or one around it."""
        return fnmatchcase(path, f"{self.path}") or fnmatchcase(path, f"{self.path}.*")

    @property
    def idle(self) -> bool:
        """Whether this one does nothing, and is there to spare its place a wider edit."""
        return False

    @property
    def place(self) -> str:
        """The place in words: ``cross L1 H3``, ``encoder``, ``everything``."""
        if self.stack is None and self.block is None:
            name = ""
        elif self.block == "cross" or (self.block == "self" and self.stack):
            name = called(map_name(self.stack or "", self.block))
        else:
            name = " ".join(filter(None, (called(self.stack or ""), self._part)))
        layer = "" if self.layer is None else f"L{self.layer}"
        head = "" if self.head is None else f"H{self.head}"
        path = "" if self.path is None else f"“{self.path or '.'}”"
        return " ".join(filter(None, (name, layer, head, path))) or say(self.everywhere)

    @property
    def _part(self) -> str:
        """A block that is no map, in words."""
        return say(PARTS.get(self.block or "", ""))

    @property
    def selectors(self) -> tuple[str | int | None, ...]:
        """The selectors, in their order."""
        return (self.stack, self.block, self.layer, self.head, self.path)

    @property
    def key(self) -> tuple[Any, ...]:
        """What a later edit of the same kind must share with this one to take its place."""
        return self.selectors

    def to_dict(self) -> dict[str, Any]:
        """Kind, values and the selectors that are given, as JSON can hold them."""
        words = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"kind": self.kind} | {w: _plain(v) for w, v in words.items() if v is not None}

    def describe(self, source: tuple[str, ...] | None = None) -> str:
        """The edit in plain words; ``source`` labels replace key numbers by the words they name."""
        return say("{place}: {change}", place=self.place, change=self.change(source))

    def change(self, source: tuple[str, ...] | None = None) -> str:
        """What is done, without the place."""
        raise TypeError(f"{type(self).__name__} does not say what it changes.")


@dataclass(frozen=True, kw_only=True)
class Amount(Edit):
    """What edits have in common that say how much, with one finite number from ``least``."""

    value: float
    least: ClassVar[float] = -MAX_FLOAT

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = "a number from 0" if self.least == 0 else "a number"
        fits = finite(self.value) and self.value >= self.least
        require(fits, self, "value", wanted, self.value)
        object.__setattr__(self, "value", float(self.value))


@dataclass(frozen=True, kw_only=True)
class HidingEdit(Edit):
    """What edits have in common that hide keys from queries.

    ``reason`` is what Step inside says of a key that such an edit hides.
    """

    acts_on: ClassVar[str] = "scores"
    reason: ClassVar[str] = ""

    def hides(self, query: Any, key: Any) -> Any:
        """Whether ``key`` is hidden from ``query``: bool, or an array of bool.

        Only operators may be used: positions are whole numbers, numpy arrays or torch tensors
        (`apply_edits.hidden` is what one calls).
        """
        raise TypeError(f"{type(self).__name__} does not say what it hides.")


def require(holds: bool, edit: Edit, word: str, wanted: str, got: Any) -> None:
    """Refuse a value that makes no sense.

    Raises:
        ValueError: names the edit, the word, what is wanted and what came.
    """
    if not holds:
        raise ValueError(f"The edit {edit.kind!r} needs {word} to be {wanted}; got {short(got)}.")


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
