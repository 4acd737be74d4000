"""Roles by rule: a table made by hand, and each condition broken alone."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest

from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_rules import ROLES, roles
from transformer_viz.metrics.head_measures.tables import HEAD

HEADS = 8
NAMES = [measure.name for measure in MEASURES]


def table(name: str = "previous", sentences: int = 40, **words: Any) -> pd.DataFrame:
    """Eight heads that do nothing; the first has a measure at .95 with all that a role wants."""
    found = pd.DataFrame(
        {"stack": "decoder", "block": "self", "layer": 0, "head": np.arange(HEADS)}
    )
    for each in NAMES:
        found[each], found[f"{each}_rows"], found[f"{each}_chance"] = 0.1, 300, 0.1
        found[f"{each}_low"], found[f"{each}_high"] = 0.08, 0.12
    found["copying_chance"] = 0.01
    found["entropy"], found["confidence"] = 0.5, 0.5
    found.attrs = {
        "sentences": sentences,
        "null": {"heads": list(found[HEAD].itertuples(index=False, name=None))},
    }
    for part, value in ({"": 0.95, "_low": 0.93, "_high": 0.97} | words).items():
        if part == "null":
            found.attrs["null"][name] = [value] * HEADS
        else:
            found.loc[0, f"{name}{part}"] = value
    return found


@pytest.mark.parametrize("name", ROLES)
def test_one_head_has_one_role(name: str) -> None:
    told = roles(table(name))
    assert list(told["roles"]) == [(name,)] + [()] * (HEADS - 1)
    assert list(told.columns[-2:]) == ["roles", "states"]


@pytest.mark.parametrize(
    "words",
    [
        {"": 0.49, "_low": 0.45, "_high": 0.53},  # below the threshold
        {"_chance": 0.94},  # the lift is small
        {"_rows": 19},  # too few rows
        {"_low": 0.05, "_high": 1.0},  # the interval reaches below chance
        {"_low": 0.05, "_high": 1.0, "null": 0.01},
        {"null": 0.94},  # random order does as well
        {"": float("nan")},
        {"_low": float("nan"), "_high": float("nan")},  # one sentence alone can be asked
    ],
)
def test_each_condition_alone_takes_the_role(words: dict[str, float]) -> None:
    assert set(roles(table(**words))["roles"]) == {()}


def test_a_positional_head_is_confident() -> None:
    """Largest by a hair at one offset, as a bias of positions makes it, is no role."""
    found = table("positional")
    found.loc[0, "confidence"] = 0.1 + 0.3 * 0.9 - 0.01  # a lift below .3
    assert roles(found)["roles"][0] == ()
    found.loc[0, "confidence"] += 0.02
    assert roles(found)["roles"][0] == ("positional",)


@pytest.mark.parametrize(("words", "given"), [(99, ()), (100, ("copying",))])
def test_five_of_few_words_are_no_copying(words: int, given: tuple[str, ...]) -> None:
    assert roles(table("copying", _chance=5 / words))["roles"][0] == given


def test_two_roles_and_a_state_beside_them() -> None:
    found = table("self")
    for part, value in (("", 0.95), ("_low", 0.93), ("_high", 0.97)):
        found.loc[0, f"positional{part}"] = value
    found.loc[0, "entropy"], found.loc[1, "entropy"], found.loc[[1, 2], "sink"] = 0.1, 0.1, 0.6
    told = roles(found)
    assert told["roles"][0] == ("self", "positional")
    assert list(told["states"][:4]) == [("sharp",), ("sink",), ("sink",), ()]


def test_many_heads_ask_for_more() -> None:
    """Holm: a difference that one head would be believed is not believed of one in a thousand."""
    wide = {"": 0.6, "_low": 0.11, "_high": 0.75, "_chance": 0.1}
    assert roles(table(**wide))["roles"][0] == ("previous",)
    found = table(**wide)
    found.loc[0, ["previous_low", "previous_high"]] = 0.11, 1.09  # two standard errors above .1
    assert roles(found)["roles"][0] == ()
    alone = found.iloc[:1].copy()
    alone.attrs = {"sentences": 400, "null": {}}
    assert roles(alone)["roles"][0] == ("previous",)


def test_few_sentences_are_held_to_the_bound_of_rows() -> None:
    """Below five sentences the interval says nothing: Hoeffding's bound over all heads counts."""
    bound = np.sqrt(np.log(HEADS / 0.05) / (2 * 40))  # .252
    for value, wanted in ((0.5 + bound - 0.01, ()), (0.5 + bound + 0.01, ("previous",))):
        words = {"": value, "_chance": 0.5, "_rows": 40, "_low": value, "_high": value}
        assert roles(table(sentences=4, **words))["roles"][0] == wanted


def test_a_table_that_was_written_and_read_again() -> None:
    """A CSV no longer says how many sentences and what random order gives: rows must do as well."""
    found = table(null=0.94)
    again = pd.read_csv(StringIO(found.to_csv(index=False)))
    assert roles(found)["roles"][0] == () and roles(again)["roles"][0] == ("previous",)
    again["previous_chance"] = 0.9  # within Hoeffding's bound of .95
    again["previous"] = again["previous"].where(again["head"] > 0, 0.99)
    assert set(roles(again)["roles"]) == {()}


def test_the_null_follows_its_head() -> None:
    """Sorted or cut, each head is held to its own null."""
    found = table()
    found.attrs["null"]["previous"] = [0.94] + [0.0] * (HEADS - 1)
    turned = found.iloc[::-1].reset_index(drop=True)
    assert set(roles(turned)["roles"]) == {()}
    found.attrs["null"]["previous"] = [0.0] + [0.94] * (HEADS - 1)
    turned = found.iloc[::-1].reset_index(drop=True)
    assert roles(turned)["roles"].iloc[-1] == ("previous",)


def test_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks entropy, sink, special, confidence"):
        roles(table()[HEAD])
