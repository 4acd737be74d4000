"""Rule 2d on tables made by hand: when a name is given, and above all when it is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from transformer_viz.metrics.heads.registry import NAMES
from transformer_viz.metrics.heads.roles import holm, roles


def table(heads: int = 8, **columns: float) -> pd.DataFrame:
    """Heads of which the first has these values, and the others nothing remarkable."""
    made = {"stack": ["encoder"] * heads, "block": ["self"] * heads, "layer": [0] * heads}
    made |= {"head": list(range(heads))}
    for name in NAMES:
        made |= {
            name: [0.2] * heads,
            f"{name}_rows": [200] * heads,
            f"{name}_chance": [0.1] * heads,
        }
    found = pd.DataFrame(made)
    for name, value in columns.items():
        if name not in found:
            found[name] = 0.5 if name.endswith("_p") else 0.1
        found[name] = found[name].astype(object if isinstance(value, str) else float)
        found.loc[0, name] = value
    return found


def first(found: pd.DataFrame) -> tuple[str, ...]:
    assert all(names == () for names in roles(found)["roles"][1:])
    return roles(found)["roles"][0]


def test_a_score_high_enough_over_enough_rows_is_a_role() -> None:
    assert first(table(previous=0.6)) == ("previous",)
    assert first(table(previous=0.6, positional=0.95, confidence=0.6)) == ("previous", "positional")


@pytest.mark.parametrize(
    "columns",
    [
        {"previous": 0.49},
        {"previous": 0.6, "previous_chance": 0.5},  # lift .2
        {"previous": 0.9, "previous_rows": 9},
        {"previous": 0.6, "previous_rows": 10},  # Hoeffding: .6 - .504 over 10 rows of 8 heads
        {"positional": 0.89, "confidence": 0.6},
        {"positional": 1.0, "confidence": 0.2},  # largest by a hair
        {"previous": float("nan"), "previous_rows": 0},
        {"previous": 0.9, "block": "cross"},
        {"sink": 1.0, "entropy": 0.0, "special": 1.0, "confidence": 1.0, "ov_copying": 1.0},
    ],
)
def test_no_role(columns: dict[str, float]) -> None:
    assert first(table(**columns)) == ()


def test_of_sentences_the_interval_must_lie_above_the_null() -> None:
    sure = {"induction": 0.6, "induction_low": 0.5, "induction_null": 0.1, "induction_p": 1e-9}
    assert first(table(**sure)) == ("induction",)
    assert first(table(**sure | {"induction_p": 0.02})) == ()  # of eight heads .00625
    assert first(table(**sure | {"induction_low": 0.05})) == ()
    nothing_known = dict.fromkeys(("induction_low", "induction_p"), float("nan"))
    assert first(table(**sure | nothing_known)) == ("induction",)  # then rows decide
    assert first(table(**sure | nothing_known | {"induction_rows": 10})) == ()


def test_states_stand_beside_roles() -> None:
    found = roles(table(sink=0.6, entropy=0.95))
    assert found["states"][0] == ("sink", "spread")
    assert roles(table(special=0.7, entropy=0.05))["states"][0] == ("sink", "sharp")
    assert roles(table(sink=0.4, sink_chance=0.3))["states"][0] == ()
    assert found["states"][1] == ()


def test_holm_stops_at_the_first_that_fails() -> None:
    p = np.array([0.01, 0.06, float("nan"), 0.001, 0.02])
    assert holm(p).tolist() == [True, False, False, True, True]
    assert holm(np.array([0.03, 0.001, 0.04])).tolist() == [False, True, False]
    assert not holm(np.full(3, np.nan)).any()


def test_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a table of tv.metrics; it lacks entropy"):
        roles(table().drop(columns=["entropy"]))
