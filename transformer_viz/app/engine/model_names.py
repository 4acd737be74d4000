"""Names of models that a visitor brings: a path on the server or an upload, with changed words.

A name says everything that is needed to open the model, so that a link can carry it:
``path:runs/ckpt.pt``, or ``path:runs/ckpt.pt//{"heads":8}`` where a word of its config was
overridden; a model of the Hugging Face Hub is ``hub:owner/name@revision``, and in a link without
the first word. No path holds two strokes in a row once it is tidy, so they part the two.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ... import settings
from ...core.errors import whole
from ...i18n import say

PATH, UPLOAD, HUB, MORE = "path:", "upload:", "hub:", "//"
MAX_OVERRIDE_CHARACTERS = 4_000  # characters of overridden words in a name
#: What `load` itself is told; no words of a config, and places on the server among them.
NOT_WORDS = (
    *("thing", "device", "tokenizer", "target_tokenizer", "max_memory", "offload_folder", "base"),
    *("revision", "allow_pickle", "names"),
)
#: Words that name a vocabulary file beside the weights, and those of `load` that they stand for.
VOCABULARIES = {"source_vocabulary": "tokenizer", "target_vocabulary": "target_tokenizer"}
FILE = re.compile(r"\w[\w. +-]{0,199}")


class NotHere(KeyError):
    """A model that cannot be chosen here; the message says why and what to do."""


def named(place: str, options: Mapping[str, Any]) -> str:
    """The name of a model at a place (``path:...``, ``upload:...``, or a name in the box)."""
    return place + MORE + written(options) if options else place


def written(options: Mapping[str, Any]) -> str:
    """Overridden words as JSON, the same text for the same words."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def parted(name: str) -> tuple[str, dict[str, Any]]:
    """The place and the overridden words of a name; what cannot be read belongs to the place."""
    place, _, text = name.partition(MORE)
    try:
        options = read_words(text)
    except ValueError:
        options = {}
    return (place, options) if options else (name, {})


def read_words(text: str) -> dict[str, Any]:
    """Overridden words from JSON; an empty text has none.

    Raises:
        ValueError: no object of plain values; says what it should be.
    """

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    if not text:
        return {}
    words = None
    try:
        if len(text) <= MAX_OVERRIDE_CHARACTERS:
            words = json.loads(text, parse_constant=refuse)
        plain = whole(json.dumps(words, ensure_ascii=False))  # no half of a character
    except (ValueError, RecursionError):
        plain = False
    if not plain or not isinstance(words, dict) or not all(map(_is_word, words.items())):
        raise ValueError(say('holds no words of a config; it must be JSON such as {"heads": 8}'))
    return words


def _is_word(item: tuple[str, Any]) -> bool:
    if item[0] in VOCABULARIES:
        return isinstance(item[1], str) and FILE.fullmatch(item[1]) is not None
    return (
        item[0].isidentifier() and item[0] not in NOT_WORDS and not isinstance(item[1], dict | list)
    )


def is_own(name: str) -> bool:
    """Whether a name stands for a model that a visitor brought."""
    return name.startswith((PATH, UPLOAD, HUB))


def public_name(name: str) -> str:
    """The name as a link says it: that of an upload without the room where it lies."""
    place, words = parted(name)
    if place.startswith(UPLOAD):
        place = UPLOAD + place.removeprefix(UPLOAD).rpartition("/")[2]
    return named(place.removeprefix(HUB), words)


def roots() -> tuple[Path, ...]:
    """The folders below which a visitor may open a path: those that the operator named."""
    given = settings.ROOTS.text.split(os.pathsep)
    return tuple(Path(folder) for folder in given if folder) or (Path.cwd(),)


def path_name(text: str) -> str:
    """The name of the model at a path that a visitor typed, absolute or below one of the roots.

    Raises:
        ValueError: a path outside of the roots, or one that is not there; names the roots.
    """
    path = find_below(text)
    for root in map(Path.resolve, roots()):
        if path.is_relative_to(root):
            short = str(path.relative_to(root))
            if find_below(short) == path:  # an earlier root may hold a file of this name too
                return PATH + short
    return PATH + str(path)


def find_below(text: str) -> Path:
    """The file or folder below the roots that a text names, links in it followed.

    Raises:
        ValueError: outside of the roots, or not there; names the roots. No paths are opened here.
    """
    from ...checkpoints.files.unpacking import allowed

    opened = settings.open_roots()
    if not opened:
        raise ValueError(say("This server opens no paths. Upload the checkpoint instead."))
    return allowed(text, [Path(folder) for folder in opened])


def veiled(sentence: str, *places: Path) -> str:
    """A sentence without the server's own paths: what lies below is named from there on.

    Args:
        sentence: what an error says.
        places: folders to leave out besides the roots.
    """
    known = {place for root in roots() for place in (root, root.resolve())}
    for place in sorted((*places, *known), key=lambda one: -len(one.parts)):
        if place != place.parent:
            sentence = sentence.replace(f"{place}/", "").replace(
                str(place), say("“{word}”", word=place.name)
            )
    return sentence
