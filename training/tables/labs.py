"""Numbers of the labs for the documentation: writes docs/labs.md.

    python -m training.tables.labs [--seeds RUNS]

All numbers are measured again, except the scores of the trained models, which their config.json
holds; the same machine gives the same numbers. RUNS holds the packaged models of other seeds, such
as `dot-2` (`transformer-viz train recipes/labs/dot.toml --seed 2 --out RUNS/dot-2`). Their scores
are listed beside the model's score.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import transformer_viz as tv
from training.write_file import note
from transformer_viz.app.labs import jobs
from transformer_viz.app.labs.experiments import (
    positional_encodings,
    pre_vs_post_norm,
    score_functions,
    score_scaling,
)
from transformer_viz.app.labs.experiments.layer_vs_batch_norm import OTHERS
from transformer_viz.app.labs.tiny_models import LABS
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.metrics.attention.score_variance import ROWS, head_spreads, random_spread
from transformer_viz.metrics.positions.positions import position_rows
from transformer_viz.metrics.positions.shift_errors import shift_errors

PAGE = Path(__file__).resolve().parents[2] / "docs" / "labs.md"
SEED, KEYS = 0, 17  # seed of the random vectors; number of tokens of the first sentence in en-de
DEPTHS = (2, 6, 12)
CHOICES = {
    **{name: ("score", formula) for name, formula in score_functions.WAYS.items()},
    "learned": ("positions", "learned"),
    "no-positions": ("positions", "none"),
    "post-norm": ("norm", "after each sum"),
}
HEAD = f"""# What the labs measure

Numbers behind the page Labs, written by

    python -m training.tables.labs

Where a sentence is needed, it is “{FIRST_TEXT}”
The labs measure on the sentence that the class types.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="What the labs measure.")
    parser.add_argument("--seeds", type=Path, metavar="RUNS", help="packaged models, NAME-SEED")
    runs = parser.parse_args().seeds
    for name in here() if runs else ():
        found = sorted(runs.glob(f"{name}-[0-9]*/{CONFIG}"))
        scores = [json.loads(path.read_text(encoding="utf-8"))["bleu"] for path in found]
        note(PRETRAINED / LABS / name, bleu_seeds=scores)
    sections = [HEAD, *filter(None, (tiny(), products(), shifts(), gradients(), learning()))]
    PAGE.write_text("\n".join(sections), encoding="utf-8")
    print(f"written: {PAGE.name}", file=sys.stderr)
    return 0


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def here() -> list[str]:
    """Return the bundled tiny models, in the order of the labs."""
    return [name for name in CHOICES if (PRETRAINED / LABS / name / CONFIG).is_file()]


def tiny() -> str:
    """Return the section on size and score of the tiny models."""
    rows = []
    for name in here():
        model, (word, value) = tv.load(LABS + name), CHOICES[name]
        config = json.loads((PRETRAINED / LABS / name / CONFIG).read_text(encoding="utf-8"))
        size = (PRETRAINED / LABS / name / "weights.safetensors").stat().st_size / 1e6
        rows.append(
            (
                f"`{LABS}{name}`",
                f"{word}: {value}",
                f"{model.parameters:,}",
                f"{size:.1f} MB",
                f"{config['bleu']:.1f}",
                ", ".join(f"{score:.1f}" for score in config.get("bleu_seeds", ())) or "-",
                tv.translate(model, FIRST_TEXT)[0].text,
            )
        )
    heads = [*("model", "its one choice", "parameters", "file", "BLEU", "other seeds")]
    heads.append("translation (greedy)")
    return (
        "## The tiny models\n\nOne recipe, one seed, the same updates; each differs from the first "
        "in one choice. BLEU as its card says: the whole test file, beam 4. What the same training "
        "reaches from other random weights (`--seed`) stands beside it: differences as large as "
        "those within a row may be chance.\n\n" + table(heads, rows)
    )


