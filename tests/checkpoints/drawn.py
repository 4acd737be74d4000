"""Small pieces that the makers and witnesses of several layouts use, none of the package's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.checkpoints.rows import Row, compared
from transformer_viz.checkpoints.common.candidate import Candidate
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.files.reading import read_config
from transformer_viz.checkpoints.loader import Layout

Attended = tuple[list[Tensor], Tensor]  # attention of every block in call order, and the output


def drawn(shapes: Mapping[str, tuple[int, ...]], gains: str, seed: int = 0) -> dict[str, Tensor]:
    """Random weights for each name: norms (whose names hold ``gains``) near 1, the rest near 0.

    Matrices are on a scale that keeps activations near 1 and attention far from uniform.
    """
    random = torch.Generator().manual_seed(seed)
    made = {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=random)
        gain = gains in name and name.endswith("weight")
        scale = 1.3 * shape[-1] ** -0.5 if len(shape) > 1 else 0.2
        made[name] = 1 + 0.2 * values if gain else scale * values
    return made


def opened(layout: Layout, path: Path, **overrides: Any) -> Model:
    """The file through one layout, with the ``config.json`` beside it, if there is one."""
    return layout.open(Candidate(path, read_config(path.parent / "config.json")), None, overrides)


def row(
    layout: str, variant: str, model: Model, inputs: tuple[Tensor, ...], witness: Attended
) -> Row:
    """A row of the table: the model under the probe against the witness's numbers."""
    attention, logits = compared(model, inputs, *witness)
    return Row(layout, variant, attention, logits, "recomputed in float64 from the file's tensors")
