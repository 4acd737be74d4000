"""D1 and D2 on W7: induction appears while it learns, and its heads cover for each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import transformer_viz as tv
from tests.demonstrations.conftest import STEPS
from tests.support.repeater import EVERY, HEADS, Snapshot, continued, sentences

pytestmark = pytest.mark.slow


def best(snapshot: Snapshot, name: str, layer: int) -> float:
    """What the best head of a layer has of a measure."""
    table = tv.metrics(snapshot.model, sentences(2))
    return float(table[table["layer"] == layer][name].max())


def test_two_layers_learn_induction_and_one_does_not(
    two_layers: list[Snapshot], one_layer: list[Snapshot]
) -> None:
    """D1, Olsson et al. 2022: right in more than .95 where the control stays below .75, and no
    head of the control finds what followed the last time."""
    assert [one.step for one in two_layers] == list(range(0, STEPS + 1, EVERY))
    assert two_layers[-1].accuracy > 0.95
    assert one_layer[-1].accuracy < 0.75
    assert best(two_layers[-1], "induction", 1) > 0.6
    assert best(two_layers[-1], "induction", 0) < 0.5
    assert best(one_layer[-1], "induction", 0) < 0.5


def test_the_loss_falls_where_induction_appears(two_layers: list[Snapshot]) -> None:
    """D1: both are half done within a tenth of the training of each other."""
    losses = np.array([one.loss for one in two_layers])
    half = (losses[0] + losses[-1]) / 2
    fallen = two_layers[int((losses < half).argmax())].step
    scores = np.array([best(one, "induction", 1) for one in two_layers])
    risen = two_layers[int((scores > scores.max() / 2).argmax())].step
    assert scores[0] < 0.2
    assert abs(fallen - risen) <= STEPS / 10


def test_heads_of_the_second_layer_have_the_role(two_layers: list[Snapshot]) -> None:
    """P15 on a trained model too: no role has more than half of the heads."""
    told = tv.roles(tv.metrics(two_layers[-1].model, sentences()))
    bearing = told["roles"].map(lambda given: "induction" in given)
    assert bearing[told["layer"] == 1].any()
    assert not bearing[told["layer"] == 0].any()
    for role in {role for given in told["roles"] for role in given}:
        assert told["roles"].map(lambda given, role=role: role in given).mean() <= 0.5, role


def test_four_heads_that_learned_the_same(two_layers: list[Snapshot]) -> None:
    """D2: the heads of the second layer cost next to nothing one by one, and all at once what the
    model knows; a plain module on lists of ids."""
    ranking = tv.rank(two_layers[-1].model, continued())
    groups = ranking.groups
    second = groups[groups["layer"] == 1].iloc[0]
    assert second["heads"] == HEADS
    assert second["effect"] > 2
    assert second["sum"] < 0.1 * second["effect"]
    assert second["low"] > second["sum"]
    assert ranking.table["layer"].iloc[0] == 0
    least = ranking.curve("least", points=9)
    assert isinstance(least, pd.DataFrame)
    assert least["removed"].tolist() == list(range(9))
    assert least["effect"].iloc[1] < 0.05
    assert least["effect"].iloc[-1] > 2
