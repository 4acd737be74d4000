"""docs/add-an-edit.md is followed to the letter: an edit that hides, and one of the scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.added_edit import CAP, DEGREE, HEAD, STEPS, followed
from transformer_viz.core.numerics import softmax

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def added() -> dict[str, Any]:
    return followed()


def array(added: dict[str, Any], run: str, name: str) -> np.ndarray:
    return np.array(added[run][name], dtype=np.float64)


def test_both_stand_in_the_tuples_and_in_the_link(added: dict[str, Any]) -> None:
    assert added["kinds"][-2:] == ["hide_near", "cap_scores"]
    assert added["hiding"][-1] == "hide_near" and "hide_near" in added["reasons"]
    assert added["again"] == added["json"]
    assert added["caption"] == (
        "encoder: sees nothing nearer than 2 words; cross H1: scores above 0.05 lowered to it"
    )


def test_near_keys_are_hidden_and_the_rest_is_renormalised(added: dict[str, Any]) -> None:
    clean, edited = (array(added, run, "encoder") for run in ("clean", "near"))
    query, key = np.ogrid[0 : clean.shape[1], 0 : clean.shape[2]]
    kept = clean * (abs(query - key) >= STEPS)
    np.testing.assert_allclose(edited, kept / kept.sum(-1, keepdims=True), atol=1e-6)
    assert added["near"]["status"] == "green"


def test_scores_are_capped_on_one_head_before_temperature(added: dict[str, Any]) -> None:
    clean, edited = (array(added, run, "scores") for run in ("clean", "cap"))
    assert (clean[HEAD] > CAP).any() and (clean[HEAD] < CAP).any()
    expected = clean.copy()
    expected[HEAD] = np.minimum(clean[HEAD], CAP)
    np.testing.assert_allclose(edited, expected / DEGREE, atol=1e-5)
    np.testing.assert_allclose(array(added, "cap", "cross"), softmax(expected / DEGREE), atol=1e-6)
