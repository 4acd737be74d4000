"""CLIP and SigLIP as they are used: a tower for pictures, one for captions, and how they meet."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from ..common.model import Model, Pair
from ..files.errors import CheckpointError
from .image_processor import processor_words

BOTH = "both"  # the value of part= that opens them together
SOFTMAX, SIGMOID = ("clip",), ("siglip",)  # kinds of models, by how a caption's number is read
TOWERS = ("text_model", "vision_model")


def towers_of(whole: Any) -> tuple[str, Any]:
    """The path of the tower that reads captions, and the tower that reads pictures.

    Raises:
        CheckpointError: a model of another kind.
    """
    kind = whole.config.model_type
    if kind not in (*SOFTMAX, *SIGMOID) or not all(hasattr(whole, tower) for tower in TOWERS):
        raise CheckpointError(
            f"part={BOTH} opens the two towers of a CLIP or SigLIP model, and this is "
            f"{type(whole).__name__} ({kind}); leave part out."
        )
    return TOWERS[0], whole.vision_model


def without_padding(whole: Any) -> dict[str, Any]:
    """SigLIP was trained on captions filled up to one length, whose padding is seen like words."""
    return {"pad_id": None} if whole.config.model_type in SIGMOID else {}


def paired(model: Model, whole: Any, eyes: Model, tokenizer: Any, folder: Path | None) -> Model:
    """The tower of captions with the other one beside it.

    Raises:
        CheckpointError: nothing says how a picture becomes numbers.
    """
    if not processor_words(folder):
        raise CheckpointError(
            "Two towers need a preprocessor_config.json beside their weights, which says how a "
            "picture becomes numbers, and there is none; save one with "
            "processor.save_pretrained(folder), or open the captions alone: part=text_model."
        )
    sigmoid = whole.config.model_type in SIGMOID
    text = whole.config.text_config
    filler = getattr(tokenizer, "pad_token_id", None)
    pair = Pair(
        whole,
        dataclasses.replace(eyes, name=f"{model.name} (pictures)"),
        sigmoid,
        text.max_position_embeddings if sigmoid else None,
        (text.pad_token_id if filler is None else filler) if sigmoid else None,
    )
    return dataclasses.replace(model, pair=pair)
