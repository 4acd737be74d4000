"""Quality of a model at each of its snapshots, measured once and stored beside them.

``python -m training.snapshots en-de-small --data DIR`` translates the test file with every snapshot
and with the final weights. It writes ``snapshots.json`` into the model's folder: update, BLEU
(greedy), and the loss on the test file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import torch
from torch.nn import functional as F

from transformer_viz.checkpoints.common.bundled import CONFIG, SNAPSHOTS, shelved
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.loader import load

from .batches import padded
from .corpus import read_pairs
from .evaluate import NOTHING, TEST, TOGETHER, bleu
from .write_file import write


@dataclass(frozen=True)
class Snapshot:
    """Update, BLEU (0 to 100, greedy) and loss (nats per target token) of a snapshot."""

    step: int
    bleu: float
    loss: float


def moments(folder: Path) -> dict[int, str]:
    """Return the updates of a packaged model, its last one included, with names for ``load``."""
    words = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    kept = {int(step): f"{folder.name}/step-{step}" for step in words.get("snapshots", ())}
    return kept | {int(words["steps"]): folder.name}


def forced_loss(model: Model, pairs: Sequence[tuple[str, str]]) -> float:
    """Return the mean cross-entropy (nats) of each next target piece, the end token included.

    Every piece is predicted from the true pieces before it, without label smoothing.

    Raises:
        ValueError: No pairs.
    """
    if not pairs:
        raise ValueError("There are no sentence pairs to measure with.")
    words: Any = model.tokenizer
    rows = sorted(
        ((words.source_ids(s), [*words.target_ids(t), model.eos_id]) for s, t in pairs),
        key=lambda row: len(row[1]),
    )
    total, count = 0.0, 0
    with torch.inference_mode():
        for start in range(0, len(rows), TOGETHER):
            sources, targets = zip(*rows[start : start + TOGETHER], strict=True)
            value, asked = _loss(model, list(sources), list(targets))
            total, count = total + value, count + asked
    return total / count


def _loss(model: Model, sources: list[list[int]], targets: list[list[int]]) -> tuple[float, int]:
    """Return the summed cross-entropy of some pairs, and the number of pieces."""
    source = padded(sources, NOTHING).to(model.device)
    whole = padded(targets, NOTHING).to(model.device)
    shown, wanted = whole[:, :-1].clamp(min=0), whole[:, 1:]
    logits = model.calls.forward(source.clamp(min=0), shown, source != NOTHING).double()
    flat = logits.flatten(0, 1), wanted.flatten()
    value = F.cross_entropy(*flat, ignore_index=NOTHING, reduction="sum")
    return float(value), int((wanted != NOTHING).sum())


def measure(folder: Path, pairs: list[tuple[str, str]], file: str) -> dict[str, Any]:
    """Return the content of ``snapshots.json``: measurement settings, and a row per snapshot."""
    rows, fields = [], {}
    for step, name in moments(folder).items():
        model = load(name)
        score = bleu(model, pairs, beam=1)
        row = Snapshot(step, round(score.bleu, 2), round(forced_loss(model, pairs), 4))
        fields = {"sentences": score.sentences, "beam": score.beam, "signature": score.signature}
        click.echo(f"{name}: BLEU {row.bleu:.2f}, loss {row.loss:.4f}", err=True)
        rows.append(asdict(row))
    return {"file": file, "pairs": len(pairs), **fields, "snapshots": rows}


@click.command()
@click.argument("model")
@click.option("--data", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--file", default=TEST, help="A tab-separated file in the data folder.")
def main(model: str, data: Path, file: str) -> None:
    """Measure every snapshot of MODEL (a name in pretrained/) and write snapshots.json."""
    folder = shelved(model)
    if folder is None or not folder.is_dir():
        click.echo(f"There is no model {model!r} in the box.", err=True)
        sys.exit(2)
    try:
        found = measure(folder, read_pairs(data / file, 0, 1), file)
    except ValueError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    write(folder / SNAPSHOTS, (json.dumps(found, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
