"""Heads over sentences: stored roles and examples, and alignments against gold."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import transformer_viz as tv
from tests.support.paths import ROOT
from tests.support.refusals import refuses
from tests.support.witness_models import BOS, EOS, bart, translator
from training.tables.heads import MODELS, page
from transformer_viz.checkpoints.common.bundled import HEADS, PRETRAINED, SENTENCES
from transformer_viz.core.sites import Site
from transformer_viz.inference import run_card
from transformer_viz.inference.alignment.corpus import align_corpus
from transformer_viz.inference.head_metrics.evidence import evidence
from transformer_viz.metrics.alignment.error_rate import Gold, gold_of
from transformer_viz.metrics.alignment.linking import SHIFTS
from transformer_viz.metrics.head_measures.evidence import HeadEvidence
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.role_examples import role_examples
from transformer_viz.metrics.head_measures.rows import Tally
from transformer_viz.metrics.head_measures.tables import Block
from transformer_viz.views.html.measure_cells import measure_rows

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
    # A file that is older than a measure opens, and nothing stands for it.
    older = found.to_dict()
    older["columns"] = {n: v for n, v in older["columns"].items() if not n.startswith("coverage")}
    table = HeadEvidence.from_dict(older).table
    assert table["coverage"].isna().all() and not table["coverage_rows"].any()
    assert "<td>–</td>" in measure_rows(table.iloc[0], ["coverage"])
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


EXACT = 1e-6
COPIED = [[5, 9, 7, 5, 11, 6], [8, 4, 12, 6], [13, 5, 19, 10, 14, 15, 3]]
PAIRS = [([*words, EOS], [BOS, *words]) for words in COPIED]


def identity(words: int) -> Gold:
    links = frozenset((n, n) for n in range(words))
    return Gold(links, links)


GOLD = [identity(len(words)) for words in COPIED]


@pytest.mark.families
def test_the_row_that_writes_and_the_row_that_reads():
    """P33 on W2: row t reads word t - 1 and looks at source word t (diagonal) or t - 1 (shifted).

    As the model copies, row t writes word t: AWO is right for the diagonal head, AWI for the
    shifted one, and each reading is wrong in every link of the other head.
    """
    for seed in (None, 2):
        witness = translator(seed)
        model = tv.load(witness.module)
        assert tv.trace(model, *PAIRS[0], check=False).produced.ids == tuple(PAIRS[0][0])
        found = align_corpus(model, PAIRS, gold=GOLD)
        rates = found.errors.dropna().set_index(["head", "shift"])["error_rate"]
        diagonal, shifted, on_eos, uniform = (witness.place(1, head) for head in range(4))
        assert rates[diagonal, "out"] == rates[shifted, "in"] == 0, seed
        assert rates[diagonal, "in"] == rates[shifted, "out"] == 1, seed
        for head in (on_eos, uniform):  # one names the end mark alone, one nobody: no links
            rows = found.errors[(found.errors["head"] == head)]
            assert (rows["found"] == 0).all() and (rows["error_rate"] == 1).all(), seed
        assert found.best("out")["head"] == diagonal and found.best("in")["head"] == shifted
        assert (found.best("in")[["low", "high"]] == 0).all(), seed


@pytest.mark.families
def test_reversed_heads_and_the_sums_of_a_corpus():
    """Six words and the end mark: row t looks at source word 5 - t, so no pair of rows ascends."""
    model = tv.load(bart(["shift0"] * 4, ["reversed6", "shift0", "uniform", "on_eos"]).module)
    words = COPIED[0]
    trace = tv.trace(model, [*words, EOS], target=[BOS, *words], check=False)
    back = tv.align(trace, layer=0, head=0)
    assert back.pharaoh() == "0-5 1-4 2-3 3-2 4-1 5-0\n"
    values = {walk.name: walk.value for walk in back.walks}
    assert values["monotonicity"] == pytest.approx(0, abs=EXACT)
    assert values["diagonality"] < 0
    assert tv.align(trace, layer=0, head=3).pairs == frozenset()
    ahead = {walk.name: walk.value for walk in tv.align(trace, layer=0, head=1).walks}
    assert ahead["monotonicity"] == pytest.approx(1, abs=EXACT)
    assert tv.align(trace, layer=0, head=3).unread == tv.align(trace, layer=0, head=2).unread == ()
    model = tv.load(translator().module)
    heard: list[tuple[int, int]] = []
    words, tell = {"layer": 0, "head": 1}, lambda *told: heard.append(told)
    found = align_corpus(model, PAIRS, "in", **words, gold=GOLD, on_progress=tell)
    assert heard == [(1, 3), (2, 3), (3, 3)]
    traces = [tv.trace(model, *pair, check=False) for pair in PAIRS]
    single = [tv.align(trace, "in", **words) for trace in traces]
    assert found.links == tuple(one.pairs for one in single)
    assert found.pharaoh() == "".join(one.pharaoh() for one in single)
    assert [gold_of(line).sure for line in found.pharaoh().splitlines()] == list(found.links)
    walks = found.walks.set_index("measure")
    for number, name in enumerate(walks.index):
        each = [one.walks[number] for one in single]
        rows = sum(walk.rows for walk in each)
        total = sum(walk.value * walk.rows for walk in each)
        assert walks.loc[name, "rows"] == rows
        assert walks.loc[name, "value"] == pytest.approx(total / rows)
    assert found.card["sentences"] == 3
    assert found.card["heads"] == "cross L0 H1"
    # a gold of one sure and one possible link, by hand: one link right of 17 found and 1 sure
    odd = [Gold(frozenset(), frozenset())] * 2 + [gold_of("0-0 1p1")]
    judged = align_corpus(model, PAIRS, gold=odd).errors
    row = judged[(judged["head"] == 0) & (judged["shift"] == "out")].iloc[0]
    assert row[["right_sure", "right_possible", "found", "sure"]].tolist() == [1, 2, 17, 1]
    assert row["error_rate"] == pytest.approx(1 - 3 / 18)
    assert row["low"] <= row["error_rate"] <= row["high"]
    assert set(judged["shift"]) == set(SHIFTS)
    assert len(judged) == 2 * (4 + 1 + 1)


@pytest.mark.families
def test_gold_that_does_not_fit_and_the_hash_of_a_model():
    model, odd = tv.load(translator().module), [GOLD[0], identity(9), GOLD[2]]
    said = "gold has 1 lines and there are 3 sentences"
    refuses(said, align_corpus, model, PAIRS, gold=GOLD[:1])
    said = r"Sentence 2: The gold .* joins words that are not there"
    refuses(said, align_corpus, model, PAIRS, gold=odd)
    refuses(r"list of \(source, target\) pairs", align_corpus, model, [])
    refuses("judged by gold", align_corpus(model, PAIRS).best, error=LookupError)
    one, other = tv.load(translator(2).module), tv.load(translator(3).module)
    assert not one.hash
    cards = [align_corpus(model, PAIRS[:1]).card for model in (one, one, other)]
    hashes = [card["model_hash"] for card in cards]
    assert len(str(hashes[0])) == 64
    assert hashes[0] == hashes[1] == run_card.hash_of(one) != hashes[2]
    assert tv.rank(one, PAIRS[:2], "zero").card["model_hash"] == hashes[0]
    assert evidence(one, PAIRS[:2]).card["model_hash"] == hashes[0]


@pytest.mark.shipped
def test_the_shipped_translator():
    """Punctuation that stands alone is a word; a model without cross-attention says so."""
    model = tv.load("en-de", device="cpu")
    pairs = [
        ("The old man is reading a book .", "Der alte Mann liest ein Buch ."),
        ("Tom has a red car .", "Tom hat ein rotes Auto ."),
    ]
    gold = [gold_of("0-0 1-1 2-2 3p3 4-3 5-4 6-5 7-6"), gold_of("0-0 1-1 2-2 3-3 4-4 5-5")]
    found = align_corpus(model, pairs, gold=gold)
    assert found.best()["error_rate"] < 0.2
    assert "not those between blanks" not in " ".join(found.notes)
    assert np.isfinite(found.walks["value"]).all()
    glued = [("The old man, a teacher.", "Der alte Mann."), *pairs[1:]]
    assert len(align_corpus(model, glued, symmetric="grow-diag").links) == 2
    lm, said = tv.load("en-lm", device="cpu"), "this model has none: its maps are decoder"
    refuses(said, align_corpus, lm, ["A cat ."], error=LookupError)
