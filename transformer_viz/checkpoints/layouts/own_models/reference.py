"""Layout of a user's own attention code: the reference Transformer's names without its config.

Models with separate projections of queries, keys and values open as this layout with ``names=``.
Sizes come from the shapes; heads, norm, activation and scale are guesses. An encoder with another
number of outputs than tokens predicts classes, or a tag for each token.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from torch import Tensor

from ....preprocessing.tokenizers import Tokenizer
from ...common.build_reference import (
    PLAIN,
    ReferencePlan,
    add,
    build_reference_model,
    kind_of_table,
    same_matrix,
    sidecar,
    special_ids,
    widths,
)
from ...common.build_reference import (
    WORDS as REFERENCE,
)
from ...common.calibration import calibrated_heads
from ...common.candidate import Candidate
from ...common.model import Calls, Model
from ...common.provenance import resolve
from ...common.rename_keys import Table, count, size, without
from ...common.stated import REFERENCE as STATED
from ...common.stated import stated
from ...common.word_checks import refuse_unknown
from ...files.reading import CheckpointError, Weights
from .torch_embeddings import POOLING, pool, rows_of

NAME = "reference"
WORDS = (*REFERENCE, "pooling")
STACKS = ("encoder", "decoder")
LINEAR = ("query", "key", "value", "output")
#: Names of the file and of the module; most are equal.
ROLES: Table = (
    *(
        (name, name)
        for name in (
            "{stack}.embedding.tokens.weight",
            "{stack}.embedding.norm.{part}",
            *(
                f"{{stack}}.layers.{{n}}.{block}_attention.{linear}.{{part}}"
                for block in ("self", "cross")
                for linear in LINEAR
            ),
            *(
                f"{{stack}}.layers.{{n}}.{block}_norm.{{part}}"
                for block in ("self", "cross", "feed_forward")
            ),
            *(
                f"{{stack}}.layers.{{n}}.feed_forward.{linear}.{{part}}"
                for linear in ("inner", "gate", "outer")
            ),
            "{stack}.norm.{part}",
            "output.{part}",
        )
    ),
    ("{stack}.embedding.positions.table", "{stack}.embedding.positions.table"),
)
NAMES: tuple[str, ...] = ()
#: Biases that a model can be trained without.
OPTIONAL: tuple[str, ...] = (
    *(
        f"{{stack}}.layers.{{n}}.{part}.bias"
        for part in (
            *(f"{block}_attention.{linear}" for block in ("self", "cross") for linear in LINEAR),
            *(f"feed_forward.{linear}" for linear in ("inner", "gate", "outer")),
            *(f"{block}_norm" for block in ("self", "cross", "feed_forward")),
        )
    ),
    "{stack}.norm.bias",
    "{stack}.embedding.norm.bias",
)
COMPUTED_ROWS = 5000  # positions of a computed table of unknown length
NO_WORDS = "No vocabulary was given, so token ids are typed."


def recognise(found: Candidate) -> bool:
    """Return True if weights were mapped to the reference Transformer's names, without a config."""
    return found.renamed and not found.config and bool(_stacks(found.weights))


