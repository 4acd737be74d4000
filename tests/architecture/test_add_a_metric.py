"""docs/add-a-metric.md is followed to the letter: one function and one entry reach the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.added_metric import followed
from tests.support.component_stage import decoded
from transformer_viz.core.head_metrics import shown_metrics


@pytest.fixture(scope="module")
def added() -> dict[str, Any]:
    return followed()


def test_every_head_has_the_new_column(added: dict[str, Any]) -> None:
    assert added["columns"][-1] == "self"
    np.testing.assert_allclose(added["probe"], added["witness"], atol=1e-6)
    np.testing.assert_allclose(added["whole"], added["witness"], atol=1e-12)
    assert min(added["witness"]) > 0


def test_the_link_can_sort_by_it(added: dict[str, Any]) -> None:
    shown = [metric.name for metric in shown_metrics()]
    assert added["sorts"] == ["layer", *shown, "self", "change"]
    assert added["link"] == "self"


def test_the_atlas_brings_it_with_its_texts(added: dict[str, Any]) -> None:
    header, arrays = decoded(added["atlas"])
    (told,) = (metric for metric in header["metrics"] if metric["name"] == "self")
    assert told["title"] == "self" and told["heading"] == "on its own position"
    assert told["ranked"] == "ranked by weight on the word's own position, highest first"
    column = arrays["numbers0"][header["columns"].index("self")]
    np.testing.assert_allclose(column[1], added["witness"], atol=1e-6)


def test_a_trace_that_was_stored_before_opens_without_it(added: dict[str, Any]) -> None:
    header, arrays = decoded(added["older"])
    assert np.isnan(arrays["numbers0"][header["columns"].index("self")]).all()
    assert np.isfinite(arrays["numbers0"][header["columns"].index("entropy")]).all()
