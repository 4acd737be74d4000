"""Effect of the heads attending from "it" to a noun on the pronoun; writes docs/it-head.md.

    python -m training.tables.it_head [MODEL ...]

MODEL is a name in pretrained/ or a folder; if omitted, ``en-de``. The pairs are `pronouns.tsv`,
which no model was trained on. Results stay in it_head.json, one entry per model.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

import transformer_viz as tv
from training.tables import pronouns
from training.tables.it_head_page import KINDS, LEAST, page
from training.tables.pronouns import Asked
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    BlockEdges,
    Intervention,
    SwapHead,
    SwapStream,
)
from transformer_viz.core.sites import MAPS
from transformer_viz.inference.patching.swapping import Swap
from transformer_viz.metrics.attention.it_head import Word, its, nouns, weight_on
from transformer_viz.metrics.statistics.bootstrap import percentile_interval, reweightings

HERE = Path(__file__).resolve().parent
PAGE, KEPT = HERE.parents[1] / "docs" / "it-head.md", HERE / "it_head.json"
SHOWN = 8  # heads on the page
TOGETHER = (1, 2, 3, 4)  # numbers of the strongest heads that are patched together


@dataclass(frozen=True)
class PairOf:
    """Two sentences that differ in the referent of "it", and their pronouns."""

    first: Asked
    second: Asked

    @property
    def words(self) -> tuple[str, str]:
        """Pronouns of both sentences, as written here."""
        return self.first.pronoun, self.second.pronoun


def pairs(rows: Sequence[Asked]) -> list[PairOf]:
    """Return the rows in pairs, without pairs of the same pronoun."""
    by: dict[str, list[Asked]] = {}
    for row in rows:
        by.setdefault(row.pair, []).append(row)
    two = [PairOf(*found) for found in by.values() if len(found) == 2]
    return [one for one in two if one.first.pronoun != one.second.pronoun]


def measure(model: Model) -> dict[str, Any]:
    """Return all figures of a model, by name."""
    asked = pairs(pronouns.read())
    found: dict[str, Any] = {"pairs": len(asked), "card": {"model_hash": model.hash, "seed": 0}}
    found["picture"] = pictured(model, asked)
    click.echo(f"{found['picture']}", err=True)
    found |= swapped(model, asked, found["picture"]["head"])
    return found


# ---- the attention pattern and its edge


def pictured(model: Model, asked: Sequence[PairOf]) -> dict[str, Any]:
    """Find the encoder head that most often attends to another noun, and measure its edge.

    The head is chosen on all pairs, and also on every second one and then counted on the others.
    """
    looks = [[look(model, row) for row in (one.first, one.second)] for one in asked]
    told = [two for two in looks if all(len(options) > 1 for _, _, options in two)]
    most = np.array([[seen.argmax(-1) for seen, _, _ in two] for two in told])
    turned = most[:, 0] != most[:, 1]  # [pair, layer, head]
    place = _best(turned.mean(0))
    half = _best(turned[::2].mean(0))
    edges = _edges(model, asked, looks, place)
    return {
        "head": list(place),
        "turned": int(turned[:, place[0], place[1]].sum()),
        "pairs": len(told),
        "half": list(half),
        "half_turned": int(turned[1::2, half[0], half[1]].sum()),
        "half_pairs": len(turned[1::2]),
        **edges,
    }


def look(model: Model, row: Asked) -> tuple[np.ndarray, tuple[int, ...], list[Word]]:
    """Return each encoder head's weight from "it" on each earlier noun, ``[layer, head, noun]``."""
    run = tv.trace(model, row.english, row.before, check=False)
    it = its(run.source)[-1]
    options = nouns(run.source, it)
    seen = [[weight_on(one.weights, it.tokens, word) for word in options]
            for one in run.blocks("encoder")]  # fmt: skip
    return np.array(seen).transpose(0, 2, 1), it.tokens, options


def _best(share: np.ndarray) -> tuple[int, int]:
    layer, head = np.unravel_index(int(share.argmax()), share.shape)
    return int(layer), int(head)


def _edges(
    model: Model, asked: Sequence[PairOf], looks: Sequence[Any], place: tuple[int, int]
) -> dict[str, int]:
    """Count the preferred pronouns that change without certain links.

    The links go from "it" to the noun that the head attends to most, or to as many random tokens.
    """
    chance = random.Random(0)
    changed = {"edge": 0, "random": 0, "only_edge": 0, "only_random": 0}
    rows = [row for one in asked for row in (one.first, one.second)]
    clean = pronouns.log_chances(model, rows).argmax(-1).tolist()
    flat = [one for two in looks for one in two]
    for row, before, (seen, tokens, options) in zip(rows, clean, flat, strict=True):
        if not options:
            continue
        noun = options[int(seen[place].argmax())]
        others = [n for n in range(tokens[0]) if n not in noun.tokens]
        few = chance.sample(others, min(len(others), len(noun.tokens)))
        turned = {}
        for name, keys in (("edge", noun.tokens), ("random", few)):
            cut = BlockEdges(
                edges=tuple((token, key) for token in tokens for key in keys),
                stack="encoder",
                block="self",
                layer=place[0],
                head=place[1],
            )
            after = pronouns.log_chances(model, [row], Intervention((cut,))).argmax(-1)
            turned[name] = int(after[0]) != before
            changed[name] += turned[name]
        changed["only_edge"] += turned["edge"] and not turned["random"]
        changed["only_random"] += turned["random"] and not turned["edge"]
    return changed | {"sentences": len(rows)}


