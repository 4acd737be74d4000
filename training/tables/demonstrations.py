"""Findings of papers, measured on our models: the figures of docs/demonstrations.md.

    python -m training.tables.demonstrations [--bert FOLDER] [D1 D2 ...]

If no part is named, all are measured. D1, D2 and D6 use models trained here (minutes), D3 to D5 the
bundled ``en-de``, D8 a BERT in FOLDER, D9 it_head.json, D10 stored steps. Results stay in
demonstrations.json, so that a single part can be measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import transformer_viz as tv
from tests.support import repeater, synthetic_pair
from tests.support.repeater import Snapshot
from training.tables.demonstrations_page import page
from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED, SENTENCES
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.inference.alignment.corpus import align_corpus
from transformer_viz.inference.head_metrics.own_weights import OwnWeights
from transformer_viz.metrics.alignment.error_rate import LinkCounts, counted
from transformer_viz.metrics.alignment.linking import Links, by_words, links_of
from transformer_viz.metrics.statistics.bootstrap import reweightings, spearman

HERE = Path(__file__).resolve().parent
KEPT, PAGE = HERE / "demonstrations.json", HERE.parents[1] / "docs" / "demonstrations.md"
SEEDS = (0, 1, 2)
HEAD = ["stack", "block", "layer", "head"]
SHIPPED = "en-de"
RANKED = slice(0, 200)  # sentences of the stored ranking
HELD = slice(200, 300)  # sentences on which its order is tested
POINTS = 11  # of a pruning curve
ALIGNED = 200  # sentences of D6
GROWING = "en-de-small"
GROWN = 40  # sentences of D10
SPECIAL = 50  # sentences of a given BERT
Found = dict[str, Any]


# ---- D1 and D2: the repeater


def induction(_: argparse.Namespace) -> Found:
    """Measure D1: induction with two layers and with one, and its onset, over seeds."""
    found = []
    for seed in SEEDS:
        two, one = _taught(seed, 2), _taught(seed, 1)
        texts = repeater.sentences()
        last, control = (tv.metrics(run[-1].model, texts) for run in (two, one))
        scores = [_best(tv.metrics(s.model, repeater.sentences(2)), "induction", 1) for s in two]
        found.append(
            {
                "seed": seed,
                "accuracy": two[-1].accuracy,
                "control": one[-1].accuracy,
                "induction": _best(last, "induction", 1),
                "control_induction": _best(control, "induction", 0),
                "previous": _best(last, "previous", 0),
                "loss_step": two[_half([-s.loss for s in two])].step,
                "induction_step": two[_half(scores)].step,
                "sink": [_best(tv.metrics(s.model, texts), "sink", None) for s in two[::6]],
            }
        )
    return {"seeds": found, "steps": repeater.STEPS, "every": repeater.EVERY}


@cache
def _taught(seed: int, layers: int) -> list[Snapshot]:
    return repeater.taught(seed, layers)


def _best(heads: pd.DataFrame, name: str, layer: int | None) -> float:
    """Return the largest value of a measure in a layer, or in all layers for None."""
    rows = heads if layer is None else heads[heads["layer"] == layer]
    return float(rows[name].max())


def _half(values: Sequence[float]) -> int:
    """Return the first index more than half of the way from the first value to the last."""
    middle = (values[0] + values[-1]) / 2
    return int((np.array(values) > middle).argmax())


def redundancy(_: argparse.Namespace) -> Found:
    """Measure D2: the heads of the second layer one by one, and together."""
    found = []
    for seed in SEEDS:
        groups = tv.rank(_taught(seed, 2)[-1].model, repeater.continued()).groups
        row = groups[groups["layer"] == 1].iloc[0]
        found.append({"seed": seed} | {name: float(row[name]) for name in ("sum", "effect")})
    return {"seeds": found}


# ---- D3 to D5: the bundled translator


def importance(_: argparse.Namespace) -> Found:
    """Measure D3: confidence against the cost of removal by kind of attention; positional heads."""
    measured, ranked = _stored(SHIPPED)
    both = measured.merge(ranked[[*HEAD, "effect"]], on=HEAD)
    kinds = {}
    for name, rows in _kinds(both):
        x, y = rows["confidence"].to_numpy(float), rows["effect"].to_numpy(float)
        again = reweightings(len(rows), seed=0)
        draws = [
            spearman(np.repeat(x, weights), np.repeat(y, weights)) for weights in again.astype(int)
        ]
        low, high = np.nanpercentile(draws, [2.5, 97.5])
        kinds[name] = {"heads": len(rows), "spearman": spearman(x, y), "low": low, "high": high}
    encoder = measured[(measured["stack"] == "encoder")]
    first = encoder.loc[encoder["positional"].idxmax()]
    return {
        "kinds": kinds,
        "positional": {"head": _named(first), "share": float(first["positional"])},
        "card": _card(SHIPPED),
    }


def _stored(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the stored measures and ranking of a bundled model."""
    stored = json.loads((PRETRAINED / name / HEADS).read_text(encoding="utf-8"))
    return pd.DataFrame(stored["columns"]), pd.DataFrame(stored["ranking"]["columns"])


