"""Merge of all parts of an atlas, in the order of the shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..metrics.corpus.selection import best
from ..metrics.corpus.totals import Totals
from .parts import (
    EXAMPLES,
    PARTS,
    Head,
    choices_of,
    finished,
    notes,
    opened,
    part_name,
    read_examples,
    read_sums,
    write_examples,
    write_sums,
)
from .plan import Plan, whole

ATLAS, CHOSEN = "atlas.parquet", "examples.parquet"


def merge(folder: Path, plan: Plan) -> None:
    """Write ``atlas.parquet`` and ``examples.parquet`` from the parts, with one part in memory.

    Raises:
        ValueError: A part is missing, truncated, foreign or duplicate. The message names it.
    """
    there = finished(folder, plan)
    lacking = [part_name(s.number) for s in plan.shards if s.number not in there]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        raise ValueError(
            f"{folder / PARTS} lacks {', '.join(lacking[:3])}{more}; the same command makes what "
            "lacks."
        )
    heads: list[Head] = []
    totals: Totals | None = None
    sentences, refused = 0, list[tuple[int, str]]()
    count = 0
    kept: dict[Head, dict[int, dict[str, Any]]] = {}
    for shard in plan.shards:
        file = part_name(shard.number)
        words = opened(folder / PARTS / file, plan)
        sentences += int(words["sentences"])
        count += int(words["refused"])
        refused += [(n, why) for n, why in json.loads(words["refused_first"])]
        own, found = read_sums(folder / PARTS / file)
        if not own:  # none of its sentences could be read
            continue
        if totals is not None and own != heads:
            raise ValueError(f"{folder / PARTS / file} has other heads than those before it.")
        heads, totals = own, found if totals is None else totals.plus(found)
        _keep(kept, read_examples(folder / EXAMPLES / file))
    if totals is None:
        why = f" ({refused[0][1]})" if refused else ""
        raise ValueError(f"The model reads none of the {plan.sentences} sentences{why}.")
    words = notes(plan, sentences, refused) | {"refused": str(count)}
    rows = [row for head in heads for _, row in sorted(kept.get(head, {}).items())]
    whole(folder / CHOSEN, lambda path: write_examples(path, rows, words))
    whole(folder / ATLAS, lambda path: write_sums(path, heads, totals, words))


def _keep(kept: dict[Head, dict[int, dict[str, Any]]], rows: list[dict[str, Any]]) -> None:
    """Add examples to those kept, and reduce each head to its best ones."""
    touched = set()
    for row in rows:
        head = (row["stack"], row["block"], row["layer"], row["head"])
        kept.setdefault(head, {})[row["sentence"]] = row
        touched.add(head)
    for head in touched:
        own = kept[head]
        left = best([choice for row in own.values() for choice in choices_of(row)])
        by: dict[int, list[dict[str, Any]]] = {}
        for one in left:
            words = {k: getattr(one, k) for k in ("measure", "kind", "band", "score", "draw")}
            by.setdefault(one.sentence, []).append(words)
        kept[head] = {number: own[number] | {"chosen": by[number]} for number in sorted(by)}
