"""Proposals of names for a file on disk, see :mod:`.naming.name_proposals`."""

from __future__ import annotations

import os
from typing import Any

from ..preprocessing.tokenizers import target_side
from .common.candidate import Candidate
from .common.provenance import settling, token_name
from .common.stated import stated
from .files.errors import CheckpointError
from .hugging_face import layout as hugging_face
from .loader import discover, layouts, load
from .naming.name_proposals import NameProposal, propose

HEADS = "heads"
#: Words to ask for where a proposal is not whole enough to be tried.
USUAL = ("norm", "activation", "embedding_scale")


def assumed_words(thing: str | os.PathLike[str], proposal: NameProposal) -> dict[str, Any]:
    """Return the words that no file states, with the values that opening would assume.

    The number of heads has no sensible value, so it is None. Where the proposal does not open yet,
    the usual words are None too. An id of a special token is followed by its word, where a
    vocabulary names it.

    Args:
        thing: a weights file or a folder.
        proposal: the names to open it with.
    """
    words = next(layout.WORDS for layout in layouts if proposal.layout == layout.NAME)
    one: dict[str, Any] = (
        {HEADS: 1} if HEADS in words else {}
    )  # any will do: it is not guessed from sample text
    try:
        model = load(thing, device="cpu", names=proposal.names, **one)
    except CheckpointError:
        width, found = {}, dict.fromkeys(word for word in USUAL if word in words)
    else:
        width = {"d_model": model.config["d_model"]} if "d_model" in model.config else {}
        guessed = settling(model.guesses)
        found = {word: model.config[word] for word in guessed if word in words and word != HEADS}
        pieces = target_side(model.tokenizer).pieces
        found |= {
            word: f"{value}{named}"
            for word, value in found.items()
            if (named := token_name(word, value, pieces))
        }
    candidate = discover(thing, {"names": proposal.names})[0]
    if not one or any(HEADS in given for _, given in stated(candidate, (HEADS,), width)):
        return found
    return {HEADS: None, **found}


def propose_names(
    thing: str | os.PathLike[str] | Candidate, layout: str | None = None
) -> NameProposal:
    """Propose a layout's names for the weights of a file of one's own.

    Args:
        thing: a weights file, a folder, or a checkpoint that was found already.
        layout: the layout's name; None takes the one that fits best.

    Returns:
        A proposal to be confirmed: its ``rows`` say for each weight the name and why, ``missing``
        what the layout lacks, and ``names`` is the table for ``load(names=...)``.

    Raises:
        CheckpointMissing: nothing of that name.
        CheckpointError: a file that cannot be read, or has no layers of attention; a layout that
            names are not proposed for.
    """
    found = thing if isinstance(thing, Candidate) else discover(thing, {"names": {}})[0]
    if hugging_face.recognise(found):
        raise CheckpointError(
            f"{found.folder.name} is a folder of a Hugging Face model, whose config says what its "
            "weights are. Open it without names."
        )
    return propose(found, layout)
