"""A foreign file into the reference Transformer: what the layouts that fit into it share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...model import ModelConfig, Transformer
from ...model.positional_encoding import places, sinusoidal_table
from ...preprocessing.tokenizers import PlainIds, Tokenizer
from ..files.reading import CheckpointError, Weights
from . import native
from .candidate import Candidate
from .fill_weights import build
from .model import Model
from .rename_keys import Table
from .vocabularies import filled, named_ids, settled

WORDS = native.WORDS
SINUSOID = 1e-4  # how far a stored table may be from the sinusoid that it was computed as
#: What most code bases never vary: the last source of their words, with the origin ``layout``.
PLAIN: dict[str, Any] = {
    "norm_kind": "layer",
    "norm_eps": 1e-5,
    "embedding_norm": False,
    "final_norm": True,
    "activation": "relu",
    "gated": False,
    "positions": "sinusoidal",
    "score": "scaled_dot",
    "attention_bias": True,
    "output_bias": False,
    "embedding_scale": 1.0,
    "logit_scale": 1.0,
    "tied": "none",
    "mask_fill": float("-inf"),
}


class StoredPositions(nn.Module):
    """Adds the position table of the file, of any shape ``[1 or position, ..., d_model]``.

    ``[batch, token, d_model]`` in and out. A table is stored by code bases that compute it, whose
    last bits differ, and by those that learn it.
    """

    table: Tensor

    def __init__(self, shape: Sequence[int], learned: bool = False):
        super().__init__()
        if learned:
            self.table = nn.Parameter(torch.empty(*shape))
        else:
            self.register_buffer("table", torch.empty(*shape))

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:
        table = self.table.reshape(-1, x.shape[-1])
        return x + (table[: x.shape[1]] if before is None else table[places(x, before)])


def kind_of_table(table: Tensor) -> str:
    """Return which ``positions`` a stored table ``[position, d_model]`` holds, by its numbers."""
    for kind, halves in (("sinusoidal", False), ("sinusoidal_halves", True)):
        computed = sinusoidal_table(table.shape[0], table.shape[1], halves)
        if float((table.float() - computed).abs().max()) < SINUSOID:
            return kind
    return "learned"


@dataclass(frozen=True, eq=False)
class ReferencePlan:
    """What a layout makes of a file: the words, and where each weight goes.

    ``words`` of ``ModelConfig``, complete, an id of -1 being one that the model does not have;
    ``origins`` where each of them came from; ``table`` names of the file and of the module, see
    :mod:`.rename_keys`; ``weights`` those of the file made ready (split, reshaped), left out, as
    they are; ``tokenizer``, left out, the sentencepiece model beside the weights, or ids typed as
    numbers; ``optional`` biases that the code base can leave out, see :func:`build`; ``stored`` for
    each stack whose position table the file holds, the table's shape; ``make`` the module, where
    the code base does something that the reference does not; ``closed`` where the vocabulary is
    that is not opened, a note where no other was found; ``notes`` what else whoever looks at this
    model must know.
    """

    layout: str
    words: Mapping[str, Any]
    origins: Mapping[str, str]
    table: Table
    weights: Weights | None = None
    tokenizer: Tokenizer | None = None
    optional: Sequence[str] = ()
    stored: Mapping[str, Sequence[int]] = field(default_factory=dict)
    make: Callable[[ModelConfig], Transformer] = Transformer
    closed: str = ""
    notes: Sequence[str] = ()

    def module(self, config: ModelConfig) -> nn.Module:
        """The module, not filled yet, with the stored position tables where there are any."""
        made = self.make(config)
        for stack, shape in self.stored.items():
            embedding = getattr(made, stack).embedding if hasattr(made, stack) else None
            if embedding is not None and embedding.positions is not None:
                embedding.positions = StoredPositions(shape, config.positions == "learned")
        return made


def build_reference_model(found: Candidate, plan: ReferencePlan) -> Model:
    """The Model around a reference Transformer with the weights of another code base's file.

    Raises:
        CheckpointError: words that are unknown or impossible, weights that do not fit.
    """
    weights = found.weights if plan.weights is None else plan.weights
    config = configured(plan.words, weights)
    _check_positions(config, plan, weights)
    built = build(lambda: plan.module(config), weights, plan.table, plan.optional)
    assert isinstance(built, Transformer)
    ids = native.special_ids(plan.words)
    tokenizer, note = filled(found, plan.tokenizer)
    notes = list(filter(None, (*plan.notes, note)))
    if tokenizer is None:
        notes += [plan.closed] if plan.closed and not note else []
        source = config.source_vocab if config.encoder_layers else config.target_vocab
        tokenizer = PlainIds(source or None, target_size=config.target_vocab or None, **ids)
    tokenizer, more = settled(tokenizer, ids, native.tables_of(built))
    first = next(tensor for tensor in weights.tensors.values() if tensor.is_floating_point())
    return replace(
        native.wrap(built, tokenizer, native.name_of(weights.path)),
        layout=plan.layout,
        title=str(found.config.get("title", "")),
        hash=found.hash,
        file_dtype=str(first.dtype).removeprefix("torch."),
        folder=found.folder,
        provenance={word: plan.origins.get(word, "default") for word in config.to_dict()},
        max_tokens=None if config.positions == "none" else config.max_positions,
        notes=(*notes, *more),
        **ids,
    )


def typed_ids(settings: Mapping[str, Any]) -> PlainIds:
    """Ids typed as numbers, for a translator of these words without a vocabulary."""
    ids = native.special_ids(settings)
    return PlainIds(settings["source_vocab"], target_size=settings["target_vocab"], **ids)


def _check_positions(config: ModelConfig, plan: ReferencePlan, weights: Weights) -> None:
    rows = min((math.prod(shape[:-1]) for shape in plan.stored.values()), default=None)
    if rows is not None and config.max_positions > rows:
        raise CheckpointError(
            f"max_positions={config.max_positions} needs more rows than the {rows} of the position "
            f"table in {weights.path.name}; give a smaller one, or leave it out."
        )


def configured(settings: Mapping[str, Any], weights: Weights) -> ModelConfig:
    """The words as a configuration.

    Raises:
        CheckpointError: a word that is unknown, or values that exclude each other.
    """
    native.check_types(dict(settings))
    native.check_sizes(dict(settings), weights)
    try:
        config = ModelConfig.from_dict(dict(settings))
        native.check_ids(settings, config)
        return config
    except (ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{weights.path.name}: {error}") from error


def add(
    settings: dict[str, Any], origins: dict[str, str], origin: str, follows: Mapping[str, Any]
) -> None:
    """Add words that follow from others, unless something told them already."""
    for word, value in follows.items():
        if word not in settings:
            settings[word], origins[word] = value, origin


def widths(heads: Any, rows: Mapping[str, int]) -> dict[str, int]:
    """The width of one head from the rows of all: ``{"d_k": 512}`` over 8 heads is 64.

    Raises:
        CheckpointError: heads that do not divide the rows; says which do.
    """
    for count in rows.values():
        whole = isinstance(heads, int) and not isinstance(heads, bool) and heads > 0
        if not whole or count % heads:
            fitting = ", ".join(map(str, divisors(math.gcd(*rows.values()))))
            raise CheckpointError(
                f"heads={heads!r} does not divide the {count} rows of the projections; choose "
                f"one of {fitting}."
            )
    return {word: count // heads for word, count in rows.items()}


def possible_heads(rows: Mapping[str, int]) -> list[int]:
    """The numbers of heads that divide all projections and leave each head 4 rows or more."""
    return [heads for heads in divisors(math.gcd(*rows.values())) if rows["d_k"] // heads >= 4]


def divisors(number: int) -> list[int]:
    """All divisors, the smallest first."""
    return [d for d in range(1, number + 1) if number % d == 0]


def sidecar(found: Candidate, words: Iterable[str]) -> dict[str, Any]:
    """What the ``config.json`` beside the weights says about a layout's words."""
    return {word: found.config[word] for word in words if word in found.config}


def settings(weights: Weights, name: str) -> dict[str, Any]:
    """The options of the training script that the file holds under ``name``; empty if it has none.

    They are a ``Namespace`` or a dictionary.
    """
    held = weights.extra.get(name)
    if isinstance(held, argparse.Namespace):
        return vars(held)
    return dict(held) if isinstance(held, Mapping) else {}


def same_matrix(weights: Weights, one: str, other: str) -> bool:
    """Whether two weights of the file are one and the same matrix."""
    a, b = weights.tensors.get(one), weights.tensors.get(other)
    return a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)


def special_ids(
    found: Candidate, tokenizer: Tokenizer | None, sizes: Mapping[str, Any]
) -> dict[str, int]:
    """The special tokens that the vocabularies name: the user's, or those beside the weights.

    ``sizes`` tell the rows of the tables, by which files without a side in their names are placed.
    """
    return named_ids(found, tokenizer, sizes)
