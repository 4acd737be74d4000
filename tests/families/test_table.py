"""The tables of families: a sample is measured anew, all within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

import transformer_viz as tv
from tests.support.measured_tables import read_table
from transformer_viz.checkpoints import CheckpointError, Model

from . import explained, table
from .catalogue import TEXT
from .more import REFUSED

pytestmark = pytest.mark.families
#: Norm before and after, with and without biases, and those that lack something.
EXPLAINED = ("bart", "gpt2", "llama", "t5", "whisper", "gemma2", "falcon_alibi", "xlnet", "vit")


def is_within_bounds(row: table.Row) -> bool:
    """Whether each figure is there that must be, and is no larger than it may be."""
    shown = row.opens == "no" or row.name in table.AT_ODDS
    folder = shown or (row.folder is not None and row.folder <= table.FOLDER)
    exact = row.difference is not None and row.difference <= table.ATTENTION
    warm = row.temperature is not None and row.temperature <= table.EDITS
    return row.attentions > 0 and exact and warm and folder and (row.head or 0.0) <= table.EDITS


@pytest.mark.slow
def test_rows_of_the_page_are_those_of_now_and_within_their_bounds() -> None:
    rows = [table.row(family) for family in table.EACH[::6]]
    assert not [row for row in rows if not (is_within_bounds(row) and table.stands(row))]


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_is_up_to_date_and_its_figures_are_within_their_bounds() -> None:
    """One test, so that one process measures the rows once."""
    assert not [found for family in table.EACH if not is_within_bounds(found := table.row(family))]
    models = [table.opened(family) for family in table.EACH]
    kinds = {model.config["model_type"] for model in models if isinstance(model, Model)}
    assert len(kinds) >= 60
    assert not table.stale(), "run python -m tests.families.table"


def test_what_cannot_be_shown_says_why(tmp_path: Path) -> None:
    for name, (cls, words) in REFUSED.items():
        config = getattr(transformers, f"{cls}Config")(**(TEXT | words))
        getattr(transformers, f"{cls}Model")(config).save_pretrained(tmp_path / name)
        with pytest.raises(CheckpointError, match=r"no attention that could be shown: .*tv\.probe"):
            tv.load(tmp_path / name, device="cpu")
            pytest.fail(f"{name} was opened")


def test_explained_families_stand_in_the_page_and_within_bounds() -> None:
    failed = []
    for family in table.EACH:
        if family.name not in EXPLAINED:
            continue
        row = explained.of_family(family)
        kept = explained.stands(row)
        kept &= row.contributions is None or row.contributions <= explained.CONTRIBUTIONS
        kept &= row.logits is None or row.logits <= explained.LOGITS
        if not kept or not (row.note or None not in (row.contributions, row.logits)):
            failed.append(row)
    assert not failed
    # P29 and P32 on every layout and family that serves; forty of them at least.
    rows = read_table(explained.TABLE)
    sums = [float(row["contributions"]) for row in rows if row["contributions"] != "-"]
    logits = [float(row["logits"]) for row in rows if row["logits"] != "-"]
    assert max(sums) <= explained.CONTRIBUTIONS and max(logits) <= explained.LOGITS
    assert len(sums) > 100 and len(logits) > 60
    for row in rows:
        assert row["note"] or "-" not in (row["contributions"], row["logits"]), row
