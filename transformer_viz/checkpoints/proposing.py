"""Name proposals for a file on disk, see :mod:`.naming.name_proposals`."""

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
#: Options to ask for if a proposal is too incomplete to be tried.
USUAL = ("norm", "activation", "embedding_scale")


def assumed_words(thing: str | os.PathLike[str], proposal: NameProposal) -> dict[str, Any]:
    """Return the options that no file states, with the values that opening would assume.

    The number of heads has no sensible value and is None. If the proposal does not open yet, the
    usual options are None too. The id of a special token is followed by its token, if a vocabulary
    names it.

    Args:
        thing: A weights file or a folder.
        proposal: Names to open it with.
    """
    words = next(layout.WORDS for layout in layouts if proposal.layout == layout.NAME)
    one: dict[str, Any] = (
        {HEADS: 1} if HEADS in words else {}
    )  # any value will do; this avoids calibration on sample text
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
    """Propose a layout's names for the weights of a user's own file.

    Args:
        thing: A weights file, a folder, or a checkpoint that was found already.
        layout: Name of the layout; None takes the one that fits best.

    Returns:
        A proposal to be confirmed. Its ``rows`` hold each weight's name and the reason, ``missing``
        the names that the layout lacks, and ``names`` is the table for ``load(names=...)``.

    Raises:
        CheckpointMissing: Nothing has this name.
        CheckpointError: The file cannot be read or has no attention layers, or the layout has no
            proposals.
    """
    found = thing if isinstance(thing, Candidate) else discover(thing, {"names": {}})[0]
    if hugging_face.recognise(found):
        raise CheckpointError(
            f"{found.folder.name} is a folder of a Hugging Face model, whose config says what its "
            "weights are. Open it without names."
        )
    return propose(found, layout)
