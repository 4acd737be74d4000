"""Vocabularies of a checkpoint: those given by the user, and files beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Tables, Vocabularies, Vocabulary
from ..files.errors import CheckpointError
from ..vocabularies.beside import (
    SideFiles,
    languages_of,
    offered_files,
    read_side,
    side_files,
)
from ..vocabularies.by_size import SIDES, Rows, sides_by_size, sides_of_note, size_note, table_rows
from .candidate import Candidate

UNCLEAR = (
    "Beside the weights stand {names}, and their names do not say which is the vocabulary of the "
    "source. Give them as tokenizer= and target_tokenizer= (--tokenizer, --target-tokenizer)."
)
UNTAKEN = (
    "Token ids are typed: {names} beside the weights bear no name of a vocabulary and have other "
    "sizes than the model's tables. Give the vocabulary as tokenizer= (--tokenizer)."
)
MOST_FILES = 8  # number of files whose sizes are compared
MOST_UNNAMED = 2**22  # bytes of a file without the name of a vocabulary


def beside(
    found: Candidate, sizes: Mapping[str, Any] | None = None
) -> tuple[Vocabularies | None, str]:
    """Return the vocabularies in the folder of a checkpoint, read once, and a note about them.

    Args:
        found: The checkpoint.
        sizes: Options that give the rows of its tables, where known.

    Raises:
        CheckpointError: A sentencepiece model is damaged.
    """
    known = found.__dict__.get("vocabularies")
    if known is None:
        known = found.__dict__["vocabularies"] = _beside(found, table_rows(sizes or {}))
    read: tuple[Vocabularies | None, str] = known
    return read


def _beside(found: Candidate, rows: Rows) -> tuple[Vocabularies | None, str]:
    files = side_files(found.folder, languages_of(found.folder, found.config))
    if files.lone or not files.named:
        placed = _by_size(found.folder, files, rows)
        if placed is not None:
            return placed
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
    if any(sides):
        return Vocabularies(*sides), ""
    offered = [path.name for path in offered_files(found.folder)]
    return None, UNTAKEN.format(names=" and ".join(offered[:4])) if offered else ""


def _by_size(folder: Path, files: SideFiles, rows: Rows) -> tuple[Vocabularies | None, str] | None:
    """Return vocabularies assigned to sides by their sizes; None if the sizes do not decide.

    Files without the name of a vocabulary need exactly as many entries as a table has rows.
    """
    named = [files.source] if files.source else [folder / name for name in files.unclear]
    paths = named or [one for one in offered_files(folder) if one.stat().st_size <= MOST_UNNAMED]
    lists: list[Vocabulary] = []
    for path in paths[:MOST_FILES]:
        with suppress(CheckpointError):
            lists.append(read_side(path))
    lists = [one for one in lists if one.size and one.target is None]
    placed = sides_by_size([one.size or 0 for one in lists], rows, exact=not named)
    if placed is None or (files.lone and placed[0] is not None):
        return None
    source, target = (None if at is None else lists[at] for at in placed)
    note = size_note([None if one is None else one.name for one in (source, target)])
    return Vocabularies(source, target), note


def filled(
    found: Candidate, tokenizer: Tokenizer | None, sizes: Mapping[str, Any] | None = None
) -> tuple[Tokenizer | None, str]:
    """Return the user's vocabularies, completed by those beside the weights.

    Raises:
        CheckpointError: As in :func:`beside`.
    """
    if tokenizer is not None and not isinstance(tokenizer, Vocabularies):
        return tokenizer, ""
    held, note = beside(found, sizes)
    if tokenizer is None:
        return held, note
    whole = tokenizer.fill(held)
    taken = sides_of_note(note)
    if whole.of_source is tokenizer.of_source:
        taken.pop("source", None)
    if whole.of_target is tokenizer.of_target:
        taken.pop("target", None)
    return whole, size_note([taken.get(side) for side in SIDES]) if taken else ""


def named_ids(
    found: Candidate, tokenizer: Tokenizer | None, sizes: Mapping[str, Any]
) -> dict[str, int]:
    """Return the special ids that a checkpoint's vocabularies name; ``sizes`` as in `beside`."""
    vocabularies = filled(found, tokenizer, sizes)[0]
    return vocabularies.named if isinstance(vocabularies, Vocabularies) else {}


def settled(
    tokenizer: Tokenizer, ids: Mapping[str, Any], tables: Tables
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the tokenizer made from a model's vocabularies, and notes; others stay unchanged.

    Raises:
        CheckpointError: The vocabularies do not fit the model.
    """
    if not isinstance(tokenizer, Vocabularies):
        return tokenizer, ()
    try:
        made, note = tokenizer.settle(ids, tables)
    except ValueError as error:
        raise CheckpointError(str(error)) from error
    return made, (note,) if note else ()
