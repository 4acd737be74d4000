"""What the translator in the box makes of the first sentence, asked of the run stored beside it."""

from __future__ import annotations

from typing import Any

from transformer_viz import Trace
from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.common.bundled import EXAMPLE, PRETRAINED

FIRST_RUN = Trace.load(PRETRAINED / "en-de" / EXAMPLE)
assert FIRST_RUN.target is not None and FIRST_RUN.produced is not None
SOURCE, TARGET = FIRST_RUN.source.labels, FIRST_RUN.target.labels
PRODUCED = FIRST_RUN.produced.labels
MODEL = load("en-de", device="cpu")
CONFIG: dict[str, Any] = dict(MODEL.config)


def source(word: str) -> int:
    """The place of a token of the source."""
    return SOURCE.index(word)


def produced(word: str) -> int:
    """The step that wrote a token."""
    return PRODUCED.index(word)


def unknown(signs: str) -> list[str]:
    """Those signs that the vocabulary has no piece for."""
    return [sign for sign in signs if sign not in MODEL.tokenizer.pieces]