def _card(name: str) -> Found:
    stored = json.loads((PRETRAINED / name / HEADS).read_text(encoding="utf-8"))
    return {key: stored["card"][key] for key in ("model_hash", "sentences", "rows", "seed")}


def _kinds(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return heads by kind of attention, in execution order."""
    named = rows["stack"].where(rows["block"] == "self", "cross")
    return [(name, rows[named == name]) for name in ("encoder", "decoder", "cross")]


def _named(row: Any) -> str:
    return str(Site(row["stack"], row["block"], int(row["layer"]), int(row["head"])))


def _pairs() -> list[tuple[str, str]]:
    lines = (PRETRAINED / SENTENCES).read_text(encoding="utf-8").splitlines()
    return [(source, target) for source, target in (line.split("\t")[:2] for line in lines)]


def pruning(_: argparse.Namespace) -> Found:
    """Measure D4 and D5: pruning in the order of a ranking, and removal of whole kinds.

    Pruning is measured on other sentences than the ranking. Each kind of attention is removed alone
    and all at once.
    """
    _, order = _stored(SHIPPED)
    heads = [
        (row["stack"], row["block"], int(row["layer"]), int(row["head"]))
        for _, row in order.iterrows()
    ]
    began = time.process_time()
    ranking = tv.rank(tv.load(SHIPPED, device="cpu"), _pairs()[HELD])
    curves = {
        "least": ranking.curve(heads[::-1], POINTS),
        "most": ranking.curve(heads, POINTS),
        "random": ranking.curve("random", POINTS),
    }
    groups = ranking.groups
    whole = groups[groups["layer"].isna() & groups["block"].notna()]
    kinds = {}
    for (name, rows), key in zip(
        _kinds(order), [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")], strict=True
    ):
        group = whole[(whole["stack"] == key[0]) & (whole["block"] == key[1])].iloc[0]
        kinds[name] = {
            "heads": len(rows),
            "mean": float(rows["effect"].mean()),
            "most": float(rows["effect"].max()),
            "together": float(group["effect"]),
        }
    return {
        "curves": {
            name: {key: curve[key].tolist() for key in ("removed", "effect", "low", "high")}
            for name, curve in curves.items()
        },
        "kinds": kinds,
        "heads": len(heads),
        "cpu_seconds": time.process_time() - began,
        "card": {key: ranking.card[key] for key in ("model_hash", "sentences", "rows", "seed")},
    }


# ---- D6: two made-up languages


def alignment(_: argparse.Namespace) -> Found:
    """Measure D6: error of the best head by each reading, of weights and of weighted values."""
    found = []
    for seed in SEEDS:
        model = synthetic_pair.translator(seed)
        some = synthetic_pair.pairs(ALIGNED, 1000)
        ids = synthetic_pair.as_ids(some)
        errors = align_corpus(model, ids, gold=[pair.gold for pair in some]).errors
        assert errors is not None
        heads = errors[errors["head"].notna()]
        one: Found = {"seed": seed, "accuracy": synthetic_pair.accuracy(model, some)}
        for shift in ("out", "in"):
            rows = heads[heads["shift"] == shift]
            row = rows.loc[rows["error_rate"].idxmin()]
            one[shift] = {"rate": float(row["error_rate"]), "layer": int(row["layer"])}
            one[f"{shift}_layers"] = rows.groupby("layer")["error_rate"].min().tolist()
        layers = errors[errors["head"].isna() & errors["layer"].notna()]
        one["weights"] = layers[layers["shift"] == "out"]["error_rate"].tolist()
        own, counts = OwnWeights(model), dict[int, LinkCounts]()
        for pair, (source, target) in zip(some, ids, strict=True):
            run = tv.trace(model, source, target, keep=("weights", "qkv"), check=False)
            for layer, links in _by_length(own, run):
                counts[layer] = counts.get(layer, LinkCounts()).plus(counted(links, pair.gold))
        one["lengths"] = [counts[layer].error_rate for layer in sorted(counts)]
        found.append(one)
    return {"seeds": found, "sentences": ALIGNED}


def _by_length(own: OwnWeights, run: Trace) -> Iterable[tuple[int, Links]]:
    """Yield each layer's links by the length of its heads' output from each source word."""
    for block in run.blocks("cross"):
        values = own.beside(block, False)["values"]  # [head, key, d_model]
        written = np.einsum("hqk,hkd->qkd", block.weights.astype(np.float64), values)
        lengths = np.linalg.norm(written, axis=-1)
        merged = by_words(lengths, run.source, run.tokens("target"), "out")
        yield block.site.layer, links_of(merged)


# ---- D8 to D10


def special(given: argparse.Namespace) -> Found:
    """Measure D8: heads of a BERT that attend to special tokens or to neighbours."""
    sentences = [source for source, _ in _pairs()[:SPECIAL]]
    measured, _ = _stored("en-mlm")
    found = {"en-mlm, bundled": _beside(measured)}
    if given.bert is not None:
        model = tv.load(str(given.bert), device="cpu")
        ends = np.mean([_on_ends(tv.trace(model, one, check=False)) for one in sentences], 0)
        first, end = (int((mass > 0.5).sum()) for mass in ends)
        measured = tv.metrics(model, sentences)
        found[f"{given.bert.name}, weights {model.hash[:12]}"] = _beside(measured, first, end)
    return {"models": found, "sentences": SPECIAL, "given": given.bert is not None}


def _on_ends(run: Trace) -> np.ndarray:
    """Return the words' mean attention to the first and the last token, ``[2, layer, head]``."""
    words = ~np.array(run.source.special, bool)
    mean = [block.weights[:, words].mean(1) for block in run.blocks("encoder")]
    return np.stack(mean)[..., [0, -1]].transpose(2, 0, 1)


def _beside(measured: pd.DataFrame, first: int | None = None, end: int | None = None) -> Found:
    return {
        "heads": len(measured),
        "first": first,
        "end": end,
        "special": int((measured["special"] > 0.5).sum()),
        "first_special": _of_best(measured, "special"),
        "previous": _of_best(measured, "previous"),
        "next": _of_best(measured, "next"),
    }


def _of_best(measured: pd.DataFrame, name: str) -> Found:
    row = measured.loc[measured[name].idxmax()]
    return {"head": _named(row), "share": float(row[name])}


def pronoun(_: argparse.Namespace) -> Found:
    """Return D9, as measured by it_head.py."""
    kept = json.loads((HERE / "it_head.json").read_text(encoding="utf-8"))[SHIPPED]
    return {"picture": kept["picture"], "card": kept["card"], "first": kept["heads"][0]}


def sinks(_: argparse.Namespace) -> Found:
    """Measure D10: attention sinks over the steps of a bundled training."""
    steps = sorted(
        int(path.stem.removeprefix("step-")) for path in (PRETRAINED / GROWING).glob("step-*.safe*")
    )
    names = {str(step): f"{GROWING}/step-{step}" for step in steps} | {"last": GROWING}
    found = {}
    for step, name in names.items():
        told = tv.roles(tv.metrics(tv.load(name, device="cpu"), _pairs()[:GROWN]))
        kinds = {kind: rows["special"].mean() for kind, rows in _kinds(told)}
        found[step] = {kind: None if np.isnan(x) else float(x) for kind, x in kinds.items()}
        found[step]["sinks"] = int(told["states"].map(lambda given: "sink" in given).sum())
        found[step]["heads"] = len(told)
    return {"steps": found, "sentences": GROWN}


PARTS: dict[str, Callable[[argparse.Namespace], Found]] = {
    "D1": induction,
    "D2": redundancy,
    "D3": importance,
    "D4": pruning,
    "D6": alignment,
    "D8": special,
    "D9": pronoun,
    "D10": sinks,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bert", type=Path, help="folder of a BERT, for D8")
    parser.add_argument("parts", nargs="*", metavar="D", help=", ".join(PARTS))
    given = parser.parse_args()
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no {unknown[0]}; choose of {', '.join(PARTS)} (D5 is in D4)")
    for name in given.parts or PARTS:
        began = time.process_time()
        found = PARTS[name](given)
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
        kept[name] = found
        ordered = {key: kept[key] for key in PARTS if key in kept}
        KEPT.write_text(json.dumps(ordered, indent=1, default=float) + "\n", encoding="utf-8")
        print(f"{name}: {time.process_time() - began:.0f} CPU seconds", flush=True)
    PAGE.write_text(page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
