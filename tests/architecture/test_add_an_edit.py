"""docs/add-an-edit.md is followed to the letter: an edit that hides, and one of the scores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.added_edit import CAP, DEGREE, HEAD, STEPS, followed
from transformer_viz.core.numerics import softmax

pytestmark = pytest.mark.process


def test_the_page_is_followed() -> None:
    added = followed()

    def array(run: str, name: str) -> np.ndarray:
        return np.array(added[run][name], dtype=np.float64)

    # Both stand in the tuples and in the link.
    assert added["kinds"][-2:] == ["hide_near", "cap_scores"]
    assert added["hiding"][-1] == "hide_near" and "hide_near" in added["reasons"]
    assert added["again"] == added["json"]
    assert added["caption"] == (
        "encoder: sees nothing nearer than 2 words; cross H1: scores above 0.05 lowered to it"
    )
    # Near keys are hidden and the rest is renormalised.
    clean, edited = (array(run, "encoder") for run in ("clean", "near"))
    query, key = np.ogrid[0 : clean.shape[1], 0 : clean.shape[2]]
    kept = clean * (abs(query - key) >= STEPS)
    np.testing.assert_allclose(edited, kept / kept.sum(-1, keepdims=True), atol=1e-6)
    assert added["near"]["status"] == "green"
    # Scores are capped on one head before temperature.
    clean, edited = (array(run, "scores") for run in ("clean", "cap"))
    assert (clean[HEAD] > CAP).any() and (clean[HEAD] < CAP).any()
    expected = clean.copy()
    expected[HEAD] = np.minimum(clean[HEAD], CAP)
    np.testing.assert_allclose(edited, expected / DEGREE, atol=1e-5)
    np.testing.assert_allclose(array("cap", "cross"), softmax(expected / DEGREE), atol=1e-6)