def open(found: Candidate, tokenizer: Tokenizer | None, overrides: dict[str, Any]) -> Model:
    """Return the reference Transformer described by the shapes, with the file's weights.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
    """
    refuse_unknown(overrides, WORDS)
    weights = found.weights
    pooling = overrides.get("pooling")
    if pooling not in (None, *POOLING):
        raise CheckpointError(
            f"There is no pooling {pooling!r} in this layout; choose one of {', '.join(POOLING)}."
        )
    stacks = _stacks(weights)
    shapes = _measured(weights, stacks)
    tables = _tables(weights, stacks, shapes["d_model"])
    stored = _positions(weights, tables, shapes["d_model"])
    rows = {word: size(weights, name)[0] for word, name in _projections(stacks).items()}
    named = special_ids(found, tokenizer, shapes) | sidecar(found, REFERENCE)
    words, origins = resolve(
        {word: value for word, value in overrides.items() if word != "pooling"},
        _tied(weights),
        *stated(found, STATED, shapes, named, rows=math.gcd(*rows.values())),
        ("shapes", shapes),
        ("file", stored),
        ("layout", _customary(weights, stacks, shapes, bool(tables))),
        ("layout", PLAIN),
    )
    if "heads" not in words:
        return calibrated_heads(rows, lambda chosen: open(found, tokenizer, overrides | chosen))
    add(words, origins, "shapes", widths(words["heads"], rows))
    if words["positions"] in ("none", "rotary"):
        weights, tables = without(weights, "{stack}.embedding.positions.table"), {}
    model = build_reference_model(
        found,
        ReferencePlan(
            NAME,
            words,
            origins,
            _own_table(weights, stacks),
            weights=weights,
            tokenizer=tokenizer,
            optional=OPTIONAL,
            stored={stack: tuple(weights.tensors[name].shape) for stack, name in tables.items()},
            closed=NO_WORDS,
        ),
    )
    return _classifier(model, pooling) if _has_class_head(words) else model


def _has_class_head(words: dict[str, Any]) -> bool:
    """Return True if an encoder has another number of outputs than tokens."""
    return not words["decoder_layers"] and words["target_vocab"] not in (0, words["source_vocab"])


def _classifier(model: Model, pooling: str | None) -> Model:
    """Return the model with logits ``[batch, class]``, or a tag for each token.

    The output layer is linear, so pooling its outputs equals pooling the states.
    """
    how = "mean" if pooling is None else pooling
    told = "convention" if pooling is None else "override"

    def pooled(calls: Calls, pad_id: int | None) -> Calls:
        def forward(
            source: Tensor, target: Tensor | None = None, source_mask: Tensor | None = None
        ) -> Tensor:
            visible = source_mask
            if visible is None and pad_id is not None:
                visible = source != pad_id
            return pool(calls.forward(source, None, source_mask), visible, how)

        on = calls.on
        made = Calls(forward, encode=calls.encode)
        return made.standing_in(on and (lambda module: pooled(on(module), pad_id)))

    return replace(
        model,
        calls=pooled(model.calls, model.pad_id),
        gives="tags" if how == "tokens" else "classes",
        config=model.config | {"pooling": how},
        provenance=model.provenance | {"pooling": told},
    )


def _stacks(weights: Weights) -> tuple[str, ...]:
    """Return the stacks in the file."""
    first = "{}.layers.0.self_attention.query.weight"
    return tuple(stack for stack in STACKS if first.format(stack) in weights.tensors)


def _projections(stacks: tuple[str, ...]) -> dict[str, str]:
    first = f"{stacks[0]}.layers.0.self_attention"
    return {"d_k": f"{first}.query.weight", "d_v": f"{first}.value.weight"}


def _own_table(weights: Weights, stacks: tuple[str, ...]) -> Table:
    """Return pairs of file name and module name; one table may serve both stacks."""
    pairs: list[tuple[str, str]] = []
    for stack in stacks:
        other = next((one for one in stacks if one != stack), stack)
        for name in ("embedding.tokens.weight", "embedding.positions.table"):
            both = (f"{stack}.{name}", f"{other}.{name}")
            held = next((one for one in both if one in weights.tensors), both[0])
            pairs.append((held, f"{stack}.{name}"))
    return pairs


