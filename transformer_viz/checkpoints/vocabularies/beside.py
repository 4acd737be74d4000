"""Vocabulary files beside the weights: which of a folder's files they are, and of which side."""

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
#: What the names of vocabulary files begin with, in any of their parts.
STEMS = (
    *("vocab", "dict", "tokenizer", "words", "wordlist", "lexicon", "sentencepiece", "spm"),
    *("spiece", "itos", "stoi", "word2i", "pieces"),
)
SUFFIXES = (".model", ".spm", ".vocab", ".txt", ".json")
#: Files that only sound as if they held words.
OTHERS = (
    *("tokenizer_config.json", "special_tokens_map.json", "config.json", "added_tokens.json"),
    *("generation_config.json", "merges.txt", "names.json"),
)
PAIR = re.compile(r"(?:^|[\W_])([a-z]{2,3})(?:-|_|2|_to_|-to-)([a-z]{2,3})(?:$|[\W_])")
LANGUAGE = re.compile(r"[a-z]{2,3}")
PREFERRED = "vocabulary.model"


@dataclass(frozen=True)
class SideFiles:
    """The vocabulary files of a folder, by side.

    Attributes:
        source: The file of the source, or the only one; None where there is none.
        target: The file of the target; None where one serves both, or there is none.
        unclear: Names of files of which it is not clear whose they are.
        lone: Whether the source's is the only file, and no name says that it is the source's.
    """

    source: Path | None = None
    target: Path | None = None
    unclear: tuple[str, ...] = ()
    lone: bool = False

    @property
    def named(self) -> bool:
        """Whether names of files tell the sides."""
        return not self.lone and (self.source or self.target) is not None


def vocabulary_files(folder: Path) -> list[Path]:
    """The files of a folder that hold a vocabulary by their names, in alphabetical order."""
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and _sounds(path)]
    names = {path.name for path in found}
    # sentencepiece writes words.vocab beside words.model, for people to read
    return [
        path
        for path in found
        if path.suffix != ".vocab" or not {f"{path.stem}.model", f"{path.stem}.spm"} & names
    ]


def offered_files(folder: Path) -> list[Path]:
    """The files of a folder that may hold a vocabulary, whatever their names say."""
    known = {path.name for path in vocabulary_files(folder)}
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and (path.name in known or _may_hold(path))
    ]


def side_files(folder: Path, languages: Sequence[str] = ()) -> SideFiles:
    """The vocabulary files of a folder, and which of them is the source's.

    Args:
        folder: The folder of the weights.
        languages: The languages of source and target, where something names them.
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
    """The languages of source and target, by the config or the folder's name (``en-de``)."""
    said = [config.get(word) for word in ("source_lang", "target_lang")]
    if all(isinstance(one, str) and one for one in said):
        return tuple(str(one) for one in said)
    found = PAIR.search(folder.resolve().name.lower())
    return () if found is None else found.groups()


def read_side(path: Path) -> Vocabulary:
    """The vocabulary in a file.

    Raises:
        CheckpointError: it holds none; says what is wrong.
    """
    try:
        return replace(vocabulary_of(read_vocabulary(path)), name=path.name)
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(f"{path.name} cannot be read as a vocabulary. {error}") from error


def _sounds(path: Path) -> bool:
    """Whether a file bears the name of a vocabulary: by its kind, its words, or a side alone."""
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
    """Whether a part of a file's name is what vocabularies are called."""
    return any(word.startswith(STEMS) for word in _words(name))


def _is_other(path: Path) -> bool:
    return path.name in OTHERS or path.name.endswith((".index.json", "_config.json"))


def _may_hold(path: Path) -> bool:
    """Whether the kind of a file is that of a vocabulary, and its name is of nothing else."""
    about = path.name.lower().startswith(("readme", "licen", "requirements", "notice"))
    return path.suffix in SUFFIXES and not _is_other(path) and not about


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def _of_side(files: Sequence[Path], side: Sequence[str], other: Sequence[str]) -> Path | None:
    """The one file whose name says that it is of a side and not of the other; None for several."""
    words = {path: set(_words(path.name)) for path in files}
    found = [path for path in files if words[path] & set(side) and not words[path] & set(other)]
    return found[0] if len(found) == 1 else None
