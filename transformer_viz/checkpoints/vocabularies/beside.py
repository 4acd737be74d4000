"""Vocabulary files beside the weights, and the side (source or target) of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...preprocessing.given_tokenizers import vocabulary_of
from ...preprocessing.vocabularies import Vocabulary
from ..files.errors import CheckpointError
from .reading import read_vocabulary

SOURCE = ("source", "src", "input", "encoder", "enc")
TARGET = ("target", "tgt", "trg", "output", "decoder", "dec")
#: Beginnings of name parts of vocabulary files.
STEMS = (
    *("vocab", "dict", "tokenizer", "words", "wordlist", "lexicon", "sentencepiece", "spm"),
    *("spiece", "itos", "stoi", "word2i", "pieces"),
)
SUFFIXES = (".model", ".spm", ".vocab", ".txt", ".json")
#: Files with similar names but no words.
OTHERS = (
    *("tokenizer_config.json", "special_tokens_map.json", "config.json", "added_tokens.json"),
    *("generation_config.json", "merges.txt", "names.json"),
)
PAIR = re.compile(r"(?:^|[\W_])([a-z]{2,3})(?:-|_|2|_to_|-to-)([a-z]{2,3})(?:$|[\W_])")
LANGUAGE = re.compile(r"[a-z]{2,3}")
PREFERRED = "vocabulary.model"


@dataclass(frozen=True)
class SideFiles:
    """Vocabulary files of a folder, by side.

    Attributes:
        source: File of the source, or the only file; None without one.
        target: File of the target; None if one file serves both, or without one.
        unclear: Names of files with unclear side.
        lone: True if the source's is the only file, and its name does not indicate the source.
    """

    source: Path | None = None
    target: Path | None = None
    unclear: tuple[str, ...] = ()
    lone: bool = False

    @property
    def named(self) -> bool:
        """True if names of files indicate the sides."""
        return not self.lone and (self.source or self.target) is not None


def vocabulary_files(folder: Path) -> list[Path]:
    """Return the files of a folder with names of vocabularies, in alphabetical order."""
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and _sounds(path)]
    names = {path.name for path in found}
    # sentencepiece writes words.vocab beside words.model, for people to read
    return [
        path
        for path in found
        if path.suffix != ".vocab" or not {f"{path.stem}.model", f"{path.stem}.spm"} & names
    ]


def offered_files(folder: Path) -> list[Path]:
    """Return the files of a folder that may hold a vocabulary, independent of their names."""
    known = {path.name for path in vocabulary_files(folder)}
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and (path.name in known or _may_hold(path))
    ]


def side_files(folder: Path, languages: Sequence[str] = ()) -> SideFiles:
    """Return the vocabulary files of a folder, assigned to source and target.

    Args:
        folder: Folder of the weights.
        languages: Languages of source and target, if known.
    """
    files = vocabulary_files(folder)
    if any(path.name == PREFERRED for path in files):
        return SideFiles(folder / PREFERRED)
    source, target = _of_side(files, SOURCE, TARGET), _of_side(files, TARGET, SOURCE)
    if source is None and target is None and len(languages) == 2:
        pair = [_of_side(files, [one], [other]) for one, other in (languages, languages[::-1])]
        source, target = pair if all(pair) else (None, None)
    if source is not None or target is not None:
        return SideFiles(source, target)
    models = [path for path in files if path.suffix in (".model", ".spm")]
    alone = models if len(models) == 1 else files
    if len(alone) == 1:
        return SideFiles(alone[0], lone=True)
    return SideFiles(unclear=tuple(path.name for path in files))


def languages_of(folder: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the languages of source and target, by the config or the folder's name (``en-de``)."""
    said = [config.get(word) for word in ("source_lang", "target_lang")]
    if all(isinstance(one, str) and one for one in said):
        return tuple(str(one) for one in said)
    found = PAIR.search(folder.resolve().name.lower())
    return () if found is None else found.groups()


def read_side(path: Path) -> Vocabulary:
    """Return the vocabulary in a file.

    Raises:
        CheckpointError: It holds none; states what is wrong.
    """
    try:
        return replace(vocabulary_of(read_vocabulary(path)), name=path.name)
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{path.name} cannot be read as a vocabulary. {error}") from error


def _sounds(path: Path) -> bool:
    """Return True if a file has the name of a vocabulary: by extension, words, or a side alone."""
    if _is_other(path):
        return False
    if path.suffix in (".model", ".spm", ".vocab"):
        return True
    words = _words(path.name)
    listed = path.suffix in SUFFIXES or any(
        path.suffix == f".{side}" for side in (*SOURCE, *TARGET)
    )
    named = sounds(path.name)
    alone = len(words) == 2 and words[0] in (*SOURCE, *TARGET) and path.suffix in SUFFIXES
    language = named and LANGUAGE.fullmatch(path.suffix[1:]) is not None
    return (named and (listed or language)) or alone


def sounds(name: str) -> bool:
    """Return True if a part of a file's name is usual for vocabularies."""
    return any(word.startswith(STEMS) for word in _words(name))


def _is_other(path: Path) -> bool:
    return path.name in OTHERS or path.name.endswith((".index.json", "_config.json"))


def _may_hold(path: Path) -> bool:
    """Return True if a file has the extension of a vocabulary, and no other known name."""
    about = path.name.lower().startswith(("readme", "licen", "requirements", "notice"))
    return path.suffix in SUFFIXES and not _is_other(path) and not about


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def _of_side(files: Sequence[Path], side: Sequence[str], other: Sequence[str]) -> Path | None:
    """Return the only file whose name indicates a side and not the other; None for several."""
    words = {path: set(_words(path.name)) for path in files}
    found = [path for path in files if words[path] & set(side) and not words[path] & set(other)]
    return found[0] if len(found) == 1 else None
