"""Snapshots of a training, and the quality of the model at each."""

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
    """Snapshot: update, model name, BLEU (greedy) and loss (nats per piece) on unseen text."""

    step: int
    name: str
    bleu: float
    loss: float


@cache
def measured(folder: Path = PRETRAINED / MODEL) -> tuple[dict[str, Any], tuple[Moment, ...]]:
    """Return the settings of the measurement, and the snapshots; see ``training.snapshots``."""
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
    """Return the updates with a logged loss on the validation text, and that loss."""
    with (folder / "log.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["valid_loss"]]
    return (
        np.array([int(row["step"]) for row in rows]),
        np.array([float(row["valid_loss"]) for row in rows]),
    )
