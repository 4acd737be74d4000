"""What the translator in the box makes of the first sentence, asked of what is stored beside it."""

from __future__ import annotations

import json
from typing import Any

from sentencepiece import SentencePieceProcessor

from transformer_viz import Trace
from transformer_viz.checkpoints.common import bundled

FOLDER = bundled.PRETRAINED / "en-de"
CONFIG: dict[str, Any] = json.loads((FOLDER / bundled.CONFIG).read_text(encoding="utf-8"))
FIRST_RUN = Trace.load(FOLDER / bundled.EXAMPLE)
assert FIRST_RUN.target is not None and FIRST_RUN.produced is not None
SOURCE, TARGET = FIRST_RUN.source.labels, FIRST_RUN.target.labels
PRODUCED = FIRST_RUN.produced.labels


def source(word: str) -> int:
    """The place of a token of the source."""
    return SOURCE.index(word)


def produced(word: str) -> int:
    """The step that wrote a token."""
    return PRODUCED.index(word)


def unknown(signs: str) -> list[str]:
    """Those signs that the vocabulary has no piece for."""
    pieces = SentencePieceProcessor(model_file=str(FOLDER / bundled.VOCABULARY))
    return [sign for sign in signs if pieces.piece_to_id(sign) == pieces.unk_id()]
