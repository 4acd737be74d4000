"""D6: cross-attention as alignment, between two languages whose gold is known as they are made."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.synthetic_pair import accuracy, as_ids, pairs
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.alignment.corpus import align_corpus

SENTENCES = 100

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def errors(translator: Model) -> pd.DataFrame:
    """The error of every head by both readings, on sentences that were not taught."""
    some = pairs(SENTENCES, 1000)
    assert accuracy(translator, some) > 0.99
    found = align_corpus(translator, as_ids(some), gold=[pair.gold for pair in some])
    assert found.errors is not None
    return found.errors[found.errors["head"].notna()]


def best(errors: pd.DataFrame, shift: str) -> pd.Series:
    rows = errors[errors["shift"] == shift]
    return rows.loc[rows["error_rate"].idxmin()]


def test_a_head_of_the_last_layer_aligns_words(errors: pd.DataFrame) -> None:
    """AER below .15, and that of the whole interval; word order differs, so no diagonal does it."""
    found = best(errors, "out")
    assert found["layer"] == 1
    assert found["high"] < 0.15


def test_each_reading_has_a_layer_of_its_own(errors: pd.DataFrame) -> None:
    """Chen et al. 2020, Kobayashi et al. 2020: the row that writes a word is right in the last
    layer, the row that reads it in an earlier one. That the second is the better reading of the two
    does not hold here: docs/demonstrations.md says the figures."""
    assert best(errors, "out")["layer"] == 1
    assert best(errors, "in")["layer"] == 0
