"""nanoGPT's ``ckpt.pt``: GPT-2's names with the options of the model beside the weights.

The output layer is the embedding table, and the activation is the exact GELU. Biases, also of the
norms, exist if ``bias`` is set. Characters are kept in ``meta.pkl``.
"""

from __future__ import annotations

from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common.build_reference import WORDS as WORDS
from ..common.build_reference import settings
from ..common.candidate import Candidate
from ..common.model import Model
from . import gpt

NAME = "nanogpt"
NAMES = gpt.NAMES
ACTIVATION = {"activation": "gelu"}
#: Biases that a model can be trained without, by the module's names.
OPTIONAL = (
    "decoder.layers.{n}.self_attention.{part}.bias",
    "decoder.layers.{n}.feed_forward.{part}.bias",
    "decoder.layers.{n}.{part}.bias",
    "decoder.norm.bias",
)
#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {"{trunk}.wpe.weight": (-1,), "wpe.weight": (-1,)}


def recognise(found: Candidate) -> bool:
    """Return True if the names are GPT-2's, not transposed, with nanoGPT's options or a tied
    output.
    """
    fused, weights = gpt.fused(found), found.weights
    own = "model_args" in weights.extra or gpt.ties_output(weights)
    return fused is not None and gpt.is_linear(fused) and own


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by options and shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights or a vocabulary do not fit.
    """
    weights = found.weights
    shapes = gpt.measured(weights)
    # Others tie the output under the same names but use another GELU (build-nanogpt), so only
    # nanoGPT's own options settle it.
    surely = "layout" if "model_args" in weights.extra else "convention"
    untied = gpt.OUTPUT[0] in weights.tensors and not gpt.ties_output(weights)
    return gpt.opened(
        found,
        NAME,
        tokenizer,
        overrides,
        ("shapes" if untied else "layout", {"tied": "none" if untied else "output"}),
        (surely, ACTIVATION),
        shapes=shapes,
        weights=gpt.apart(weights),
        optional=() if shapes["attention_bias"] else OPTIONAL,
        dataset=str(settings(weights, "config").get("dataset", "")),
    )
