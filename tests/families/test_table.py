"""Every kind in docs/families.md: what the page says is measured here, and within its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers

import transformer_viz as tv
from transformer_viz.checkpoints import CheckpointError, Model

from . import table
from .catalogue import TEXT, Family
from .more import REFUSED
from .test_capture import label

pytestmark = pytest.mark.families


@pytest.mark.parametrize("family", table.EACH, ids=label)
def test_figures_are_within_their_bounds(family: Family) -> None:
    row = table.row(family)
    assert row.attentions > 0
    assert row.difference is not None and row.difference <= table.ATTENTION
    assert row.temperature is not None and row.temperature <= table.EDITS
    assert row.head is None or row.head <= table.EDITS
    if row.opens != "no" and family.name not in table.AT_ODDS:
        assert row.folder is not None and row.folder <= table.FOLDER


def test_at_least_sixty_architectures_open() -> None:
    models = [table.opened(family) for family in table.EACH]
    kinds = {model.config["model_type"] for model in models if isinstance(model, Model)}
    assert len(kinds) >= 60


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shown_says_why(name: str, tmp_path: Path) -> None:
    cls, words = REFUSED[name]
    config = getattr(transformers, f"{cls}Config")(**(TEXT | words))
    getattr(transformers, f"{cls}Model")(config).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"no attention that could be shown: .*tv\.probe"):
        tv.load(tmp_path, device="cpu")


def test_the_page_is_up_to_date() -> None:
    assert not table.stale(), "run python -m tests.families.table"
