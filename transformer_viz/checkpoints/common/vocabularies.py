"""The vocabularies of a checkpoint: those that were given, and files beside the weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...preprocessing.given_tokenizers import vocabulary_of
from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Tables, Vocabularies, Vocabulary
from ..files.errors import CheckpointError
from .candidate import Candidate
from .vocabulary_files import read_vocabulary

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
    *("generation_config.json", "merges.txt", "vocabulary.json.index"),
)
PAIR = re.compile(r"(?:^|[\W_])([a-z]{2,3})(?:-|_|2|_to_|-to-)([a-z]{2,3})(?:$|[\W_])")
LANGUAGE = re.compile(r"[a-z]{2,3}")
PREFERRED = "vocabulary.model"
UNCLEAR = (
    "Beside the weights stand {names}, and their names do not say which is the vocabulary of the "
    "source. Give them as tokenizer= and target_tokenizer= (--tokenizer, --target-tokenizer)."
)


@dataclass(frozen=True)
class SideFiles:
    """The vocabulary files of a folder, by side.

    Attributes:
        source: The file of the source, or the only one; None where there is none.
        target: The file of the target; None where one serves both, or there is none.
        unclear: Names of files of which it is not clear whose they are.
    """

    source: Path | None = None
    target: Path | None = None
    unclear: tuple[str, ...] = ()


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
        return SideFiles(alone[0])
    return SideFiles(unclear=tuple(path.name for path in files))


def languages_of(folder: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    """The languages of source and target, by the config or the folder's name (``en-de``)."""
    said = [config.get(word) for word in ("source_lang", "target_lang")]
    if all(isinstance(one, str) and one for one in said):
        return tuple(str(one) for one in said)
    found = PAIR.search(folder.resolve().name.lower())
    return () if found is None else found.groups()


def beside(found: Candidate) -> tuple[Vocabularies | None, str]:
    """The vocabularies in the folder of a checkpoint, read once, and a note about them.

    Raises:
        CheckpointError: a sentencepiece model that is damaged.
    """
    known = found.__dict__.get("vocabularies")
    if known is None:
        known = found.__dict__["vocabularies"] = _beside(found)
    read: tuple[Vocabularies | None, str] = known
    return read


def _beside(found: Candidate) -> tuple[Vocabularies | None, str]:
    files = side_files(found.folder, languages_of(found.folder, found.config))
    if files.unclear:
        return None, UNCLEAR.format(names=" and ".join(files.unclear[:4]))
    sides: list[Vocabulary | None] = []
    for path in (files.source, files.target):
        try:
            sides.append(None if path is None else read_side(path))
        except CheckpointError as error:
            assert path is not None
            if path.suffix in (".model", ".spm"):
                raise
            return None, f"The vocabulary beside the weights was not read: {error}"
    return (Vocabularies(*sides), "") if any(sides) else (None, "")


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


def filled(found: Candidate, tokenizer: Tokenizer | None) -> tuple[Tokenizer | None, str]:
    """The user's vocabularies, with those beside the weights for what the user left out.

    Raises:
        CheckpointError: as of :func:`beside`.
    """
    if tokenizer is not None and not isinstance(tokenizer, Vocabularies):
        return tokenizer, ""
    held, note = beside(found)
    if tokenizer is None:
        return held, note
    return tokenizer.fill(held), ""


def named_ids(found: Candidate, tokenizer: Tokenizer | None) -> dict[str, int]:
    """The special ids that the vocabularies of a checkpoint name."""
    vocabularies = filled(found, tokenizer)[0]
    return vocabularies.named if isinstance(vocabularies, Vocabularies) else {}


def settled(
    tokenizer: Tokenizer, ids: Mapping[str, Any], tables: Tables
) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer of a model from its vocabularies, and notes; any other is as it was.

    Raises:
        CheckpointError: vocabularies that do not fit the model.
    """
    if not isinstance(tokenizer, Vocabularies):
        return tokenizer, ()
    try:
        made, note = tokenizer.settle(ids, tables)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    return made, (note,) if note else ()


def _sounds(path: Path) -> bool:
    """Whether a file bears the name of a vocabulary: by its kind, its words, or a side alone."""
    if path.name in OTHERS or path.name.endswith((".index.json", "_config.json")):
        return False
    if path.suffix in (".model", ".spm", ".vocab"):
        return True
    words = _words(path.name)
    listed = path.suffix in SUFFIXES or any(
        path.suffix == f".{side}" for side in (*SOURCE, *TARGET)
    )
    named = any(word.startswith(STEMS) for word in words)
    alone = len(words) == 2 and words[0] in (*SOURCE, *TARGET) and path.suffix in SUFFIXES
    language = named and LANGUAGE.fullmatch(path.suffix[1:]) is not None
    return (named and (listed or language)) or alone


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def _of_side(files: Sequence[Path], side: Sequence[str], other: Sequence[str]) -> Path | None:
    """The one file whose name says that it is of a side and not of the other; None for several."""
    words = {path: set(_words(path.name)) for path in files}
    found = [path for path in files if words[path] & set(side) and not words[path] & set(other)]
    return found[0] if len(found) == 1 else None
