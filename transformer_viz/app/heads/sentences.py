"""Data on which heads are measured: the current, the bundled, or uploaded sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...checkpoints.common.bundled import HEADS, PRETRAINED, SENTENCES, shelved
from ...i18n import mark
from ...metrics.head_measures.evidence import HeadEvidence
from ..engine.model_catalog import Shelved
from ..session.keys import private
from ..session.scene import Scene
from ..session.state import state
from .jobs import Item

SOURCES = {
    "stored": mark("500 everyday sentences"),
    "sentence": mark("this sentence"),
    "file": mark("your file"),
}
REMOVED_ON = 50  # sentences in an interactive run


@dataclass(frozen=True, eq=False)
class Stored:
    """Measures and ranking of the heads, stored beside a bundled model."""

    evidence: HeadEvidence
    ranking: dict[str, Any]


def chosen(scene: Scene) -> str:
    """Return the chosen source, or the next available one."""
    wanted = state.heads_on
    if wanted == "file" and private.heads_file is not None:
        return wanted
    if wanted == "sentence" or stored(scene) is None:
        return "sentence"
    return "stored"


def available(scene: Scene) -> list[str]:
    """Return the sources that this model has."""
    return [name for name in SOURCES if name != "stored" or stored(scene) is not None]


def stored(scene: Scene) -> Stored | None:
    """Return the stored result for exactly this model; None for others, also with the same name."""
    found = _beside(scene)
    shelf: Shelved = scene.engine.shelf[scene.question.model]
    return found if found and found.evidence.card["model_hash"] == shelf.hash else None


def broken(scene: Scene) -> bool:
    """Return True if the model has a stored result that cannot be read."""
    folder = shelved(scene.question.model)
    return folder is not None and (folder / HEADS).is_file() and _beside(scene) is None


def _beside(scene: Scene) -> Stored | None:
    folder = shelved(scene.question.model)
    if folder is None or not (folder / HEADS).is_file():
        return None
    return _read(folder / HEADS, (folder / HEADS).stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> Stored | None:
    """Return the contents of a file, or None if its format is wrong."""
    try:
        words = json.loads(path.read_text(encoding="utf-8"))
        return Stored(HeadEvidence.from_dict(words), words["ranking"])
    except (ValueError, LookupError, TypeError, AttributeError, OSError):
        return None


@lru_cache(maxsize=1)
def in_the_box() -> tuple[tuple[str, str], ...]:
    """Return the bundled held-out pairs of source and target."""
    lines = (PRETRAINED / SENTENCES).read_text(encoding="utf-8").splitlines()
    return tuple((one, other) for one, _, other in (line.partition("\t") for line in lines))


def asked(scene: Scene, source: str) -> tuple[Item, ...]:
    """Return the sentences of a source as the model takes them."""
    if source == "file":
        assert private.heads_file is not None
        return private.heads_file.sentences
    if source == "sentence":
        target = scene.before.target
        if scene.kind.translates and target is not None:
            return ((scene.question.text, tuple(target.ids)),)
        if scene.kind.pairs and scene.question.second:
            return ((scene.question.text, scene.question.second),)
        return (scene.question.text,)
    if scene.kind.translates:
        return in_the_box()
    return tuple(one for one, _ in in_the_box())
