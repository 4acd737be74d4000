"""Question of a user about a model, and the clean run that answers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.sites import MAPS, Site
from ...core.trace import Trace


@dataclass(frozen=True)
class File:
    """An uploaded file, compared by its digest, so that questions compare fast."""

    digest: str
    name: str = field(compare=False)
    content: bytes = field(compare=False, repr=False)


@dataclass(frozen=True)
class Question:
    """Input of one run of a model; fields that its kind does not read stay empty.

    Attributes:
        text: A sentence, or token ids.
        target: A typed translation; if empty, ``beam`` is the width of the search.
        second: Second text of a pair.
        masked: Positions of masked tokens.
        picture: Name of an example picture.
        seed: Seed of random vectors.
        file: Uploaded file; replaces picture, vectors or the example sound.
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
    """The clean run: its trace, and the text of the target tokens that every edit holds fixed."""

    trace: Trace
    text: str = ""


@dataclass(frozen=True)
class DetailRequest:
    """Data of a run that the page shows in full: all heads of some layers, the opened one first.

    Attributes:
        vectors: Keep queries and keys of the opened layer too, and nothing of the others.
        long: True if the page can show a text for which there are only tiles.
    """

    sites: tuple[Site, ...]
    vectors: bool = False
    long: bool = False


def whole_layer(block: str, layer: int) -> DetailRequest:
    """Return a request for all heads of a layer."""
    return DetailRequest((Site(*MAPS[block], layer),))


def whole_maps(trace: Trace, *blocks: str) -> DetailRequest:
    """Return a request for all heads of all layers of some maps of a run."""
    layers = ((MAPS[block], layer) for block in blocks for layer in range(trace.layers(block)))
    return DetailRequest(tuple(Site(*place, layer) for place, layer in layers))
