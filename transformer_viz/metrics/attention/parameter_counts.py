"""How many numbers an attention block learns, counted from the words of its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEADS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Size:
    """``heads`` of width ``d_k``, and the parameters of one attention block with them."""

    heads: int
    d_k: int
    parameters: int


def attention_sizes(config: Mapping[str, Any], counts: tuple[int, ...] = HEADS) -> tuple[Size, ...]:
    """One attention block's parameters if the model's width were cut into so many heads.

    Four matrices of d_model x d_model, however they are cut (Vaswani et al. 2017, section 3.2.2:
    d_k = d_v = d_model / h), with their biases; and what a score function has of its own, which
    for q·W·k does depend on the cut. Counts that do not divide the width are left out.

    Raises:
        LookupError: the config does not say how wide the model is.
    """
    width = config.get("d_model")
    if not width:
        raise LookupError("This model does not say how wide it is, so there is nothing to count.")
    return tuple(
        Size(heads, width // heads, _parameters(config, width, heads))
        for heads in counts
        if width % heads == 0
    )


def _parameters(config: Mapping[str, Any], width: int, heads: int) -> int:
    score, d_k = config.get("score", "scaled_dot"), width // heads
    matrices = 3 if score == "location" else 4  # location scores see no key
    bias = width if config.get("attention_bias", True) else 0
    own = {
        "general": heads * d_k * d_k,
        "additive": heads * d_k,
        "location": heads * d_k * config.get("max_positions", 0),
    }
    return matrices * (width * width + bias) + int(own.get(score, 0))
