"""A small language model with room for a page of text, and texts of so many tokens."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from safetensors.torch import save_file

from tests.conftest import make_module
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.preprocessing.tokenizers import SentencePieceText

TOKENS = 1024


def write_long(folder: Path, vocabulary: bytes, layers: int) -> None:
    """A language model of so many layers, with as many heads each, and of little width."""
    words = len(SentencePieceText(vocabulary).pieces)
    module = make_module(
        encoder_layers=0, decoder_layers=layers, source_vocab=0, target_vocab=words,
        d_model=4 * layers, heads=layers, d_ff=53, max_positions=TOKENS,
    )  # fmt: skip
    folder.mkdir()
    save_file(module.state_dict(), folder / WEIGHTS)
    config = {"layout": "transformer_viz"} | module.config.to_dict()
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    (folder / VOCABULARY).write_bytes(vocabulary)


@cache
def page_of(vocabulary: bytes, tokens: int) -> str:
    """A text of exactly so many tokens, of which no two neighbours are alike."""
    said = "The cat sat on the mat and a dog did not, it was tired. " * (tokens // 15 + 20)
    text = SentencePieceText(vocabulary)
    words = said.split()
    return next(
        found
        for count in range(len(words))
        if len(text.prompt_ids(found := " ".join(words[:count]))) >= tokens
    )