def products() -> str:
    """Return the section on the variance of q·k, and on the softmax with and without the factor."""
    rows = [
        (
            str(found.d_k),
            f"{found.variance:.1f}",
            *(
                f"{getattr(side, name):.3f}"
                for name in score_scaling.SOFT
                for side in (found.plain, found.scaled)
            ),
        )
        for found in (random_spread(width, KEYS, SEED) for width in score_scaling.WIDTHS)
    ]
    heads = ["dₖ (theory: the variance)", "variance of q·k"]
    for name in score_scaling.SOFT.values():
        heads += [f"{name}, q·k", f"{name}, q·k / √dₖ"]
    return (
        "## Why √dₖ?\n\n"
        f"Random vectors of independent numbers with mean 0 and variance 1: {ROWS} queries, each "
        f"with {KEYS} keys of its own. Entropy in bits; the gradient is the Frobenius norm of the "
        "softmax's Jacobian; means over rows.\n\n"
        + table(heads, rows)
        + "\nTrained heads need not keep to that: the variance of q·k over the cells that a head "
        "of en-de may see, on the sentence (dₖ = 32).\n\n"
        + table(("heads", "least", "middle", "most"), list(_heads()))
    )


def _heads() -> Iterator[tuple[str, ...]]:
    run = tv.trace(tv.load("en-de"), FIRST_TEXT, keep=("scores", "qkv"))
    found = head_spreads(run)
    for block in run.maps:
        values = [one.spread.variance for one in found if one.block == block]
        yield (block, *(f"{pick(values):.1f}" for pick in (np.min, np.median, np.max)))


def shifts() -> str:
    """Return the section on the errors of one rotation for the rows k further."""
    names = [name for name in positional_encodings.WAYS[:2] if name in here()]
    errors = {
        name: shift_errors(
            position_rows(tv.trace(tv.load(LABS + name), FIRST_TEXT), positional_encodings.TABLE)
        )
        for name in names
    }
    steps = (1, 2, 5, 10)
    rows = [
        (f"`{LABS}{name}`", *(f"{values[step - 1]:.1e}" for step in steps))
        for name, values in errors.items()
    ]
    return (
        "## Positions: is k words further always the same turn?\n\nThe largest miss of one turn "
        "for each pair of dimensions, in shares of the table's largest number, over the rows of "
        "the sentence.\n\n" + table(("model", *(f"k = {step}" for step in steps)), rows)
    )


def gradients() -> str:
    """Return the section on the gradient in each layer before the first update."""
    if "scaled-dot" not in here():
        return ""
    model: Model = tv.load(LABS + "scaled-dot")
    texts = (*OTHERS["first"], *OTHERS["second"])
    parts = []
    for depth in DEPTHS:
        kinds = jobs.began(model, texts, depth, pre_vs_post_norm.SEEDS)
        rows = [
            (
                f"{kind.norm}, {stack}",
                *(f"{size:.2f}" for size in kind.gradients[stack]),
                f"{max(kind.gradients[stack]) / min(kind.gradients[stack]):.1f}",
            )
            for stack in ("encoder", "decoder")
            for kind in kinds
        ]
        heads = ("norm, stack", *(f"L{layer}" for layer in range(depth)), "most : least")
        parts.append(f"{depth} layers in each stack:\n\n" + table(heads, rows))
    return (
        "## Norm before or after: gradients before the first update\n\nFresh models shaped like "
        f"`{LABS}scaled-dot`, means over {len(pre_vs_post_norm.SEEDS)} seeds, a batch of "
        f"{len(texts)} sentences; the norm of the gradient of all weights of a layer together.\n\n"
        + "\n".join(parts)
    )


def learning() -> str:
    """Return the section on the scores of the snapshots, as stored."""
    path = PRETRAINED / "en-de-small" / "snapshots.json"
    if not path.is_file():
        return ""
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        (f"{one['step']:,}", f"{one['loss']:.2f}", f"{one['bleu']:.1f}")
        for one in found["snapshots"]
    ]
    return (
        "## Watch it learn\n\n`en-de-small` at its snapshots: loss in nats a token, BLEU on "
        f"{found['sentences']:,} sources of `{found['file']}`, beam {found['beam']} (from "
        "`pretrained/en-de-small/snapshots.json`).\n\n" + table(("update", "loss", "BLEU"), rows)
    )


if __name__ == "__main__":
    sys.exit(main())
