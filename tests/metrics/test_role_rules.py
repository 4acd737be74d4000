"""Roles by rule: a table made by hand, and each condition broken alone."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd

from tests.support.refusals import refuses
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_rules import ROLES, roles
from transformer_viz.metrics.head_measures.tables import HEAD

HEADS = 8


def table(name: str = "previous", sentences: int = 40, **words: Any) -> pd.DataFrame:
    """Eight heads that do nothing; the first has a measure at .95 with all that a role wants."""
    found = pd.DataFrame(
        {"stack": "decoder", "block": "self", "layer": 0, "head": np.arange(HEADS)}
    )
    for each in (measure.name for measure in MEASURES):
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


def first(found: pd.DataFrame) -> tuple[str, ...]:
    return roles(found)["roles"].iloc[0]


def test_one_head_has_one_role_and_each_condition_alone_takes_it():
    for name in ROLES:
        told = roles(table(name))
        assert list(told["roles"]) == [(name,)] + [()] * (HEADS - 1), name
        assert list(told.columns[-2:]) == ["roles", "states"]
    for words in (
        {"": 0.49, "_low": 0.45, "_high": 0.53},  # below the threshold
        {"_chance": 0.94},  # the lift is small
        {"_rows": 19},  # too few rows
        {"_low": 0.05, "_high": 1.0},  # the interval reaches below chance
        {"_low": 0.05, "_high": 1.0, "null": 0.01},
        {"null": 0.94},  # random order does as well
        {"": float("nan")},
        {"_low": float("nan"), "_high": float("nan")},  # one sentence alone can be asked
    ):
        assert set(roles(table(**words))["roles"]) == {()}, words
    # largest by a hair at one offset, as a bias of positions makes it, is no role
    found = table("positional")
    found.loc[0, "confidence"] = 0.1 + 0.3 * 0.9 - 0.01  # a lift below .3
    assert first(found) == ()
    found.loc[0, "confidence"] += 0.02
    assert first(found) == ("positional",)
    # five of few words are no copying
    for words, given in ((99, ()), (100, ("copying",))):
        assert first(table("copying", _chance=5 / words)) == given, words
    refuses("lacks entropy, sink, special, confidence", roles, table()[HEAD])


def test_two_roles_and_a_state_beside_them():
    found = table("self")
    for part, value in (("", 0.95), ("_low", 0.93), ("_high", 0.97)):
        found.loc[0, f"positional{part}"] = value
    found.loc[0, "entropy"], found.loc[1, "entropy"], found.loc[[1, 2], "sink"] = 0.1, 0.1, 0.6
    told = roles(found)
    assert told["roles"][0] == ("self", "positional")
    assert list(told["states"][:4]) == [("sharp",), ("sink",), ("sink",), ()]


def test_many_heads_and_few_sentences_ask_for_more():
    """Holm: a difference that one head would be believed is not believed of one in a thousand.

    Below five sentences the interval says nothing: Hoeffding's bound over all heads counts.
    """
    wide = {"": 0.6, "_low": 0.11, "_high": 0.75, "_chance": 0.1}
    found = table(**wide)
    assert first(found) == ("previous",)
    found.loc[0, ["previous_low", "previous_high"]] = 0.11, 1.09  # two standard errors above .1
    assert first(found) == ()
    alone = found.iloc[:1].copy()
    alone.attrs = {"sentences": 400, "null": {}}
    assert first(alone) == ("previous",)
    bound = np.sqrt(np.log(HEADS / 0.05) / (2 * 40))  # .252
    for value, wanted in ((0.5 + bound - 0.01, ()), (0.5 + bound + 0.01, ("previous",))):
        words = {"": value, "_chance": 0.5, "_rows": 40, "_low": value, "_high": value}
        assert first(table(sentences=4, **words)) == wanted, value


def test_a_table_that_was_written_sorted_or_cut():
    """A CSV no longer says how many sentences and what random order gives: rows must do as well."""
    found = table(null=0.94)
    again = pd.read_csv(StringIO(found.to_csv(index=False)))
    assert first(found) == () and first(again) == ("previous",)
    again["previous_chance"] = 0.9  # within Hoeffding's bound of .95
    again["previous"] = again["previous"].where(again["head"] > 0, 0.99)
    assert set(roles(again)["roles"]) == {()}
    found = table()  # each head is held to its own null
    found.attrs["null"]["previous"] = [0.94] + [0.0] * (HEADS - 1)
    assert set(roles(found.iloc[::-1].reset_index(drop=True))["roles"]) == {()}
    found.attrs["null"]["previous"] = [0.0] + [0.94] * (HEADS - 1)
    assert roles(found.iloc[::-1].reset_index(drop=True))["roles"].iloc[-1] == ("previous",)
