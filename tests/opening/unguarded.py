"""What a nursery imports for the tests of last resort: opening with all static checks left out.

A file that one day passes the checks meets nothing but the process around it.
"""

from __future__ import annotations

from typing import Any

import torch

from transformer_viz.checkpoints.files import reading
from transformer_viz.checkpoints.hugging_face import side_files
from transformer_viz.checkpoints.vocabularies import dictionaries
from transformer_viz.checkpoints.vocabularies import reading as words
from transformer_viz.opening import rehearsal

NAME = "tests.opening.unguarded"
PREPARE = f"{NAME}:prepare"


def unchecked(*_: Any, **__: Any) -> dict[str, str]:
    """Find nothing wrong, and no object to leave out."""
    return {}


def prepare() -> None:
    """Import everything, and take the checks out."""
    rehearsal.prepare()
    rehearsal.prepare_library()
    read = torch.load
    torch.load = lambda *given, **words: read(*given, **{**words, "weights_only": False})
    for module, name in (
        (reading, "_check_zip"),
        (dictionaries, "refuse_steps"),
        (words, "refuse_steps"),
        (side_files, "refuse_growth"),
    ):
        assert hasattr(module, name)
        setattr(module, name, unchecked)


def nothing() -> None:
    """Import nothing more."""
