"""Parameter counts of an attention block, computed from the config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEADS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Size:
    """Number of ``heads`` of width ``d_k``, and the parameters of one attention block with them."""

    heads: int
    d_k: int
    parameters: int


def attention_sizes(config: Mapping[str, Any], counts: tuple[int, ...] = HEADS) -> tuple[Size, ...]:
    """Return one attention block's parameter counts for several numbers of heads.

    Four matrices of d_model x d_model, independent of the split (Vaswani et al. 2017, section
    3.2.2: d_k = d_v = d_model / h), with their biases. Parameters of the score function are added;
    for q·W·k they depend on the split. Counts that do not divide the width are left out.

    Raises:
        LookupError: The config has no model width.
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
    matrices = 3 if score == "location" else 4  # location scores use no key
    bias = width if config.get("attention_bias", True) else 0
    own = {
        "general": heads * d_k * d_k,
        "additive": heads * d_k,
        "location": heads * d_k * config.get("max_positions", 0),
    }
    return matrices * (width * width + bias) + int(own.get(score, 0))
