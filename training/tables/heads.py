"""Write the stored head tables of the bundled models, and docs/heads.md.

    python -m training.tables.heads --data DIR [MODEL ...]

DIR holds tatoeba/ as `recipes/en-de.toml` expects it. 500 held-out pairs become
`pretrained/sentences.tsv`. All heads are measured on them, and ranked by removal on the first 200.
The page Heads opens these tables.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pandas as pd

import transformer_viz as tv
from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED, SENTENCES
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.inference.head_means import HeadMeans
from transformer_viz.inference.head_metrics.evidence import evidence
from transformer_viz.metrics.head_measures.evidence import HeadEvidence

PAGE = Path(__file__).resolve().parents[2] / "docs" / "heads.md"
FILES = ("tatoeba/eng-deu.test.tsv.gz", "tatoeba/eng-deu.valid.tsv.gz")
MODELS = ("en-de", "en-de-small", "en-lm", "en-mlm")
COUNT, RANKED = 500, 200
WORDS = (4, 24)  # of a sentence
SEED = 16
HEAD = ["stack", "block", "layer", "head"]
STRONGEST = 8  # heads that the page names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("models", nargs="*", default=MODELS)
    given = parser.parse_args()
    pairs = chosen(given.data)
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    (PRETRAINED / SENTENCES).write_text("".join(lines), encoding="utf-8")
    for name in given.models:
        began = time.process_time()
        stored, means = measured(tv.load(name, device="cpu"), pairs)
        means.save(PRETRAINED / name)
        file = PRETRAINED / name / HEADS
        file.write_text(json.dumps(stored, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{name}: {time.process_time() - began:.0f} CPU seconds, {file.stat().st_size} bytes")
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def chosen(data: Path) -> list[tuple[str, str]]:
    """Return held-out pairs, each source once, in a fixed random order."""
    found: dict[str, str] = {}
    for file in FILES:
        with gzip.open(data / file, "rt", encoding="utf-8") as lines:
            for line in lines:
                source, target = line.rstrip("\n").split("\t")[:2]
                if WORDS[0] <= len(source.split()) <= WORDS[1]:
                    found.setdefault(source, target)
    pairs = sorted(found.items())
    random.Random(SEED).shuffle(pairs)
    return pairs[:COUNT]


def measured(model: Model, pairs: list[tuple[str, str]]) -> tuple[dict[str, Any], HeadMeans]:
    """Return the stored fields of one model, and the means of its removed heads.

    The fields are measures, roles, examples and the ranking; edits refer to the means.
    """
    asked: list[Any] = list(pairs)
    if model.kind != "encoder-decoder":
        asked = [source for source, _ in pairs]
    found = evidence(model, asked, seed=SEED).to_dict()
    ranking = tv.rank(model, asked[:RANKED], seed=SEED)
    columns = {str(name): column.tolist() for name, column in ranking.table.round(5).items()}
    split = {"split_half": round(ranking.split_half, 3), "means": ranking.means.hash}
    told = {"card": ranking.card | split, "columns": columns, "notes": list(ranking.notes)}
    return found | {"ranking": told}, ranking.means


# ---- the page


def page() -> str:
    """Return docs/heads.md from the stored tables."""
    parts = [
        "# Heads of the bundled models\n",
        "Measured on 500 held-out sentences of Tatoeba (CC BY 2.0, `pretrained/NOTICE`), and "
        "ranked on the first 200. Written by\n",
        "    python -m training.tables.heads --data DIR\n",
        "Roles follow a [rule](measures.md#when-a-head-has-a-role): score, lift over chance, and a "
        "lower end of the interval above the value in random order, corrected for all heads. Most "
        "heads have none. The cost of a removal is in nats per target token; the head is replaced "
        "by its mean over these sentences.\n",
        "More: [the head with the famous picture](it-head.md), [findings from "
        "papers](demonstrations.md), [attribution of one token](why-this-word.md).\n",
    ]
    for name in MODELS:
        file = PRETRAINED / name / HEADS
        if file.is_file():
            parts += of_model(name, json.loads(file.read_text(encoding="utf-8")))
    return "\n".join(parts)


def of_model(name: str, stored: dict[str, Any]) -> list[str]:
    table = HeadEvidence.from_dict(stored).table
    ranking = stored["ranking"]
    ranked = pd.DataFrame(ranking["columns"])
    bearing = table["roles"].map(bool)
    lines = [
        f"## {name}\n",
        f"{int(bearing.sum())} of {len(table)} heads have a role; {stored['card']['rows']} rows, "
        f"model {stored['card']['model_hash'][:12]}.\n",
        "| role | heads | which, with score (chance) |",
        "| --- | --- | --- |",
    ]
    for role in sorted({role for given in table["roles"] for role in given}):
        bears = table[table["roles"].map(lambda given, role=role: role in given)]
        which = ", ".join(
            f"{_named(row)} {row[role]:.2f} ({row[f'{role}_chance']:.2f})"
            for _, row in bears.iterrows()
        )
        lines.append(f"| {role} | {len(bears)} | {which} |")
    if not bearing.any():
        lines.append("| no role found | | |")
    states = ", ".join(
        f"{state} {int(table['states'].map(lambda given, state=state: state in given).sum())}"
        for state in ("sink", "spread", "sharp")
    )
    dull = int((~ranked["significant"].astype(bool)).sum())
    lines += [
        f"\nStates: {states}.\n",
        f"Removal ({ranking['card']['method']}): Spearman's correlation between halves of the "
        f"sentences is {ranking['card']['split_half']:.2f}; {dull} of {len(ranked)} heads have no "
        "significant effect on these sentences.\n",
        "| rank | head | nats per token | 95 % | role |",
        "| --- | --- | --- | --- | --- |",
    ]
    for _, row in ranked.head(STRONGEST).iterrows():
        own = table[
            (
                table[["stack", "block", "layer", "head"]]
                == row[["stack", "block", "layer", "head"]]
            ).all(axis=1)
        ]
        given = ", ".join(own.iloc[0]["roles"]) or "no role found"
        lines.append(
            f"| {row['rank']} ({row['rank_low']} to {row['rank_high']}) | {_named(row)} | "
            f"{row['effect']:.3f} | {row['low']:.3f} to {row['high']:.3f} | {given} |"
        )
    return [*lines, ""]


def _named(row: pd.Series) -> str:
    return str(Site(row["stack"], row["block"], int(row["layer"]), int(row["head"])))


if __name__ == "__main__":
    sys.exit(main())
