"""Heads measured over sentences: roles, what shows them, and the tables in the box."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import transformer_viz as tv
from tests.support.paths import ROOT
from training.tables.heads import MODELS, page
from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED, SENTENCES
from transformer_viz.core.sites import Site
from transformer_viz.inference.head_metrics.evidence import evidence
from transformer_viz.metrics.head_measures.evidence import HeadEvidence
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_examples import role_examples
from transformer_viz.metrics.head_measures.rows import Tally
from transformer_viz.metrics.head_measures.tables import Block

HEAD = ["stack", "block", "layer", "head"]
SOME = [[5, 9, 31, 7, 3], [8, 36, 3], [5, 9, 5, 9, 5, 9, 3], [11, 12, 13, 14, 15, 16, 17, 3]]


def sentence(*pairs: tuple[float, float]) -> list[Block]:
    """Two blocks of one head and of two, with sum and rows of ``previous`` by head."""
    found, heads = [], iter(pairs)
    for layer, count in enumerate((1, 2)):
        total, rows = np.array([next(heads) for _ in range(count)], float).T
        tally = {"previous": Tally(total, rows, total)}
        found.append(Block(Site("encoder", "self", layer), count, tally, {}, {}))
    return found


def test_the_best_and_the_typical_sentences_by_hand():
    """The third head's means by sentence: .9, .5, .1, -, .5, .8; over all rows 11 of 22."""
    rest = (0.0, 4.0)
    means = [(3.6, 4), (2.0, 4), (0.4, 4), (0.0, 0), (2.0, 4), (1.6, 2), (1.4, 4)]
    sentences = [sentence(rest, rest, one) for one in means]
    best, typical = role_examples(sentences, 2, "previous")
    assert best == (0, 1, 4)  # the sixth has two rows only; of equals the first
    assert typical == (1, 4, 6)
    assert role_examples(sentences[3:4], 2, "previous") == ((), ())


def test_it_is_the_table_of_metrics_and_roles_and_comes_back_from_json(tiny_model):
    found = evidence(tiny_model, SOME, seed=3)
    table = tv.roles(tv.metrics(tiny_model, SOME, seed=3))
    pd.testing.assert_frame_equal(found.table, table)
    assert found.card["sentences"] == 4 and found.card["seed"] == 3
    assert found.card["rows"] == table["entropy_rows"].max()
    assert found.card["sentences_hash"] != evidence(tiny_model, SOME[:3]).card["sentences_hash"]
    bearing = {row for row, given in enumerate(table["roles"]) if given}
    assert {row for row, _ in found.examples} == bearing
    again = HeadEvidence.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again.card, again.examples) == (found.card, found.examples)
    assert list(again.table["roles"]) == list(found.table["roles"])
    for name in (measure.name for measure in MEASURES):
        mine = again.table[name].astype(float)
        np.testing.assert_allclose(mine, found.table[name], atol=6e-5, equal_nan=True)
        assert np.array_equal(again.table[f"{name}_rows"], found.table[f"{name}_rows"]), name
    one = evidence(tiny_model, SOME[:1])  # one sentence has no interval
    assert "entropy_low" not in one.table and one.card["sentences"] == 1


def stored(name: str) -> dict:
    return json.loads((PRETRAINED / name / HEADS).read_text(encoding="utf-8"))


def lines() -> list[tuple[str, str]]:
    text = (PRETRAINED / SENTENCES).read_text(encoding="utf-8")
    return [tuple(line.split("\t")) for line in text.splitlines()]  # type: ignore[misc]


def test_five_hundred_bundled_pairs_and_the_page_of_their_figures():
    pairs = lines()
    assert len(pairs) == 500 == len({source for source, _ in pairs})
    assert all(source and target for source, target in pairs)
    assert (ROOT / "docs" / "heads.md").read_text(encoding="utf-8") == page()
    for name in MODELS:  # P15: no role is on more than half of the heads
        table = HeadEvidence.from_dict(stored(name)).table
        for role in {role for given in table["roles"] for role in given}:
            share = sum(role in given for given in table["roles"]) / len(table)
            assert share <= 1 / 2, (name, role)


@pytest.mark.shipped
def test_stored_figures_are_those_of_their_model():
    """Its hash and its heads, in the measures and in the ranking."""
    for name in MODELS:
        words, model = stored(name), tv.load(name, device="cpu")
        assert words["card"]["model_hash"] == model.hash == words["ranking"]["card"]["model_hash"]
        table = tv.metrics(tv.trace(model, "The cat sat on the mat."))[HEAD].values
        assert HeadEvidence.from_dict(words).table[HEAD].values.tolist() == table.tolist(), name
        ranked = pd.DataFrame(words["ranking"]["columns"])
        assert sorted(map(tuple, ranked[HEAD].values)) == sorted(map(tuple, table)), name
        assert ranked["effect"].is_monotonic_decreasing, name


@pytest.mark.shipped
@pytest.mark.slow
def test_the_stored_examples_show_their_roles():
    """In its best sentences a head with a role has more of it than over all of them."""
    found, model, pairs = HeadEvidence.from_dict(stored("en-de")), tv.load("en-de"), lines()
    for (row, role), (best, typical) in found.examples.items():
        mean = found.table[role][row]
        alone = tv.metrics(model, [pairs[n] for n in best])
        assert alone[role][row] > mean
        near = tv.metrics(model, [pairs[n] for n in typical])
        assert abs(near[role][row] - mean) < 0.05
