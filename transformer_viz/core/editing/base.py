"""Base classes of edits: selectors, checks, JSON and descriptions."""

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
    """A change of a run.

    Attributes:
        acts_on: The part of an attention that the edit needs. ``scores`` acts before the softmax,
            or needs the mask; ``weights`` acts after it; empty for neither.
        stack, block, layer, head: Selectors; None selects all.
        path: Glob for the path of the attention module, or of a module around it. None selects all;
            ``""`` is the probed module itself.
    """

    kind: ClassVar[str] = ""
    acts_on: ClassVar[str] = ""
    everywhere: ClassVar[str] = mark("everything")  # description of a site without selectors
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
        """Return True if this edit acts on the site.

        A site without head matches any head selector.
        """
        return (
            self.stack in (None, site.stack)
            and self.block in (None, site.block)
            and self.layer in (None, site.layer)
            and (self.head is None or site.head is None or self.head == site.head)
            and (self.path is None or self._names(site.path))
        )

    def _names(self, path: str) -> bool:
        """Return True if the glob matches a module, or one around it."""
        return fnmatchcase(path, f"{self.path}") or fnmatchcase(path, f"{self.path}.*")

    @property
    def idle(self) -> bool:
        """True if the edit has no effect except to exempt its site from a wider edit."""
        return False

    @property
    def place(self) -> str:
        """Description of the site: ``cross L1 H3``, ``encoder``, ``everything``."""
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
        """Description of a block that is no map."""
        return say(PARTS.get(self.block or "", ""))

    @property
    def selectors(self) -> tuple[str | int | None, ...]:
        """Selectors, in their order."""
        return (self.stack, self.block, self.layer, self.head, self.path)

    @property
    def key(self) -> tuple[Any, ...]:
        """Key shared with a later edit of the same kind that replaces this one."""
        return self.selectors

    def to_dict(self) -> dict[str, Any]:
        """Return kind, values and given selectors as JSON-serialisable data."""
        words = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"kind": self.kind} | {w: _plain(v) for w, v in words.items() if v is not None}

    def describe(self, source: tuple[str, ...] | None = None) -> str:
        """Return a description of the edit; ``source`` labels replace key numbers."""
        return say("{place}: {change}", place=self.place, change=self.change(source))

    def change(self, source: tuple[str, ...] | None = None) -> str:
        """Return a description of the change, without the site."""
        raise TypeError(f"{type(self).__name__} does not say what it changes.")


@dataclass(frozen=True, kw_only=True)
class Amount(Edit):
    """Base class of edits with one finite number, at least ``least``."""

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
    """Base class of edits that hide keys from queries.

    ``reason`` is the text that the walkthrough shows for a key hidden by the edit.
    """

    acts_on: ClassVar[str] = "scores"
    reason: ClassVar[str] = ""

    def hides(self, query: Any, key: Any) -> Any:
        """Return True where ``key`` is hidden from ``query``: bool, or an array of bool.

        Implementations use operators only: positions are whole numbers, numpy arrays or torch
        tensors. Callers use `apply_edits.hidden`.
        """
        raise TypeError(f"{type(self).__name__} does not say what it hides.")


def require(holds: bool, edit: Edit, word: str, wanted: str, got: Any) -> None:
    """Raise if a value is invalid.

    Raises:
        ValueError: ``holds`` is False. The message names the edit, the field, the expected and the
            given value.
    """
    if not holds:
        raise ValueError(f"The edit {edit.kind!r} needs {word} to be {wanted}; got {short(got)}.")


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
