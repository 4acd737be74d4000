"""Sites of a Transformer: stack, block, layer and head."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..i18n import mark, say

STACKS = ("encoder", "decoder")
BLOCKS = ("self", "cross", "feed_forward")

#: The three attention maps, by their name in `Trace.attention`, files and links.
MAPS: dict[str, tuple[str, str]] = {
    "encoder": ("encoder", "self"),
    "decoder": ("decoder", "self"),
    "cross": ("decoder", "cross"),
}


#: Screen names of the maps, and of the sentences that a decoder's tokens belong to.
CALLED = {
    "encoder": mark("encoder"),
    "decoder": mark("decoder"),
    "cross": mark("cross"),
    "source": mark("source"),
    "target": mark("target"),
}


def called(name: str) -> str:
    """Return the name of a map, a stack or a sentence in the current language."""
    return say(CALLED.get(name, name))


def map_name(stack: str, block: str) -> str:
    """Return the map of an attention block: encoder self, decoder self, or cross."""
    return "cross" if block == "cross" else stack


@dataclass(frozen=True, order=True)
class Site:
    """A site of a model. Layers and heads count from 0; ``head`` is None for a whole block.

    Under grouped queries ``head`` is the query head. ``path`` is the path of the module, empty if
    unknown; it is ignored in comparisons.
    """

    stack: str
    block: str
    layer: int
    head: int | None = None
    path: str = field(default="", compare=False)

    @property
    def map(self) -> str:
        """Map of this site: ``encoder``, ``decoder`` or ``cross``."""
        return map_name(self.stack, self.block)

    @property
    def label(self) -> str:
        """Label used everywhere: ``L0 H3``, or ``L0`` for a whole layer."""
        return f"L{self.layer}" if self.head is None else f"L{self.layer} H{self.head}"

    def __str__(self) -> str:
        return f"{self.map} {self.label}"
