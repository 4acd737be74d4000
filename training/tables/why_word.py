"""Comparison of attribution methods for an output word; writes docs/why-this-word.md.

    python -m training.tables.why_word [MODEL ...]

MODEL is a name in pretrained/ or a folder; if omitted, ``en-de``. Results stay in why_word.json,
one entry per model; ``--page`` writes the page from it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import transformer_viz as tv
from transformer_viz.inference.explanation.captions import OVER_WORDS
from transformer_viz.inference.explanation.deletion import RANDOM
from transformer_viz.inference.explanation.judging import judge

HERE = Path(__file__).resolve().parent
PAGE, KEPT = HERE.parents[1] / "docs" / "why-this-word.md", HERE / "why_word.json"
SENTENCES = HERE.parent / "pretrained" / "sentences.tsv"
COUNT, LEAST, MOST, DRAWS = 100, 5, 3, 20  # sentences, words of each, words hidden, random orders
#: Marks around this table on the page; the rest is written by other scripts or by hand.
BEGIN, END = "<!-- training.tables.why_word -->", "<!-- end of training.tables.why_word -->"


def sources() -> list[str]:
    """Return the first held-out sentences of at least five words."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    texts = [line.partition("\t")[0] for line in lines]
    return [text for text in texts if len(text.split()) >= LEAST][:COUNT]


def measured(name: str) -> dict[str, Any]:
    """Return the results of all methods for one model."""
    model, started = tv.load(name, device="cpu"), time.perf_counter()

    def tell(done: int, total: int) -> None:
        print(f"\r{name}: {done} of {total} sentences", end="", file=sys.stderr, flush=True)

    found = judge(model, sources(), most=MOST, draws=DRAWS, on_progress=tell)
    print(file=sys.stderr)
    first = found.losses[:, :, 0]  # [sentence, method], one word hidden
    names = list(found.methods)
    removal = first[:, names.index("removal")]
    hits = {
        method: float(np.isclose(first[:, n], removal, atol=1e-6).mean())
        for n, method in enumerate(names)
        if method != RANDOM
    }
    return {
        "rows": found.table.round(4).to_dict("records"),
        "hits": hits,
        "card": found.card,
        "seconds": round(time.perf_counter() - started, 1),
    }


def table(kept: dict[str, Any]) -> str:
    """Return one model's methods as a table, the best first."""
    rows = {(row["method"], row["hidden"]): row for row in kept["rows"]}
    names = sorted(dict.fromkeys(m for m, _ in rows), key=lambda m: -rows[m, 1]["loss"])
    head = "| method | " + " | ".join(
        f"{k} hidden" + (", 95 %" if k == 1 else ", above chance") for k in range(1, MOST + 1)
    )
    lines = [head + " | the costliest word first |", "|---|" + "---|" * (MOST + 1)]
    for name in names:
        one = rows[name, 1]
        cells = [f"{one['loss']:.2f} ({one['low']:.2f} to {one['high']:.2f})"]
        for k in range(2, MOST + 1):
            more = rows[name, k]
            beyond = "" if name == RANDOM else f" ({more['above']:+.2f})"
            cells.append(f"{more['loss']:.2f}{beyond}")
        hit = kept["hits"].get(name)
        cells.append("-" if hit is None else f"{hit:.0%}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def told(rows: dict[tuple[str, int], Any]) -> str:
    """Return sentences listing the methods above chance, with their intervals."""
    good: list[str] = []
    bad: list[str] = []
    for name in OVER_WORDS:
        one = rows[name, 1]
        span = f"{name} {one['above']:+.2f} ({one['above_low']:+.2f} to {one['above_high']:+.2f})"
        (good if one["above_low"] > 0 else bad).append(span)
    said = [f"Better than chance with one word hidden: {', '.join(good) or 'none'}."]
    if bad:
        said.append(f"Not told from chance: {', '.join(bad)}.")
    return " ".join(said)


def section(kept: dict[str, Any]) -> str:
    """Return the results of every model, between the marks."""
    parts = [BEGIN]
    for name, one in sorted(kept.items()):
        rows, card = {(r["method"], r["hidden"]): r for r in one["rows"]}, one["card"]
        parts += [
            f"### {name}",
            f"{card['sentences']} sentences, one word of the model's own greedy translation each, "
            f"drawn by seed {card['seed']}; {card['draws']} random orders; weights "
            f"`{card['model_hash'][:12]}`, {card['dtype']}.",
            table(one),
            told(rows),
        ]
    return "\n\n".join([*parts, END])


def put(page: str, part: str, begin: str, end: str) -> str:
    """Return a page with the part between two marks replaced.

    Raises:
        ValueError: The page lacks the marks.
    """
    if begin not in page or end not in page:
        raise ValueError(f"{PAGE.name} has no {begin} and {end}; put both where the part belongs.")
    before, _, rest = page.partition(begin)
    return before + part + rest.partition(end)[2]


def main(models: list[str]) -> None:
    """Measure these models and write the page."""
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}
    for name in models:
        kept[Path(name).name] = measured(name)
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(put(page, section(kept), BEGIN, END), encoding="utf-8")
    click.echo(section(kept))


if __name__ == "__main__":
    main([] if sys.argv[1:] == ["--page"] else sys.argv[1:] or ["en-de"])
