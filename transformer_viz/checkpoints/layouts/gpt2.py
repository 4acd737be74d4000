"""GPT-2 weights as the transformers library stores them, without its config.

Its matrices are transposed, ``[in, out]``. The output layer is the embedding table unless the file
holds another. The activation is GELU in its tanh formula.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common.build_reference import WORDS as WORDS
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.rename_keys import pattern
from . import gpt

NAME = "gpt2"
NAMES = gpt.NAMES
TRANSPOSED = tuple(
    pattern(trunk + form)
    for trunk in (gpt.TRUNK, "")
    for form in ("h.{n}.attn.{layer}.weight", "h.{n}.mlp.{layer}.weight")
)


def recognise(found: Candidate) -> bool:
    """Return True if the names are GPT-2's and the matrices are transposed."""
    fused = gpt.fused(found)
    return fused is not None and not gpt.is_linear(fused)


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by the shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights or a vocabulary do not fit.
    """
    weights = found.weights
    turned = {
        name: tensor.T if tensor.dim() == 2 and is_matrix(name) else tensor
        for name, tensor in weights.tensors.items()
    }
    weights = replace(weights, tensors=turned)
    absent = gpt.OUTPUT[0] not in turned  # the library stores tied tables once
    return gpt.opened(
        found,
        NAME,
        tokenizer,
        overrides,
        ("shapes", {"tied": "output" if gpt.ties_output(weights) or absent else "none"}),
        # The library lets a config choose both, and this file has none.
        ("convention", {"activation": "gelu_tanh", "norm_eps": 1e-5}),
        shapes=gpt.measured(weights),
        weights=gpt.apart(weights),
    )


def is_matrix(name: str) -> bool:
    """Return True if a weight of this name is a projection."""
    return any(form.fullmatch(name) for form in TRANSPOSED)
