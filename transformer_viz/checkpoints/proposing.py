"""Proposals of names for a file on disk, see :mod:`.naming.name_proposals`."""

from __future__ import annotations

import os

from .common.candidate import Candidate
from .files.errors import CheckpointError
from .hugging_face import layout as hugging_face
from .loader import discover
from .naming.name_proposals import NameProposal, propose


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