def _measured(weights: Weights, stacks: tuple[str, ...]) -> dict[str, Any]:
    """Return the sizes and parts given by names and shapes of the weights."""
    tensors = weights.tensors
    vocab = dict.fromkeys(STACKS, 0)
    for stack in stacks:
        vocab[stack] = _embedding(weights, stack, stacks)[0]
    d_model = _embedding(weights, stacks[0], stacks)[1]
    target = vocab["decoder"]
    if "output.weight" in tensors:
        target = size(weights, "output.weight")[0]
    layers = {
        stack: count(weights, f"{stack}.layers.{{n}}.self_attention.query.weight")
        for stack in STACKS
    }
    return {
        "d_model": d_model,
        "source_vocab": vocab["encoder"],
        "target_vocab": target,
        "d_ff": size(weights, f"{stacks[0]}.layers.0.feed_forward.inner.weight")[0],
        "encoder_layers": layers["encoder"],
        "decoder_layers": layers["decoder"],
        "gated": count(weights, "{stack}.layers.{n}.feed_forward.gate.weight") > 0,
        "attention_bias": count(weights, "{stack}.layers.{n}.self_attention.{part}.bias") > 0,
        "output_bias": "output.bias" in tensors,
        "final_norm": any(f"{stack}.norm.weight" in tensors for stack in stacks),
        "embedding_norm": any(f"{stack}.embedding.norm.weight" in tensors for stack in stacks),
    }


def _embedding(weights: Weights, stack: str, stacks: tuple[str, ...]) -> tuple[int, ...]:
    """Return the shape of a stack's token table, which may be the other's."""
    own = f"{stack}.embedding.tokens.weight"
    shared = (f"{other}.embedding.tokens.weight" for other in stacks)
    return size(weights, own if own in weights.tensors else next(shared, own))


def _tables(weights: Weights, stacks: tuple[str, ...], width: int) -> dict[str, str]:
    """Return the stored position table of each stack; one may serve both."""
    names = [f"{stack}.embedding.positions.table" for stack in stacks]
    held = [
        name
        for name in names
        if name in weights.tensors and rows_of(weights.tensors[name], width) is not None
    ]
    if not held:
        return {}
    return {
        stack: name if name in held else held[0] for stack, name in zip(stacks, names, strict=True)
    }


def _positions(weights: Weights, tables: dict[str, str], width: int) -> dict[str, Any]:
    """Return the options given by the stored tables; empty without any."""
    if not tables:
        return {}
    stored = [weights.tensors[name].reshape(-1, width) for name in tables.values()]
    kinds = {kind_of_table(table) for table in stored}
    return {
        "positions": kinds.pop() if len(kinds) == 1 else "learned",
        "max_positions": min(map(len, stored)),
    }


def _customary(
    weights: Weights, stacks: tuple[str, ...], shapes: dict[str, Any], stored: bool
) -> dict[str, Any]:
    """Return the usual options: post-norm without a last norm, else pre-norm."""
    scaled = not stored or len(stacks) == 2
    biased = any(name.endswith("_norm.bias") for name in weights.tensors)
    return {
        "norm": "pre" if shapes["final_norm"] else "post",
        "embedding_scale": math.sqrt(shapes["d_model"]) if scaled else 1.0,
        "norm_kind": "layer" if biased else "rms",
        "positions": "sinusoidal",
        "max_positions": COMPUTED_ROWS,
        "pad_id": -1,
        "bos_id": 2 if len(stacks) == 2 else -1,  # one stack needs no start token
        "eos_id": 3 if len(stacks) == 2 else -1,
    }


def _tied(weights: Weights) -> tuple[str, dict[str, Any]]:
    """Return the tied tables and the origin: equal numbers, or a missing table."""
    tensors, stacks = weights.tensors, _stacks(weights)
    source, target = (f"{stack}.embedding.tokens.weight" for stack in STACKS)
    table = target if target in tensors else source
    lacks_output = "decoder" in stacks and "output.weight" not in tensors
    lacks_table = len(stacks) == 2 and len({source, target} & tensors.keys()) == 1
    output = lacks_output or same_matrix(weights, table, "output.weight")
    embeddings = lacks_table or same_matrix(weights, source, target)
    tied = "embeddings" if embeddings else "output" if output else "none"
    tied = "all" if embeddings and output else tied
    return "convention" if lacks_output or lacks_table else "file", {"tied": tied}
