"""Build the reference Transformer from a foreign file; shared by the layouts that map onto it."""

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
SINUSOID = 1e-4  # largest difference of a stored table from the sinusoid it was computed as
#: Options that most code bases never vary. Used last, with the origin ``layout``.
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
    """Position embedding that adds the table stored in the file.

    Input and output are ``[batch, token, d_model]``; the table has any shape ``[1 or position, ...,
    d_model]``. Code bases store it if they learn it, and some store a computed one, with different
    last bits.
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
    """Return the ``positions`` option of a stored table ``[position, d_model]``, by its numbers."""
    for kind, halves in (("sinusoidal", False), ("sinusoidal_halves", True)):
        computed = sinusoidal_table(table.shape[0], table.shape[1], halves)
        if float((table.float() - computed).abs().max()) < SINUSOID:
            return kind
    return "learned"


@dataclass(frozen=True, eq=False)
class ReferencePlan:
    """Plan of a layout for one file: the options of the model and the target of each weight.

    Attributes:
        words: All options of ``ModelConfig``; an id of -1 means that the model has no such token.
        origins: Origin of each option.
        table: Pairs of file name and module name, see :mod:`.rename_keys`.
        weights: Weights of the file, split and reshaped; None takes them as they are.
        tokenizer: None takes the sentencepiece model beside the weights, or ids typed as numbers.
        optional: Biases that the code base can leave out, see :func:`build`.
        stored: For each stack with a position table in the file, the shape of that table.
        make: Factory of the module, for code bases that compute something the reference does not.
        closed: Note on a vocabulary that is not opened, used where no other was found.
        notes: Further notes for users of the model.
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
        """Return the module without weights, with stored position tables if the file has them."""
        made = self.make(config)
        for stack, shape in self.stored.items():
            embedding = getattr(made, stack).embedding if hasattr(made, stack) else None
            if embedding is not None and embedding.positions is not None:
                embedding.positions = StoredPositions(shape, config.positions == "learned")
        return made


def build_reference_model(found: Candidate, plan: ReferencePlan) -> Model:
    """Return the Model: a reference Transformer with the weights of another code base's file.

    Raises:
        CheckpointError: Options are unknown or impossible, or weights do not fit.
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
    """Return the plain-ids tokenizer of a translator without a vocabulary."""
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
    """Return the options as a ``ModelConfig``.

    Raises:
        CheckpointError: An option is unknown, or values exclude each other.
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
    """Add options that follow from others, unless they are set already."""
    for word, value in follows.items():
        if word not in settings:
            settings[word], origins[word] = value, origin


def widths(heads: Any, rows: Mapping[str, int]) -> dict[str, int]:
    """Return the width of one head from the rows of all: ``{"d_k": 512}`` over 8 heads is 64.

    Raises:
        CheckpointError: The heads do not divide the rows; the message lists numbers that do.
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
    """Return the numbers of heads that divide all projections and leave each 4 rows or more."""
    return [heads for heads in divisors(math.gcd(*rows.values())) if rows["d_k"] // heads >= 4]


def divisors(number: int) -> list[int]:
    """Return all divisors in ascending order."""
    return [d for d in range(1, number + 1) if number % d == 0]


def sidecar(found: Candidate, words: Iterable[str]) -> dict[str, Any]:
    """Return a layout's options that ``config.json`` beside the weights sets."""
    return {word: found.config[word] for word in words if word in found.config}


def settings(weights: Weights, name: str) -> dict[str, Any]:
    """Return the training options stored under ``name`` in the file, or an empty dictionary.

    The file holds them as a ``Namespace`` or as a dictionary.
    """
    held = weights.extra.get(name)
    if isinstance(held, argparse.Namespace):
        return vars(held)
    return dict(held) if isinstance(held, Mapping) else {}


def same_matrix(weights: Weights, one: str, other: str) -> bool:
    """Return True if two weights of the file are the same matrix."""
    a, b = weights.tensors.get(one), weights.tensors.get(other)
    return a is not None and b is not None and a.shape == b.shape and torch.equal(a, b)


def special_ids(
    found: Candidate, tokenizer: Tokenizer | None, sizes: Mapping[str, Any]
) -> dict[str, int]:
    """Return the special token ids of the user's vocabularies, or of those beside the weights.

    ``sizes`` holds the numbers of table rows. They assign files without a side in their names to
    source or target.
    """
    return named_ids(found, tokenizer, sizes)
