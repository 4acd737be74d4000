"""The first suggestions of the two English models for everyday starts: writes docs/suggestions.md.

    python -m training.tables.suggestions

A person read the most probable piece of each and said whether it is sensible there
(`training/tables/suggestions.tsv`); a piece that nobody has read is counted as not read.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import transformer_viz as tv
from training.card import hide
from transformer_viz.checkpoints.common.model import Model

HERE = Path(__file__).resolve().parent
READ = HERE / "suggestions.tsv"
PAGE = HERE.parents[1] / "docs" / "suggestions.md"
MODELS = ("en-lm", "en-mlm")
TOP = 3
INTRODUCTION = f"""# What the two English models suggest first

`en-lm` goes on with a start; `en-mlm` guesses the word in brackets, which it does not see. Their
{TOP} most probable pieces with their probabilities, written by

    python -m training.tables.suggestions

The starts are everyday ones; a person read the first piece of each and said whether it is sensible
there, in grammar and in meaning (`training/tables/suggestions.tsv`).
"""


def main() -> int:
    with READ.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    models = [tv.load(name, device="cpu") for name in MODELS]
    sections = [INTRODUCTION, *(section(model, rows) for model in models)]
    PAGE.write_text("\n".join(sections), encoding="utf-8")
    print(f"written: {PAGE.name}", file=sys.stderr)
    return 0


def section(model: Model, rows: list[dict[str, str]]) -> str:
    """A model's suggestions, and how many of the first ones were read as sensible."""
    lines, verdicts = [], []
    for row in rows:
        line = row["start" if model.mask_id is None else "sentence"]
        found = suggestions(model, line)
        first = next(iter(found))
        verdicts.append(row[f"{model.name} sensible"] if row[model.name] == first else "not read")
        said = ", ".join(f"{piece} {chance:.0%}" for piece, chance in found.items())
        lines.append(f"| {line} | {said} | {verdicts[-1]} |")
    counted = f"Sensible: {verdicts.count('yes')} of {len(verdicts)}."
    if unread := verdicts.count("not read"):
        counted += f" Not read: {unread}."
    head = "| text | suggestions | sensible |\n| --- | --- | --- |"
    return "\n".join([f"## `{model.name}`", "", counted, "", head, *lines, ""])


def suggestions(model: Model, line: str) -> Mapping[str, float]:
    """The most probable pieces after a text or in place of the word in brackets, by falling
    probability."""
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
