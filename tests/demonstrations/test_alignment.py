"""D6: cross-attention as alignment, between two languages whose gold is known as they are made."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support import synthetic_pair
from tests.support.synthetic_pair import accuracy, as_ids, pairs
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.alignment.corpus import align_corpus

SENTENCES = 100

pytestmark = pytest.mark.slow


def best(model: Model) -> dict[str, pd.Series]:
    """The head with the least error by each reading, on sentences that were not taught."""
    some = pairs(SENTENCES, 1000)
    assert accuracy(model, some) > 0.99
    found = align_corpus(model, as_ids(some), gold=[pair.gold for pair in some])
    assert found.errors is not None
    heads = found.errors[found.errors["head"].notna()]
    return {shift: rows.loc[rows["error_rate"].idxmin()] for shift, rows in heads.groupby("shift")}


def test_a_head_of_the_last_layer_aligns_words(translator: Model) -> None:
    """AER below .15, and that of the whole interval; word order differs, so no diagonal does it."""
    found = best(translator)["out"]
    assert found["layer"] == 1
    assert found["high"] < 0.15


@pytest.mark.soak
def test_each_reading_has_a_layer_of_its_own() -> None:
    """Chen et al. 2020, Kobayashi et al. 2020: the row that writes a word is right in the last
    layer, the row that reads it in an earlier one. That the second is the better reading of the two
    does not hold here: docs/demonstrations.md says the figures."""
    found = best(synthetic_pair.translator())
    assert found["out"]["layer"] == 1
    assert found["in"]["layer"] == 0
