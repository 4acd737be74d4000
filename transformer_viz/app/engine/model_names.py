"""Names of a user's models: a path on the server, an upload or a Hub id, with overrides.

A name contains everything needed to open the model, so that a link can carry it:
``path:runs/ckpt.pt``, or ``path:runs/ckpt.pt//{"heads":8}`` with an override of its config. A model
of the Hugging Face Hub is ``hub:owner/name@revision``, in a link without the prefix. A normalized
path never contains two slashes in a row, so they separate the two parts.
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
MAX_OVERRIDE_CHARACTERS = 4_000  # characters of the overrides in a name
#: Arguments of `load` that are no entries of a config; some are paths on the server.
NOT_WORDS = (
    *("thing", "device", "tokenizer", "target_tokenizer", "max_memory", "offload_folder", "base"),
    *("revision", "allow_pickle", "names"),
)
#: Entries that name a vocabulary file beside the weights, and the arguments of `load` they set.
VOCABULARIES = {"source_vocabulary": "tokenizer", "target_vocabulary": "target_tokenizer"}
FILE = re.compile(r"\w[\w. +-]{0,199}")


class NotHere(KeyError):
    """A model that cannot be opened here; the message gives the reason and a remedy."""


def named(place: str, options: Mapping[str, Any]) -> str:
    """Return the name of a model at a place (``path:...``, ``upload:...``, or a bundled name)."""
    return place + MORE + written(options) if options else place


def written(options: Mapping[str, Any]) -> str:
    """Return overrides as JSON, the same text for the same overrides."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def parted(name: str) -> tuple[str, dict[str, Any]]:
    """Return the place and the overrides of a name; unreadable overrides belong to the place."""
    place, _, text = name.partition(MORE)
    try:
        options = read_words(text)
    except ValueError:
        options = {}
    return (place, options) if options else (name, {})


def read_words(text: str) -> dict[str, Any]:
    """Return overrides from JSON; an empty text has none.

    Raises:
        ValueError: The text is no object of plain values; the message describes the format.
    """

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    if not text:
        return {}
    words = None
    try:
        if len(text) <= MAX_OVERRIDE_CHARACTERS:
            words = json.loads(text, parse_constant=refuse)
        plain = whole(json.dumps(words, ensure_ascii=False))  # no lone surrogates
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
    """Return True if a name stands for a user's model."""
    return name.startswith((PATH, UPLOAD, HUB))


def public_name(name: str) -> str:
    """Return the name as links contain it: an upload is named without its folder on the server."""
    place, words = parted(name)
    if place.startswith(UPLOAD):
        place = UPLOAD + place.removeprefix(UPLOAD).rpartition("/")[2]
    return named(place.removeprefix(HUB), words)


def roots() -> tuple[Path, ...]:
    """Return the folders below which users may open a path, as set by the operator."""
    given = settings.ROOTS.text.split(os.pathsep)
    return tuple(Path(folder) for folder in given if folder) or (Path.cwd(),)


def path_name(text: str) -> str:
    """Return the name of the model at a typed path, absolute or below one of the roots.

    Raises:
        ValueError: The path is outside of the roots, or missing; the message names the roots.
    """
    path = find_below(text)
    for root in map(Path.resolve, roots()):
        if path.is_relative_to(root):
            short = str(path.relative_to(root))
            if find_below(short) == path:  # an earlier root may hold a file of this name too
                return PATH + short
    return PATH + str(path)


def find_below(text: str) -> Path:
    """Return the file or folder below the roots that a text names, with links resolved.

    Raises:
        ValueError: Outside of the roots, missing, or paths disabled; the message names the roots.
    """
    from ...checkpoints.files.unpacking import allowed

    opened = settings.open_roots()
    if not opened:
        raise ValueError(say("This server opens no paths. Upload the checkpoint instead."))
    return allowed(text, [Path(folder) for folder in opened])


def veiled(sentence: str, *places: Path) -> str:
    """Return a message without the server's own paths; files below them keep their relative path.

    Args:
        sentence: Message of an error.
        places: Folders to leave out besides the roots.
    """
    known = {place for root in roots() for place in (root, root.resolve())}
    for place in sorted((*places, *known), key=lambda one: -len(one.parts)):
        if place != place.parent:
            sentence = sentence.replace(f"{place}/", "").replace(
                str(place), say("“{word}”", word=place.name)
            )
    return sentence
