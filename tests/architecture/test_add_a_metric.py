"""docs/add-a-metric.md is followed to the letter: one function and one entry reach the screen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.added_metric import followed
from tests.support.component_stage import decoded
from transformer_viz.core.head_metrics import shown_metrics


@pytest.mark.slow
def test_the_page_is_followed() -> None:
    added = followed()
    # Every head has the new column, and the link can sort by it.
    assert added["columns"][-1] == "self"
    np.testing.assert_allclose(added["probe"], added["witness"], atol=1e-6)
    np.testing.assert_allclose(added["whole"], added["witness"], atol=1e-12)
    assert min(added["witness"]) > 0
    shown = [metric.name for metric in shown_metrics()]
    assert added["sorts"] == ["layer", *shown, "self", "change"]
    assert added["link"] == "self"
    # The atlas brings it with its texts.
    header, arrays = decoded(added["atlas"])
    (told,) = (metric for metric in header["metrics"] if metric["name"] == "self")
    assert told["title"] == "self" and told["heading"] == "on its own position"
    assert told["ranked"] == "ranked by weight on the word's own position, highest first"
    column = arrays["numbers0"][header["columns"].index("self")]
    np.testing.assert_allclose(column[1], added["witness"], atol=1e-6)
    # A trace that was stored before opens without it.
    header, arrays = decoded(added["older"])
    assert np.isnan(arrays["numbers0"][header["columns"].index("self")]).all()
    assert np.isfinite(arrays["numbers0"][header["columns"].index("entropy")]).all()
