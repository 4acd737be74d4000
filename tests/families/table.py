"""``python -m tests.families.table``: writes docs/families.md; with ``--check``, compares it.

One row a kind of Hugging Face model: a tiny one with strong random weights is saved as a folder and
opened again, and what the probe sees is held against what the model itself reports, eager.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

import transformer_viz as tv
from tests.support.paths import ROOT
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.hugging_face.config import UNSHOWN

from . import laws
from .catalogue import FAMILIES, Family, built, real, reported, run
from .more import MORE

PAGE = ROOT / "docs" / "families.md"
EACH = (*FAMILIES, *MORE)
ATTENTION, FOLDER, EDITS = 1e-6, 1e-5, 1e-5  # the most that each figure may be
#: Kinds whose own fused and eager code differ, so that only the eager one can be compared.
AT_ODDS = ("falcon_alibi",)
COLUMNS = (
    *("model", "opens as", "attentions", "difference", "from a folder", "temperature", "head off"),
    "note",
)
HEAD = """# Hugging Face models that were tried

Written by `python -m tests.families.table`, which builds a tiny model of each kind with strong
random weights, saves it with `save_pretrained`, and opens the folder with `tv.load`. Nothing here
was trained, and nothing comes from a network.

- **attentions**: how many the probe finds in one forward pass.
- **difference**: the largest between the captured weights and those that the model reports itself
  (`output_attentions=True`), both with the library's eager code; rows of padding are left out.
- **from a folder**: the same for the model opened from its folder, which runs the library's fused
  code where there is some, here on PyTorch's math kernel; eager and fused code round differently.
- **temperature**: temperature 2 in every head, against queries and added biases halved by hand.
- **head off**: a head switched off, against its slice zeroed before the output projection.

Figures are rounded up to a power of ten; 0 is an exact zero.

"""
FOOT = """
Any other architecture of the library is opened the same way: its class runs once on a small input
when it is opened, and the maps are what the probe sees there. Where there is nothing to show, a
sentence says why. Models that `tv.load` has no input for (several inputs at once) or no picture for
(windows) can still be run inside `tv.probe`, as their rows above were.
"""


@dataclass(frozen=True)
class Row:
    """What was measured of one kind; ``None`` where it could not be."""

    name: str
    opens: str
    attentions: int
    difference: float | None = None
    folder: float | None = None
    temperature: float | None = None
    head: float | None = None
    note: str = ""


@cache
def opened(family: Family) -> Model | str:
    """The family's model, saved as a folder and opened; or the sentence that refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        save(family, Path(folder))
        try:
            return tv.load(folder, device="cpu")
        except CheckpointError as error:
            return str(error)


def save(family: Family, folder: Path) -> None:
    """A folder as the library writes it."""
    transformers.utils.logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built(family).save_pretrained(folder)
        if family.inputs == "sound":  # 22 steps of a second in 5 bands, as the inputs have
            words = {"feature_size": 5, "hop_length": 727, "chunk_length": 1}
            transformers.WhisperFeatureExtractor(**words).save_pretrained(folder)
        if family.inputs == "samples":
            transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)


@cache
def row(family: Family) -> Row:
    """The figures of one kind."""
    torch.set_num_threads(1)
    seen, _ = laws.watched(built(family), family)
    model = opened(family)
    shown = isinstance(model, Model)
    return Row(
        family.name,
        f"{model.kind}, {model.gives}" if shown else "no",
        len(seen.attentions),
        laws.capture(family, "eager"),
        from_folder(family, model) if shown and family.name not in AT_ODDS else None,
        laws.temperature(family, "eager"),
        laws.ablation(family, "eager") if family.output else None,
        " ".join(model.notes) if shown else model.partition(";")[0].partition(" tv.")[0],
    )


def from_folder(family: Family, model: Model) -> float:
    """The attention of the opened model against what the one in memory reports."""
    # a clean run leaves the kernel to PyTorch: the flash kernel rounds otherwise than the formula
    with sdpa_kernel(SDPBackend.MATH):
        seen, _ = laws.watched(model.module, family)
    theirs = run(built(family), family, output_attentions=True)
    worst = 0.0
    for name, stack, kind in family.maps:
        # a lone stack is called an encoder unless the caller knows better
        records = [a for a in seen.attentions if len(family.maps) == 1 or stack == a.stack]
        ours = [a.weights for a in records if a.kind == kind]
        for a, b in zip(ours, reported(theirs, name), strict=True):
            worst = max(worst, laws.far(real(a, 2), real(b, 2)))
    return worst


def rows() -> list[Row]:
    """Every kind, by name, those that are refused by name last."""
    found = sorted((row(family) for family in EACH), key=lambda one: one.name)
    refused = [Row(name, "no", 0, note=why) for name, why in sorted(UNSHOWN.items())]
    return found + refused


def figure(value: float | None) -> str:
    """A difference, rounded up to a power of ten from 1e-07 on."""
    if not value:
        return "-" if value is None else "0"
    return f"1e{math.ceil(math.log10(max(value, 1e-7))):+03d}"


def line(one: Row) -> str:
    figures = map(figure, (one.difference, one.folder, one.temperature, one.head))
    cells = (one.name, one.opens, str(one.attentions), *figures, one.note)
    return "| " + " | ".join(cells) + " |"


def page() -> str:
    """The whole page."""
    bars = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
    return HEAD + bars + "\n".join(map(line, rows())) + "\n" + FOOT


def without_figures(text: str) -> str:
    """A page in which figures count as there or not there: they differ between machines."""
    text = re.sub(r"\| (0|1e[+-]\d\d)(?= \|)", "| measured", text)
    return re.sub(r"miss by [\d.e+-]+\d", "miss by some", text)


def stale() -> bool:
    """Whether the page in docs is not the one that would be written now."""
    return without_figures(PAGE.read_text(encoding="utf-8")) != without_figures(page())


def stands(one: Row) -> bool:
    """Whether a row stands in the page as it is, figures aside."""
    return without_figures(line(one)) in without_figures(PAGE.read_text(encoding="utf-8"))


def main() -> None:
    if "--check" in sys.argv[1:]:
        if stale():
            sys.exit("docs/families.md is stale; run python -m tests.families.table")
        return
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
