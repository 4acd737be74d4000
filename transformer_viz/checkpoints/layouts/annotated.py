"""harvardnlp/annotated-transformer: "The Annotated Transformer" (Rush et al. 2018; 2022).

A bare state dict. Pre-norm, with a special norm (unbiased deviation, eps added to it), one norm
after the last layer, biases everywhere, and a generator after the decoder.
"""

from __future__ import annotations

import math
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common import native
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    same_matrix,
    sidecar,
    special_ids,
    widths,
)
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, layers, patterns, size
from ..common.stated import REFERENCE, stated
from ..common.word_checks import refuse_unknown
from ..files.reading import Weights

NAME = "annotated_transformer"
WORDS = native.WORDS
LINEARS = dict(enumerate(("query", "key", "value", "output")))
NORMS: Table = tuple(
    (
        f"{stack}.layers.{{n}}.sublayer.{number}.norm.{theirs}",
        f"{stack}.layers.{{n}}.{block}_norm.{ours}",
    )
    for stack, blocks in {
        "encoder": ("self", "feed_forward"),
        "decoder": ("self", "cross", "feed_forward"),
    }.items()
    for number, block in enumerate(blocks)
    for theirs, ours in (("a_2", "weight"), ("b_2", "bias"))
)
TABLE: Table = (
    *(
        (
            f"{{stack}}.layers.{{n}}.{theirs}.linears.{number}.{{part}}",
            f"{{stack}}.layers.{{n}}.{ours}.{linear}.{{part}}",
        )
        for theirs, ours in (("self_attn", "self_attention"), ("src_attn", "cross_attention"))
        for number, linear in LINEARS.items()
    ),
    *NORMS,
    ("{stack}.layers.{n}.feed_forward.w_1.{part}", "{stack}.layers.{n}.feed_forward.inner.{part}"),
    ("{stack}.layers.{n}.feed_forward.w_2.{part}", "{stack}.layers.{n}.feed_forward.outer.{part}"),
    ("{stack}.norm.a_2", "{stack}.norm.weight"),
    ("{stack}.norm.b_2", "{stack}.norm.bias"),
    ("src_embed.0.lut.weight", "encoder.embedding.tokens.weight"),
    ("tgt_embed.0.lut.weight", "decoder.embedding.tokens.weight"),
    ("src_embed.1.pe", "encoder.embedding.positions.table"),
    ("tgt_embed.1.pe", "decoder.embedding.positions.table"),
    ("generator.proj.{part}", "output.{part}"),
)
NAMES = patterns(TABLE)
TABLES = {"encoder": "src_embed.1.pe", "decoder": "tgt_embed.1.pe"}
#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {"{side}.1.pe": (1, -1)}
#: Fixed options of this code base.
ALWAYS = {
    "norm": "pre",
    "norm_kind": "annotated",
    "norm_eps": 1e-6,
    "output_bias": True,
    "mask_fill": -1e9,
}
USUAL_IDS = {"pad_id": 2, "bos_id": 0, "eos_id": 1}  # of its vocabulary: <s> </s> <blank> <unk>
CLOSED = (
    "Its vocabulary is kept apart, in vocab.pt, a pickle that could run code and is never opened: "
    "type token ids, or put the sentencepiece model that made them beside the weights."
)


def recognise(found: Candidate) -> bool:
    """Return True if a norm of the first encoder layer has the name unique to this code base."""
    return "encoder.layers.0.sublayer.0.norm.a_2" in found.weights.tensors


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by the shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    weights = found.weights
    sizes = _measured(weights)
    beside = special_ids(found, tokenizer, sizes) | sidecar(found, WORDS)
    words, origins = resolve(
        overrides,
        ("file", {"tied": _tied(weights)}),
        *stated(found, REFERENCE, sizes, beside),
        ("shapes", sizes),
        ("layout", ALWAYS | {"embedding_scale": math.sqrt(sizes["d_model"])}),
        ("layout", PLAIN),
        ("convention", USUAL_IDS),
    )
    rows = dict.fromkeys(("d_k", "d_v"), sizes["d_model"])
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, "shapes", widths(words["heads"], rows))
    return build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            TABLE,
            tokenizer=tokenizer,
            stored={stack: size(weights, name, 3) for stack, name in TABLES.items()},
            closed=CLOSED,
        ),
    )


def _measured(weights: Weights) -> dict[str, int]:
    """Return the sizes given by the shapes of the weights."""
    source_vocab, d_model = size(weights, "src_embed.0.lut.weight")
    return {
        "d_model": d_model,
        "source_vocab": source_vocab,
        "target_vocab": size(weights, "tgt_embed.0.lut.weight")[0],
        "d_ff": size(weights, "encoder.layers.0.feed_forward.w_1.weight")[0],
        "encoder_layers": layers(weights, "encoder.layers.{n}.self_attn.linears.0.weight"),
        "decoder_layers": layers(weights, "decoder.layers.{n}.self_attn.linears.0.weight"),
        "max_positions": min(size(weights, name, 3)[1] for name in TABLES.values()),
    }


def _tied(weights: Weights) -> str:
    """Return the tables that share one matrix; some trainers tie them after creating the model."""
    table = "tgt_embed.0.lut.weight"
    source = same_matrix(weights, table, "src_embed.0.lut.weight")
    output = same_matrix(weights, table, "generator.proj.weight")
    if source and output:
        return "all"
    return "embeddings" if source else "output" if output else "none"
