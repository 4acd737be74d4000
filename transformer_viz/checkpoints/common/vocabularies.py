"""The vocabularies of a checkpoint: those that were given, and files beside the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ...preprocessing.vocabularies import Tables, Vocabularies, Vocabulary
from ..files.errors import CheckpointError
from ..vocabularies.beside import languages_of, read_side, side_files
from .candidate import Candidate

UNCLEAR = (
    "Beside the weights stand {names}, and their names do not say which is the vocabulary of the "
    "source. Give them as tokenizer= and target_tokenizer= (--tokenizer, --target-tokenizer)."
)


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
