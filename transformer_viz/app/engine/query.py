"""What a visitor asks of a model, and the clean run that answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.sites import MAPS, Site
from ...core.trace import Trace


@dataclass(frozen=True)
class File:
    """A file that a visitor gave. It is known by its digest, so that questions compare fast."""

    digest: str
    name: str = field(compare=False)
    content: bytes = field(compare=False, repr=False)


@dataclass(frozen=True)
class Question:
    """What a visitor asks of one model; what a model of its kind does not take is left empty.

    ``text`` is a sentence, or token ids; ``second`` the other text of a pair; ``masked`` are the
    numbers of tokens that are hidden behind the mask; ``target`` is a typed translation, or else
    ``beam`` says how widely to search; ``picture`` is the name of an example; ``seed`` draws
    vectors; a ``file`` of the visitor's own takes the place of either, or of the example sound.
    """

    model: str
    text: str = ""
    target: str = ""
    beam: int = 4
    second: str = ""
    masked: tuple[int, ...] = ()
    picture: str = ""
    seed: int = 0
    file: File | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """The clean run: its trace, and the text of the target words that every edit holds."""

    trace: Trace
    text: str = ""


@dataclass(frozen=True)
class DetailRequest:
    """What the screen shows of a run in full: all heads of some layers, the opened one first.

    ``vectors``: the queries and keys of the opened layer too; then nothing of the others.
    ``long``: the page can show a text of which there are only tiles.
    """

    sites: tuple[Site, ...]
    vectors: bool = False
    long: bool = False


def whole_layer(block: str, layer: int) -> DetailRequest:
    """All heads of a layer."""
    return DetailRequest((Site(*MAPS[block], layer),))


def whole_maps(trace: Trace, *blocks: str) -> DetailRequest:
    """All heads of all layers of some maps that a run has."""
    layers = ((MAPS[block], layer) for block in blocks for layer in range(trace.layers(block)))
    return DetailRequest(tuple(Site(*place, layer) for place, layer in layers))