# ---- patches


def swapped(model: Model, asked: Sequence[PairOf], head: Sequence[int]) -> dict[str, Any]:
    """Patch every head, and residual stream sites, from the other sentence of each pair."""
    heads: list[np.ndarray] = []
    sites: list[tuple[str, int, int]] = []
    streams: list[np.ndarray] = []
    runs: list[Swap] = []
    told: list[PairOf] = []
    for one in asked:
        found = tv.swap(
            model, one.first.english, one.second.english, one.words, target=one.first.before
        )
        if not _told_apart(found):
            continue
        sites = [(cell.part, cell.row, cell.column) for cell in found.cells]
        heads.append(np.array([found.parts[p][row, column] for p, row, column in sites]))
        streams.append(np.array(list(_stream(found, one))))
        runs.append(found)
        told.append(one)
        click.echo(f"{len(runs)} pairs swapped", err=True)
    grid = np.stack(heads)
    order = np.argsort(-grid.mean(0))
    kinds = np.array([one.first.kind for one in told])
    alike = np.array([not one.bench.question.lone[0] for one in runs])
    stream = np.stack(streams)
    number = sites.index(("encoder", head[0], head[1]))
    said = {
        "told_apart": len(runs),
        "heads": [_head(sites[n], grid[:, n], grid) for n in order[:SHOWN]],
        "pictured": _head(sites[number], grid[:, number], grid)
        | {"place": int(np.where(order == number)[0][0]) + 1, "of": len(sites)},
        "together": [],
        "kinds": {
            kind: {
                "pairs": int((kinds == kind).sum()),
                "heads": [
                    _head(sites[n], grid[kinds == kind][:, n], grid[kinds == kind])
                    for n in order[:SHOWN]
                ],
            }
            for kind in KINDS
            if (kinds == kind).any()
        },
        "stream": stream[alike].mean(0).round(3).tolist(),
        "unmatched": int((~alike).sum()),
        "unmatched_stream": stream[~alike].mean(0).round(3).tolist() if (~alike).any() else [],
    }
    for count in TOGETHER:
        few = [sites[n] for n in order[:count]]
        moved = [one.together(_edits(one, few)) for one in runs]
        said["together"].append({"heads": count, "moved": round(float(np.mean(moved)), 3)})
    return said


def _told_apart(found: Swap) -> bool:
    """Return True if the model prefers the right pronoun in both, by the required margin."""
    return found.clean > 0 > found.other and found.clean - found.other >= LEAST


def _head(site: tuple[str, int, int], moved: np.ndarray, grid: np.ndarray) -> dict[str, Any]:
    """Return a head's mean over the pairs, its 95 % interval, and its number of first ranks."""
    weights = reweightings(len(moved), seed=0)
    draws = (weights @ moved) / weights.sum(1)
    low, high = percentile_interval(draws[:, None])
    first = int((moved >= grid.max(1) - 1e-12).sum())
    return {
        "head": f"{site[0]} L{site[1]} H{site[2]}",
        "moved": round(float(moved.mean()), 3),
        "low": round(float(low[0]), 3),
        "high": round(float(high[0]), 3),
        "first": first,
    }


def _edits(found: Swap, few: Sequence[tuple[str, int, int]]) -> list[SwapHead]:
    other = found.bench.question.named
    return [
        SwapHead(source=other, stack=MAPS[p][0], block=MAPS[p][1], layer=row, head=column)
        for p, row, column in few
    ]


def _stream(found: Swap, one: PairOf) -> Iterator[list[float]]:
    """Yield the effect of residual stream patches in the encoder, by layer: ``[layer, site]``."""
    question = found.bench.question
    own, there = question.own_tokens, question.other_tokens
    known = [n for n, other in enumerate(question.other.counterparts) if other is not None]
    it = its(own)[-1].tokens
    changed = [n for n in known if own.ids[n] != there.ids[question.other.counterparts[n] or 0]]
    rest = [n for n in known if n not in changed and n not in it]
    layers = len(found.parts["encoder"])
    for layer in range(layers):
        where = {"stack": "encoder", "layer": layer}
        sets = [
            [SwapStream(source=question.named, token=n, **where) for n in few]  # type: ignore[arg-type]
            for few in (changed, it, rest, known)
        ]
        yield found.bench.moved(sets)


def main(names: Sequence[str]) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    for name in names or ("en-de",):
        kept.pop(name, None)
        kept[name] = measure(tv.load(name, device="cpu"))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept, list(kept)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
