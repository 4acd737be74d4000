"""labml_nn/transformers: bare state dicts of the annotated implementations of labml.ai.

Pre-norm with a norm after the last layer. Positions are added to embeddings scaled by
sqrt(d_model), or there are none and no scale. An ``encoder`` alone with a ``generator`` is its
autoregressive experiment: one stack under a causal mask.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...preprocessing.tokenizers import Tokenizer
from ..common import native
from ..common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    kind_of_table,
    sidecar,
    special_ids,
    widths,
)
from ..common.calibration import calibrated_heads
from ..common.candidate import Candidate
from ..common.model import Model
from ..common.provenance import resolve
from ..common.rename_keys import Table, count, patterns, size
from ..common.stated import UNPADDED, stated
from ..common.word_checks import refuse_unknown
from ..files.reading import CheckpointError, Weights

NAME = "labml"
WORDS = (*native.WORDS, "kind")
EMBED = {"encoder": "src_embed", "decoder": "tgt_embed"}
KINDS: tuple[str, ...] = ("decoder-only", "encoder-only")  # of a file with one stack
LAYER: Table = (
    ("self_attn.query.linear.{part}", "self_attention.query.{part}"),
    ("self_attn.key.linear.{part}", "self_attention.key.{part}"),
    ("self_attn.value.linear.{part}", "self_attention.value.{part}"),
    ("self_attn.output.{part}", "self_attention.output.{part}"),
    ("src_attn.query.linear.{part}", "cross_attention.query.{part}"),
    ("src_attn.key.linear.{part}", "cross_attention.key.{part}"),
    ("src_attn.value.linear.{part}", "cross_attention.value.{part}"),
    ("src_attn.output.{part}", "cross_attention.output.{part}"),
    ("feed_forward.layer1.{part}", "feed_forward.inner.{part}"),
    ("feed_forward.layer2.{part}", "feed_forward.outer.{part}"),
    ("feed_forward.linear_v.{part}", "feed_forward.gate.{part}"),
    ("norm_self_attn.{part}", "self_norm.{part}"),
    ("norm_src_attn.{part}", "cross_norm.{part}"),
    ("norm_ff.{part}", "feed_forward_norm.{part}"),
)
OPTIONAL = tuple(
    f"{{stack}}.layers.{{n}}.{part}.bias"
    for part in (
        *("self_attention.query", "self_attention.key"),
        *("cross_attention.query", "cross_attention.key"),
        *("feed_forward.inner", "feed_forward.outer", "feed_forward.gate"),
    )
)
EITHER = "A GPT-like model and a masked one look the same here: say kind='encoder-only' if it is."


def _table(stacks: dict[str, str]) -> Table:
    """Return pairs of file name and module name; ``stacks`` maps file stacks to module stacks."""
    rows: list[tuple[str, str]] = []
    for theirs, ours in stacks.items():
        embed = EMBED[theirs]
        rows += [(f"{theirs}.layers.{{n}}.{a}", f"{ours}.layers.{{n}}.{b}") for a, b in LAYER]
        rows += [
            (f"{theirs}.norm.{{part}}", f"{ours}.norm.{{part}}"),
            (f"{embed}.linear.weight", f"{ours}.embedding.tokens.weight"),
            (f"{embed}.weight", f"{ours}.embedding.tokens.weight"),
            (f"{embed}.positional_encodings", f"{ours}.embedding.positions.table"),
        ]
    return (*rows, ("generator.projection.{part}", "output.{part}"))


#: Names of the file and of the reference Transformer, for name proposals.
ROLES = _table({"encoder": "encoder", "decoder": "decoder"})
NAMES = patterns(ROLES)


#: The axes of a position table before d_model, for tables under mapped names.
TABLE_SHAPES = {"{side}.positional_encodings": (-1, 1)}


def recognise(found: Candidate) -> bool:
    """Return True if the first layer's query has the name unique to this code base."""
    return "encoder.layers.0.self_attn.query.linear.weight" in found.weights.tensors


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by the shapes, with the file's weights.

    Raises:
        CheckpointError: Overrides are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    weights = found.weights
    kind, told = _kind(weights, overrides)
    stacks, tables = _stacks(kind), _tables(weights)
    sizes = _measured(weights, stacks)
    beside = special_ids(found, tokenizer, sizes) | sidecar(found, native.WORDS)
    width = size(weights, "encoder.layers.0.self_attn.query.linear.weight")[0]
    words, origins = resolve(
        {word: value for word, value in overrides.items() if word != "kind"},
        ("file", _positions(weights, tables)),
        *stated(found, UNPADDED, sizes, beside, rows=width),
        ("shapes", sizes),
        ("layout", {"norm": "pre", **dict.fromkeys(native.IDS, -1)}),
        ("convention", {"activation": "relu"}),
    )
    scale = math.sqrt(sizes["d_model"]) if tables else 1.0
    add(words, origins, "layout", {"embedding_scale": scale})
    rows = dict.fromkeys(("d_k", "d_v"), width)
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, "shapes", widths(words["heads"], rows))
    add(words, origins, "layout", PLAIN)
    model = build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            _table(stacks),
            tokenizer=tokenizer,
            optional=OPTIONAL,
            stored={stacks[theirs]: shape for theirs, shape in tables.items()},
            notes=(EITHER,) if told == "convention" else (),
        ),
    )
    return replace(
        model,
        config=model.config | {"kind": kind},
        provenance=model.provenance | {"kind": told},
    )


