"""Every kind in docs/families.md: what the page says is measured here, and within its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError, Model

from . import table
from .catalogue import TEXT
from .more import REFUSED

pytestmark = pytest.mark.families


def is_within_bounds(row: table.Row) -> bool:
    """Whether each figure is there that must be, and is no larger than it may be."""
    shown = row.opens == "no" or row.name in table.AT_ODDS
    folder = shown or (row.folder is not None and row.folder <= table.FOLDER)
    exact = row.difference is not None and row.difference <= table.ATTENTION
    warm = row.temperature is not None and row.temperature <= table.EDITS
    return row.attentions > 0 and exact and warm and folder and (row.head or 0.0) <= table.EDITS


SAMPLE = table.EACH[::6]


@pytest.mark.slow
def test_rows_of_the_page_are_those_of_now_and_within_their_bounds() -> None:
    rows = [table.row(family) for family in SAMPLE]
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


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_says_why(name: str, tmp_path: Path) -> None:
    cls, words = REFUSED[name]
    config = getattr(transformers, f"{cls}Config")(**(TEXT | words))
    getattr(transformers, f"{cls}Model")(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"no attention that could be shown: .*tv\.probe"):
        tv.load(tmp_path, device="cpu")
