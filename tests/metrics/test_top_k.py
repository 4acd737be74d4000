"""What else could be said: probabilities with witnesses, and the picture of them."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from tests.support.refusals import refuses
from tests.views.conftest import make_trace
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.output.top_k import _first, candidates, probabilities
from transformer_viz.views.html.candidate_bars import candidates as picture


@pytest.fixture(scope="module")
def clean(tiny_model) -> Trace:
    return trace(tiny_model, [5, 9, 31, 7, 3], check=False)


def by_hand(*chances: float) -> Trace:
    """Return a run of equal rows over a small vocabulary with these probabilities."""
    made = make_trace()
    said = replace(made.produced, ids=(1,) * 4)
    return replace(made, logits=np.log([chances] * 4).astype(np.float32), produced=said)


def test_probabilities_are_a_softmax_and_candidates_the_most_probable_in_order(tiny_model, clean):
    held = {"target": list(clean.target.ids), "produced": clean.produced.ids, "check": False}
    warm = Intervention((Temperature(value=4.0),))
    for run in (clean, trace(tiny_model, [5, 9, 31, 7, 3], intervention=warm, **held)):
        for row, held_id in enumerate(run.produced.ids):
            chances = probabilities(run, row)
            assert chances.shape == (41,) and chances.sum() == pytest.approx(1, abs=1e-12)
            assert chances[held_id] == pytest.approx(run.produced.probability[row], rel=1e-6)
            expected = torch.softmax(torch.tensor(run.logits[row], dtype=torch.float64), 0)
            np.testing.assert_allclose(chances, expected.numpy(), rtol=1e-12)
            table = candidates(run, row, 7)
            assert list(table["probability"]) == sorted(chances, reverse=True)[:7]
            assert list(table["rank"]) == [1, 2, 3, 4, 5, 6, 7]
            assert np.array_equal(chances[table["id"]], table["probability"])
            everything = candidates(run, row, 41).set_index("id")
            assert everything.loc[held_id, "rank"] == run.produced.rank[row]


def test_ids_and_ranks_of_held_equal_and_improbable_words(clean):
    def listed(run: Trace, count: int, **words: int) -> tuple[list[int], list[int]]:
        table = candidates(run, 0, count, **words)
        return list(table["id"]), list(table["rank"])

    run = by_hand(0.5, 0.02, 0.3, 0.18)
    assert listed(run, 2)[0] == listed(run, 2, held=0)[0] == [0, 2]
    assert listed(run, 2, held=1) == ([0, 2, 1], [1, 2, 4])  # below the others
    assert listed(by_hand(0.2, 0.4, 0.4), 3) == ([1, 2, 0], [1, 1, 3])  # equals share a rank
    rounded = np.array([[0.0, -900.0, -800.0]], np.float32)  # to nothing, by the softmax
    assert listed(replace(by_hand(0.5, 0.5, 0.5), logits=rounded), 3) == ([0, 2, 1], [1, 2, 3])
    # classes are one row
    run = replace(clean, logits=np.log(np.array([0.2, 0.7, 0.1], np.float32)))
    assert np.allclose(probabilities(run, 0), [0.2, 0.7, 0.1], rtol=1e-6)
    assert listed(run, 3) == ([1, 0, 2], [1, 2, 3])
    drawn = picture(run, run, 0, ["no", "yes", "perhaps"], count=3)
    assert "classes" in drawn.caption and "held" not in drawn.html + drawn.caption
    assert re.findall(r">(0\.\d+)<", drawn.html) == ["0.700", "0.200", "0.100"] * 2


def test_what_is_not_there_is_named(clean):
    rows = len(clean.logits)
    alone = replace(clean, logits=np.zeros(3, np.float32))
    for match, call, *given in (
        ("no logits of words", candidates, replace(clean, logits=None), 0),
        ("rows 0 to 0; got row 1", probabilities, alone, 1),
        (rf"rows 0 to {rows - 1}; got row {rows}", candidates, clean, rows),
    ):
        refuses(match, call, *given, error=LookupError)
    refuses("ids 0 to 40; got 41", candidates, clean, 0, held=41, error=LookupError)
    refuses("at least 1; got count=0", candidates, clean, 0, 0)
    other = replace(clean, produced=replace(clean.produced, ids=(1,) * len(clean.produced.ids)))
    refuses("asked about different words", picture, clean, other, 0, [""] * 41)


def test_the_picture_tells_both_runs_and_marks_the_held_word(clean):
    before, after = by_hand(0.5, 0.02, 0.3, 0.18), by_hand(0.1, 0.7, 0.1999, 0.0001)
    html = picture(before, after, 0, ["a", "held one", "<i>b</i>"], count=2).html
    first, changed = html.split("changed run", 1)
    assert re.findall(r">(0\.\d+|&lt;0\.001)<", first) == ["0.500", "0.300", "0.020"]
    assert re.findall(r">(0\.\d+|&lt;0\.001)<", changed) == ["0.700", "0.200"]
    assert first.count("<b>held one</b>") == 1 and changed.count("<b>held one</b>") == 1
    assert "dashed" in first and ">4.<" in first  # below the others, with its rank
    assert "width:50.00%" in first and "width:70.00%" in changed
    assert "<i>" not in html and "&lt;i&gt;b&lt;/i&gt;" in html
    assert "#3" in picture(by_hand(0.1, 0.1, 0.1, 0.7), None, 0, ["a"]).html  # has no name
    # its room stays the same wherever the held word stands
    runs = (before, by_hand(0.1, 0.7, 0.1, 0.1))
    pages = [picture(run, run, 0, "abcd", count=2).html for run in runs]
    assert len({room for page in pages for room in re.findall(r"min-height:(\d+)px", page)}) == 1
    for dark in (False, True):  # the clean run alone, and the colours
        made = picture(clean, None, 1, [f"w{number}" for number in range(41)], dark=dark)
        colours = DARK if dark else LIGHT
        assert colours.ink in made.html and colours.accent in made.html, dark
        assert "changed run" not in made.html and made.caption in made._repr_html_() + made.caption
        assert made.html.count('role="listitem"') in (5, 6)


def test_the_first_words_are_those_of_a_whole_sort():
    """Equals, infinities and what is no number stand as a sort puts them."""
    draw = np.random.default_rng(0)
    every = (
        draw.normal(size=30),
        np.round(draw.normal(size=30)),
        np.zeros(30),
        np.where(np.arange(30) % 3 == 0, -np.inf, 1.0),
        np.where(np.arange(30) % 7 == 0, np.nan, np.round(draw.normal(size=30))),
        np.full(30, np.nan),
    )
    for count, (number, logits) in product((1, 3, 7, 40), enumerate(every)):
        wanted = np.argsort(-logits, kind="stable")[:count]
        assert _first(logits, count).tolist() == wanted.tolist(), (count, number)