def _kind(weights: Weights, overrides: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of model, and its origin.

    Raises:
        CheckpointError: The user's kind does not fit the weights.
    """
    names, possible = weights.tensors, KINDS
    stacks = "one stack"
    if any(name.startswith("decoder.") for name in names):
        stacks, possible = "two stacks", ("encoder-decoder",)
    elif "generator.projection.weight" not in names:
        stacks, possible = "one stack and no generator", ("encoder-only",)
    kind = overrides.get("kind", possible[0])
    if kind not in possible:
        raise CheckpointError(
            f"kind={kind!r} does not fit a file with {stacks}; say {' or '.join(possible)}."
        )
    guessed = "convention" if len(possible) > 1 else "shapes"
    return kind, "override" if "kind" in overrides else guessed


def _stacks(kind: str) -> dict[str, str]:
    """Return the module's name of each stack; the file calls a GPT-like one encoder."""
    if kind == "encoder-decoder":
        return {"encoder": "encoder", "decoder": "decoder"}
    return {"encoder": "decoder" if kind == "decoder-only" else "encoder"}


def _tables(weights: Weights) -> dict[str, tuple[int, ...]]:
    """Return the shape of each stack's position table ``[position, 1, d_model]``, or empty.

    Raises:
        CheckpointError: Only one stack has a table, or a table was lost.
    """
    names, parts = weights.tensors, ("linear.weight", "positional_encodings")
    if not any(f"{embed}.{part}" in names for embed in EMBED.values() for part in parts):
        return {}
    return {
        stack: size(weights, f"{embed}.positional_encodings", 3)
        for stack, embed in EMBED.items()
        if any(name.startswith(f"{embed}.") for name in names)
    }


def _positions(weights: Weights, tables: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return the kind of the position tables: sinusoid and learned ones share a name."""
    if not tables:
        return {"positions": "none"}
    stored = [weights.tensors[f"{EMBED[stack]}.positional_encodings"] for stack in tables]
    fixed = all(kind_of_table(table.flatten(0, 1)) == "sinusoidal" for table in stored)
    return {
        "positions": "sinusoidal" if fixed else "learned",
        "max_positions": min(shape[0] for shape in tables.values()),
    }


def _measured(weights: Weights, stacks: dict[str, str]) -> dict[str, Any]:
    """Return the sizes and parts given by names and shapes of the weights."""
    vocab, layers = {"encoder": 0, "decoder": 0}, {"encoder": 0, "decoder": 0}
    for theirs, ours in stacks.items():
        names = (f"{EMBED[theirs]}.linear.weight", f"{EMBED[theirs]}.weight")
        table = next((name for name in names if name in weights.tensors), names[0])
        vocab[ours], d_model = size(weights, table)
        layers[ours] = count(weights, f"{theirs}.layers.{{n}}.self_attn.query.linear.weight")
    held = "generator.projection.weight" in weights.tensors
    return {
        "d_model": d_model,
        "source_vocab": vocab["encoder"],
        "target_vocab": size(weights, "generator.projection.weight")[0] if held else 0,
        "d_ff": size(weights, "encoder.layers.0.feed_forward.layer1.weight")[0],
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "gated": count(weights, "encoder.layers.{n}.feed_forward.linear_v.weight") > 0,
        "output_bias": "generator.projection.bias" in weights.tensors,
    }
