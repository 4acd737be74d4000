"""The moments of a training that were kept, and how good the model was at each."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...checkpoints.common.bundled import PRETRAINED, SNAPSHOTS

MODEL = "en-de-small"


@dataclass(frozen=True)
class Moment:
    """A snapshot: update, what opens it, BLEU (greedy) and loss (nats a piece) on unseen text."""

    step: int
    name: str
    bleu: float
    loss: float


@cache
def measured(folder: Path = PRETRAINED / MODEL) -> tuple[dict[str, Any], tuple[Moment, ...]]:
    """How the snapshots were measured, and the moments; see ``training.snapshots``."""
    words = json.loads((folder / SNAPSHOTS).read_text(encoding="utf-8"))
    rows = words.pop("snapshots")
    last = max(row["step"] for row in rows)
    return words, tuple(
        Moment(
            row["step"],
            folder.name if row["step"] == last else f"{folder.name}/step-{row['step']}",
            row["bleu"],
            row["loss"],
        )
        for row in rows
    )


@cache
def logged(folder: Path = PRETRAINED / MODEL) -> tuple[np.ndarray, np.ndarray]:
    """The updates at which the loss on the validation text was logged, and that loss."""
    with (folder / "log.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["valid_loss"]]
    return (
        np.array([int(row["step"]) for row in rows]),
        np.array([float(row["valid_loss"]) for row in rows]),
    )
