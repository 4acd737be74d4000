"""Vocabularies that a user gives to `load`: objects, word lists, files or folders."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..preprocessing.given_tokenizers import library_vocabulary, vocabulary_of
from ..preprocessing.vocabularies import Vocabularies, Vocabulary
from .files.errors import CheckpointError
from .hugging_face.library import library
from .hugging_face.side_files import open_tokenizer
from .vocabularies.beside import read_side, side_files

NAMES = ("tokenizer", "target_tokenizer")


def given_vocabularies(
    tokenizer: Any, target_tokenizer: Any, folder: Path | None = None
) -> Vocabularies | None:
    """Return the vocabularies that the user gave for a model.

    Args:
        tokenizer: That of the source, or of both sides: an object with encode and decode, a list
            or dictionary of words, or the path of a vocabulary file or of a folder with one.
        target_tokenizer: That of the target, likewise.
        folder: Folder of the weights, in which a file may be named without its path.

    Returns:
        The vocabularies; None if nothing was given.

    Raises:
        CheckpointError: The value is no tokenizer and no vocabulary; states what is expected.
    """
    if tokenizer is None and target_tokenizer is None:
        return None
    sides = [_side(tokenizer, NAMES[0], folder), _side(target_tokenizer, NAMES[1], folder)]
    if target_tokenizer is tokenizer or (is_path(tokenizer) and tokenizer == target_tokenizer):
        sides[1] = sides[0]
    return Vocabularies(*sides)


def is_path(given: Any) -> bool:
    """Return True if a user's tokenizer is the path of a file or folder."""
    return isinstance(given, str | os.PathLike)


def vocabulary_path(given: str | os.PathLike[str], folder: Path | None, named: str) -> Path:
    """Return the file or folder of a path, relative to here or to the folder of the weights.

    Raises:
        CheckpointError: It does not exist.
    """
    path = Path(given)
    try:
        places = [path] if folder is None else [path, folder / path]
        found = next((place for place in places if place.exists()), None)
    except (OSError, ValueError):  # names too long, or with invalid characters
        found = None
    if found is None:
        raise CheckpointError(
            f"{named}= names the vocabulary file {str(given)[:200]!r}, which is not there. Give "
            "the path of a file, an object with encode and decode, or a list of words."
        )
    return found


def _side(given: Any, named: str, folder: Path | None) -> Vocabulary | None:
    if given is None:
        return None
    try:
        if not is_path(given):
            return vocabulary_of(given, named)
        path = vocabulary_path(given, folder, named)
        return _in_folder(path) if path.is_dir() else read_side(path)
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(str(error)) from error


def _in_folder(folder: Path) -> Vocabulary:
    """Return the vocabulary in a folder: the library's tokenizer, or the only vocabulary file.

    Raises:
        CheckpointError: There is none, or more than one.
    """
    with library() as transformers:
        made, note = open_tokenizer(transformers, folder, None)
    if made is not None:
        return replace(library_vocabulary(made), name=folder.name)
    files = side_files(folder)
    if files.source is None or files.target is not None:
        raise CheckpointError(
            f"The folder {folder.name} holds no tokenizer that can be opened, and not one "
            f"vocabulary file alone. {note or 'Give the path of a file.'}"
        )
    return read_side(files.source)
