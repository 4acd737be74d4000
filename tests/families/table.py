"""``python -m tests.families.table``: write docs/tables/families.csv; with ``--check``, compare it.

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
from tests.support.measured_tables import read_table, write_table
from transformer_viz.checkpoints import CheckpointError, Model
from transformer_viz.checkpoints.hugging_face.config import UNSHOWN

from . import laws
from .catalogue import FAMILIES, Family, built, real, reported, run
from .more import MORE

TABLE = "families"
EACH = (*FAMILIES, *MORE)
ATTENTION, FOLDER, EDITS = 1e-6, 1e-5, 1e-5  # the most that each figure may be
#: Kinds whose own fused and eager code differ, so that only the eager one can be compared.
AT_ODDS = ("falcon_alibi",)
COLUMNS = (
    *("model", "opens as", "attentions", "difference", "from a folder", "temperature", "head off"),
    "note",
)


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


def cells(one: Row) -> dict[str, str]:
    """Return a row of the table, by column."""
    figures = map(figure, (one.difference, one.folder, one.temperature, one.head))
    values = (one.name, one.opens, str(one.attentions), *figures, one.note)
    return dict(zip(COLUMNS, values, strict=True))


def without_figures(row: dict[str, str]) -> dict[str, str]:
    """Return a row in which figures count as there or not there: they differ between machines."""
    return {
        column: re.sub(
            r"^(0|1e[+-]\d\d)$", "measured", re.sub(r"miss by [\d.e+-]+\d", "miss", cell)
        )
        for column, cell in row.items()
    }


def stale() -> bool:
    """Return whether the table in docs is not the one that would be written now."""
    now = [without_figures(cells(one)) for one in rows()]
    return [without_figures(row) for row in read_table(TABLE)] != now


def stands(one: Row) -> bool:
    """Return whether the table in docs has this row, figures aside."""
    return without_figures(cells(one)) in map(without_figures, read_table(TABLE))


def main() -> None:
    if "--check" in sys.argv[1:]:
        if stale():
            sys.exit("docs/tables/families.csv is stale; run python -m tests.families.table")
        return
    write_table(TABLE, map(cells, rows()))


if __name__ == "__main__":
    main()
