"""jadore801120/attention-is-all-you-need-pytorch from November 2019 to May 2020.

Names and shapes are those of :mod:`.jadore_2020`. The norm is applied before each sub-layer to the
query alone (keys and values are projected from unnormalised states), and after the last layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common import native
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.word_checks import refuse_unknown
from . import jadore_2020

NAME = "jadore_2019"
WORDS = native.WORDS
NAMES = jadore_2020.NAMES


def recognise(found: Candidate) -> bool:
    """Return False: jadore_2020 opens these files too and reports its guesses."""
    return False


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the file's model in this version of the code base: ``jadore_2020`` with other norms.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    model = jadore_2020.open(found, tokenizer, {"norm": "query_only"} | overrides)
    if "norm" in overrides:
        return model
    return replace(model, provenance=model.provenance | {"norm": "layout"})
