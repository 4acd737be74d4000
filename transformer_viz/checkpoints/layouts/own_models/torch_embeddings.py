"""Embeddings, positions and output layers around PyTorch's stacks in users' own models.

A position table may be ``[position, 1, d_model]``, ``[1, position, d_model]`` or
``[position, d_model]``, a buffer or learned, shared or one for each side. It may also be computed
and not stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ....model.positional_encoding import sinusoidal_table
from ...common.build_reference import StoredPositions, kind_of_table
from ...files.reading import CheckpointError, Weights

#: Name parts for positions, and for the target side.
POSITION_WORDS = {
    *("pe", "pos", "posn", "posi", "position", "positions", "positional", "posenc", "posemb"),
    *("posembed", "wpe"),
}
TARGET_WORDS = {"tgt", "trg", "target", "targets", "dec", "decoder"}
KINDS = ("sinusoidal", "sinusoidal_halves", "learned", "none")
#: Pooling of encoder states by a head: the mean, one of them, or none (a tag for each token).
POOLING = ("mean", "first", "last", "tokens")
#: Options without a stored table: PyTorch's tutorial computes one of this length.
COMPUTED = {"positions": "sinusoidal", "max_positions": 5000}


class Embedding(nn.Module):
    """Token embedding times a factor."""

    def __init__(self, tokens: int, width: int, scale: float):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * self.scale


class ComputedPositions(nn.Module):
    """Adds the sinusoid to ``[batch, token, d_model]``; it is computed, not stored."""

    table: Tensor

    def __init__(self, positions: int, width: int, halves: bool):
        super().__init__()
        table = sinusoidal_table(positions, width, halves)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


def make_positions(settings: Mapping[str, Any], shape: Sequence[int] | None) -> nn.Module | None:
    """Return the module that adds positions to ``[batch, token, d_model]``, without weights.

    Args:
        settings: ``positions``, ``max_positions`` and ``d_model``.
        shape: Shape of the stored table; None if there is none.
    """
    kind = settings["positions"]
    if kind == "none":
        return None
    if shape is not None:
        return StoredPositions(shape, kind == "learned")
    return ComputedPositions(
        settings["max_positions"], settings["d_model"], kind == "sinusoidal_halves"
    )


def position_tables(
    weights: Weights, known: Sequence[str], names: Mapping[str, str], width: int
) -> dict[str, str]:
    """Return the weight that is the position table of each side.

    Args:
        weights: Weights of the file.
        known: Forms of the names of all other weights (see :mod:`.rename_keys`).
        names: The layout's name of the table, by side.
        width: d_model.

    Raises:
        CheckpointError: A table with the layout's name has another shape.
    """
    found = {side: name for side, name in names.items() if name in weights.tensors}
    for name in found.values():
        if rows_of(weights.tensors[name], width) is None:
            shape = list(weights.tensors[name].shape)
            raise CheckpointError(
                f"{name} in {weights.path.name} is {shape}; expected [position, 1, {width}], "
                f"[1, position, {width}] or [position, {width}]."
            )
    forms = [re.compile(form) for form in (*known, *map(re.escape, found.values()))]
    for name, tensor in weights.tensors.items():
        if any(form.fullmatch(name) for form in forms) or rows_of(tensor, width) is None:
            continue
        parts = set(re.split(r"[._\d]+", name.lower()))
        if parts & POSITION_WORDS:
            side = "target" if parts & TARGET_WORDS and "target" in names else "source"
            found.setdefault(side, name)
    if set(found) == {"target"}:  # a single table named after the target serves both
        found = {"source": found["target"]}
    return found


def rows_of(table: Tensor, width: int) -> int | None:
    """Return the number of positions of a table; None if its shape is not that of a table."""
    shape = tuple(table.shape)
    if not 2 <= len(shape) <= 3 or shape[-1] != width or len([n for n in shape[:-1] if n > 1]) > 1:
        return None
    return math.prod(shape[:-1]) or None


def position_words(
    weights: Weights, tables: Mapping[str, str], overrides: Mapping[str, Any], width: int
) -> dict[str, Any]:
    """Return ``positions`` and ``max_positions`` from the stored tables; empty without tables.

    Raises:
        CheckpointError: The user's options contradict the tables, or need one that is not stored.
    """
    asked = overrides.get("positions")
    if asked is not None and asked not in KINDS:
        raise CheckpointError(
            f"There is no positions {asked!r} in this layout; choose one of {', '.join(KINDS)}."
        )
    if not tables:
        if asked == "learned":
            raise CheckpointError(
                f"positions='learned' needs a stored table, and {weights.path.name} has none; map "
                "the weight that holds it with names=, or say sinusoidal or none."
            )
        return {}
    stored = [weights.tensors[name] for name in dict.fromkeys(tables.values())]
    rows = min(rows_of(table, width) or 0 for table in stored)
    kinds = {kind_of_table(table.reshape(-1, width)) for table in stored}
    kind = kinds.pop() if len(kinds) == 1 else "learned"
    if asked not in (None, "none", "learned", kind):
        raise CheckpointError(
            f"positions={asked!r} contradicts {next(iter(tables.values()))} in "
            f"{weights.path.name}, whose numbers are {kind}; leave positions out, or leave the "
            "table out (null in names=)."
        )
    if overrides.get("max_positions", 0) and overrides["max_positions"] > rows:
        raise CheckpointError(
            f"max_positions={overrides['max_positions']} needs more rows than the {rows} of the "
            f"position table in {weights.path.name}; give a smaller one, or leave it out."
        )
    return {"positions": kind, "max_positions": rows}


def pool(states: Tensor, visible: Tensor | None, how: str) -> Tensor:
    """Return ``[batch, d_model]`` pooled from the visible states ``[batch, token, d_model]``.

    ``tokens`` returns the states themselves.
    """
    if how == "tokens":
        return states
    if visible is None:
        visible = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    if how == "first":
        return states[:, 0]
    if how == "last":
        rows = torch.arange(len(states), device=states.device)
        counted = torch.arange(states.shape[1], device=states.device)
        return states[rows, (counted * visible).amax(1)]
    seen = visible[..., None]
    if how == "max":
        return states.masked_fill(~seen, float("-inf")).amax(1)
    return (states * seen).sum(1) / seen.sum(1).clamp(min=1)
