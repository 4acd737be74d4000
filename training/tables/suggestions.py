"""Write docs/tables/suggestions.csv: first suggestions of the two English models.

    python -m training.tables.suggestions

A person judged whether the most probable piece of each is sensible there
(`training/tables/suggestions.tsv`); a piece without a judgement counts as not read.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd
import torch

import transformer_viz as tv
from training.card import hide
from transformer_viz.checkpoints.common.model import Model

HERE = Path(__file__).resolve().parent
READ = HERE / "suggestions.tsv"
TABLE = HERE.parents[1] / "docs" / "tables" / "suggestions.csv"
MODELS = ("en-lm", "en-mlm")
TOP = 3


def main() -> int:
    with READ.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    models = [tv.load(name, device="cpu") for name in MODELS]
    written = [row for model in models for row in rows_of(model, rows)]
    pd.DataFrame(written).to_csv(TABLE, index=False)
    print(f"written: {TABLE.name}", file=sys.stderr)
    return 0


def rows_of(model: Model, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return a model's rows: its suggestions, and the judgement of the first one."""
    written = []
    for row in rows:
        line = row["start" if model.mask_id is None else "sentence"]
        found = suggestions(model, line)
        first = next(iter(found))
        verdict = row[f"{model.name} sensible"] if row[model.name] == first else "not read"
        listed = ", ".join(f"{piece} {chance:.0%}" for piece, chance in found.items())
        written.append(
            {"model": model.name, "text": line, "suggestions": listed, "sensible": verdict}
        )
    return written


def suggestions(model: Model, line: str) -> Mapping[str, float]:
    """Return the most probable pieces after a text, or for the word in brackets."""
    if model.mask_id is None:
        ids, place = model.tokenizer.prompt_ids(line), -1
    else:
        ids, _ = hide(model, line)
        place = ids.index(model.mask_id)
    with torch.inference_mode():
        logits = model.calls.forward(torch.tensor([ids], device=model.device))[0, place]
    chances, pieces = logits.softmax(-1).topk(TOP)
    names = (model.tokenizer.decode([piece]).strip() for piece in pieces.tolist())
    return dict(zip(names, chances.tolist(), strict=True))


if __name__ == "__main__":
    raise SystemExit(main())
