"""Named places in a Transformer: which stack, which block, which layer, which head."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..i18n import mark, say

STACKS = ("encoder", "decoder")
BLOCKS = ("self", "cross", "feed_forward")

#: The three attention maps by the name that `Trace.attention`, files and links use.
MAPS: dict[str, tuple[str, str]] = {
    "encoder": ("encoder", "self"),
    "decoder": ("decoder", "self"),
    "cross": ("decoder", "cross"),
}


#: What the maps, and the sentences that a decoder's tokens belong to, are called on the screen.
CALLED = {
    "encoder": mark("encoder"),
    "decoder": mark("decoder"),
    "cross": mark("cross"),
    "source": mark("source"),
    "target": mark("target"),
}


def called(name: str) -> str:
    """A map, a stack or a sentence as the present language says it."""
    return say(CALLED.get(name, name))


def map_name(stack: str, block: str) -> str:
    """The map's name of an attention block: encoder self, decoder self, or cross."""
    return "cross" if block == "cross" else stack


@dataclass(frozen=True, order=True)
class Site:
    """A named place in a model; ``head`` is None for a whole block. Layers and heads count from 0.

    Under grouped queries ``head`` is the query head. ``path`` is the module's, empty where it is
    not known; it takes no part in comparisons.
    """

    stack: str
    block: str
    layer: int
    head: int | None = None
    path: str = field(default="", compare=False)

    @property
    def map(self) -> str:
        """The map this site belongs to: ``encoder``, ``decoder`` or ``cross``."""
        return map_name(self.stack, self.block)

    @property
    def label(self) -> str:
        """The label used everywhere: ``L0 H3``, or ``L0`` for a whole layer."""
        return f"L{self.layer}" if self.head is None else f"L{self.layer} H{self.head}"

    def __str__(self) -> str:
        return f"{self.map} {self.label}"
