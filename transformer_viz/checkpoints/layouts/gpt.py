"""Code shared by nanoGPT, minGPT and GPT-2: GPT-2's names and computation.

Pre-norm, learned positions from 0, no scale on embeddings, a causal mask of -inf, a last norm
(Radford et al. 2019, section 2.3). None of them has padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ...preprocessing.tokenizers import Tokenizer
from ..common.build_reference import (
    PLAIN,
    WORDS,
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
from ..common.native import check_types
from ..common.provenance import resolve
from ..common.rename_keys import Table, count, layers, pattern, patterns, size, split, without
from ..common.stated import UNPADDED, stated
from ..common.word_checks import refuse_unknown
from ..files.reading import Weights
from ..vocabularies.dictionaries import byte_pairs, characters

FUSED = "h.{n}.attn.c_attn.{part}"
BUFFERS = ("h.{n}.attn.bias", "h.{n}.attn.masked_bias")  # causal masks, no bias vectors
LAYER: Table = tuple(
    (f"h.{{n}}.{theirs}", f"decoder.layers.{{n}}.{ours}")
    for theirs, ours in {
        "ln_1.{part}": "self_norm.{part}",
        "ln_2.{part}": "feed_forward_norm.{part}",
        "attn.c_attn.{part}[query]": "self_attention.query.{part}",
        "attn.c_attn.{part}[key]": "self_attention.key.{part}",
        "attn.c_attn.{part}[value]": "self_attention.value.{part}",
        "attn.c_proj.{part}": "self_attention.output.{part}",
        "mlp.c_fc.{part}": "feed_forward.inner.{part}",
        "mlp.c_proj.{part}": "feed_forward.outer.{part}",
    }.items()
)
BODY: Table = (
    ("wte.weight", "decoder.embedding.tokens.weight"),
    ("wpe.weight", "decoder.embedding.positions.table.weight"),
    *LAYER,
    ("ln_f.{part}", "decoder.norm.{part}"),
)
OUTPUT = ("lm_head.weight", "output.weight")
TRUNK = "transformer."  # prefix of all names but the output's; absent in files of the bare stack
TABLE: Table = (*((TRUNK + file, own) for file, own in BODY), *BODY, OUTPUT)
NAMES = (
    *patterns(TABLE),
    *(pattern(trunk + form).pattern for trunk in (TRUNK, "") for form in (FUSED, *BUFFERS)),
)
#: Fixed options of all of them.
ALWAYS: dict[str, Any] = {
    "encoder_layers": 0,
    "source_vocab": 0,
    "norm": "pre",
    "positions": "learned",
}
NO_IDS = dict.fromkeys(("pad_id", "bos_id", "eos_id"), -1)
TYPED = (
    "No vocabulary stands beside it (nanoGPT's meta.pkl; tokenizer.json, or vocab.json with "
    "merges.txt, of GPT-2's BPE), so token ids are typed."
)


def fused(found: Candidate) -> Tensor | None:
    """Return the first layer's fused projection of queries, keys and values; else None."""
    tensors = found.weights.tensors
    name = "h.0.attn.c_attn.weight"
    tensor = tensors.get(TRUNK + name, tensors.get(name))
    return tensor if tensor is not None and tensor.dim() == 2 else None


def is_linear(tensor: Tensor) -> bool:
    """Return True if a fused projection is stored ``[3 * d_model, d_model]``, not transposed."""
    return tensor.shape[0] > tensor.shape[1]


def ties_output(weights: Weights) -> bool:
    """Return True if output layer and embedding table are stored with equal numbers."""
    return same_matrix(weights, OUTPUT[0], TRUNK + "wte.weight")


def measured(weights: Weights) -> dict[str, Any]:
    """Return the sizes given by the shapes of GPT-2's weights."""
    trunk = TRUNK if TRUNK + "wte.weight" in weights.tensors else ""
    vocabulary_size, width = size(weights, trunk + "wte.weight")
    return {
        "d_model": width,
        "target_vocab": vocabulary_size,
        "max_positions": size(weights, trunk + "wpe.weight")[0],
        "decoder_layers": layers(weights, trunk + "h.{n}.ln_1.weight"),
        "d_ff": size(weights, trunk + "h.0.mlp.c_fc.weight")[0],
        "attention_bias": count(weights, trunk + "h.{n}.attn.c_attn.bias") > 0,
    }


def apart(weights: Weights) -> Weights:
    """Return the weights with separate queries, keys and values, and without causal masks."""
    for trunk in (TRUNK, ""):
        weights = without(weights, *(trunk + form for form in BUFFERS))
        weights = split(weights, trunk + FUSED)
    return weights


def opened(
    found: Candidate,
    name: str,
    tokenizer: Tokenizer | None,
    overrides: dict[str, Any],
    *sources: tuple[str, dict[str, Any]],
    shapes: dict[str, Any],
    weights: Weights,
    table: Table = TABLE,
    stored: dict[str, tuple[int, ...]] | None = None,
    optional: Sequence[str] = (),
    dataset: str = "",
) -> Model:
    """Return the reference Transformer as a decoder alone, with the file's weights.

    If no source states the number of heads, sample text or the usual width of a head decides.

    Args:
        found: The file.
        name: Name of the layout.
        tokenizer: The user's; None takes the characters or byte pairs beside the file.
        overrides: Options of the user.
        sources: Pairs of an origin and options known to the layout, after those of the file.
        shapes: Options given by the shapes of the weights.
        weights: Weights prepared for the ``table``.
        table: Pairs of file name and module name, see :mod:`.rename_keys`.
        stored: Shape of a position table that is no embedding, see :class:`.ReferencePlan`.
        optional: Biases that the code base can leave out, see :func:`.build`.
        dataset: Folder of nanoGPT's characters.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights or a vocabulary do not fit.
    """
    refuse_unknown(overrides, WORDS)
    told = stated(found, UNPADDED, shapes, sidecar(found, WORDS))
    words, origins = resolve(overrides, ("shapes", shapes), *told, *sources, ("layout", ALWAYS))
    check_types(words)
    if tokenizer is None:
        tokenizer, end = vocabulary(found.folder, dataset, words["target_vocab"])
        add(words, origins, "sidecar", end)
    add(words, origins, "sidecar", special_ids(found, tokenizer, words))
    add(words, origins, "layout", PLAIN | NO_IDS)
    rows = dict.fromkeys(("d_k", "d_v"), words["d_model"])
    read = weights, tokenizer, optional, stored or {}
    plan = ReferencePlan(name, words, origins, table, *read, closed=TYPED)

    def made(chosen: dict[str, Any]) -> Model:
        final, where = words | chosen, origins | dict.fromkeys(chosen, "override")
        add(final, where, where["heads"], widths(final["heads"], rows))
        return build_reference_model(found, replace(plan, words=final, origins=where))

    return made({}) if "heads" in words else calibrated_heads(rows, made)


def vocabulary(folder: Path, dataset: str, size: int) -> tuple[Tokenizer | None, dict[str, int]]:
    """Return the characters or byte pairs beside a checkpoint, and the end token that they name."""
    letters = characters(folder, dataset, size)
    if letters is not None:
        return letters, {}
    text, end = byte_pairs(folder, size) or (None, None)
    return text, {} if end is None else {"eos_id": end}
