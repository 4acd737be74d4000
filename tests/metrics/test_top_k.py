"""What else could be said: probabilities with witnesses, and the picture of them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.output.top_k import _first, candidates, probabilities
from transformer_viz.views.html.candidate_bars import candidates as picture

NAMES = [f"w{number}" for number in range(41)]


@pytest.fixture(scope="module")
def clean(tiny_model: Model) -> Trace:
    return trace(tiny_model, [5, 9, 31, 7, 3], check=False)


@pytest.fixture(scope="module")
def warm(tiny_model: Model, clean: Trace) -> Trace:
    assert clean.target is not None and clean.produced is not None
    return trace(
        tiny_model, [5, 9, 31, 7, 3], list(clean.target.ids), produced=clean.produced.ids,
        intervention=Intervention((Temperature(value=4.0),)), check=False,
    )  # fmt: skip


def by_hand(*chances: float) -> Trace:
    """A run of one row over a small vocabulary with these probabilities."""
    from tests.views.conftest import make_trace

    made = make_trace()
    assert made.produced is not None
    said = replace(made.produced, ids=(1,) * 4)
    return replace(made, logits=np.log([chances] * 4).astype(np.float32), produced=said)


def test_probabilities_sum_to_one_and_agree_with_the_held_words(clean: Trace, warm: Trace) -> None:
    for run in (clean, warm):
        assert run.produced is not None and run.logits is not None
        for row, held in enumerate(run.produced.ids):
            chances = probabilities(run, row)
            assert chances.shape == (41,) and chances.sum() == pytest.approx(1, abs=1e-12)
            assert chances[held] == pytest.approx(run.produced.probability[row], rel=1e-6)
            expected = torch.softmax(torch.tensor(run.logits[row], dtype=torch.float64), 0)
            np.testing.assert_allclose(chances, expected.numpy(), rtol=1e-12)


def test_candidates_are_the_most_probable_in_order(clean: Trace) -> None:
    assert clean.produced is not None
    for row, held in enumerate(clean.produced.ids):
        table = candidates(clean, row, 7)
        chances = probabilities(clean, row)
        assert list(table["probability"]) == sorted(chances, reverse=True)[:7]
        assert list(table["rank"]) == [1, 2, 3, 4, 5, 6, 7]
        assert np.array_equal(chances[table["id"]], table["probability"])
        everything = candidates(clean, row, 41).set_index("id")
        assert everything.loc[held, "rank"] == clean.produced.rank[row]


def test_a_held_word_is_given_below_the_others() -> None:
    run = by_hand(0.5, 0.02, 0.3, 0.18)
    assert list(candidates(run, 0, 2)["id"]) == [0, 2]
    table = candidates(run, 0, 2, held=1)
    assert list(table["id"]) == [0, 2, 1] and list(table["rank"]) == [1, 2, 4]
    assert list(candidates(run, 0, 2, held=0)["id"]) == [0, 2]


def test_equally_probable_words_share_a_rank() -> None:
    table = candidates(by_hand(0.2, 0.4, 0.4), 0, 3)
    assert list(table["id"]) == [1, 2, 0] and list(table["rank"]) == [1, 1, 3]


def test_words_that_the_softmax_rounds_to_nothing_keep_their_rank() -> None:
    made = by_hand(0.5, 0.5, 0.5)
    run = replace(made, logits=np.array([[0.0, -900.0, -800.0]], np.float32))
    assert list(candidates(run, 0, 3)["id"]) == [0, 2, 1]
    assert list(candidates(run, 0, 3)["rank"]) == [1, 2, 3]


def test_what_is_not_there_is_named(clean: Trace) -> None:
    with pytest.raises(LookupError, match="no logits of words"):
        candidates(replace(clean, logits=None), 0)
    with pytest.raises(LookupError, match="rows 0 to 0; got row 1"):
        probabilities(replace(clean, logits=np.zeros(3, np.float32)), 1)
    rows = len(clean.logits) if clean.logits is not None else 0
    with pytest.raises(LookupError, match=rf"rows 0 to {rows - 1}; got row {rows}"):
        candidates(clean, rows)
    with pytest.raises(LookupError, match="ids 0 to 40; got 41"):
        candidates(clean, 0, held=41)
    with pytest.raises(ValueError, match="at least 1; got count=0"):
        candidates(clean, 0, 0)


def test_classes_are_one_row(clean: Trace) -> None:
    run = replace(clean, logits=np.log(np.array([0.2, 0.7, 0.1], np.float32)))
    assert np.allclose(probabilities(run, 0), [0.2, 0.7, 0.1], rtol=1e-6)
    table = candidates(run, 0, 3)
    assert list(table["id"]) == [1, 0, 2] and list(table["rank"]) == [1, 2, 3]
    drawn = picture(run, run, 0, ["no", "yes", "perhaps"], count=3)
    assert "classes" in drawn.caption and "held" not in drawn.html + drawn.caption
    assert re.findall(r">(0\.\d+)<", drawn.html) == ["0.700", "0.200", "0.100"] * 2


def test_the_picture_tells_both_runs_and_marks_the_held_word() -> None:
    before, after = by_hand(0.5, 0.02, 0.3, 0.18), by_hand(0.1, 0.7, 0.1999, 0.0001)
    html = picture(before, after, 0, ["a", "held one", "<i>b</i>"], count=2).html
    clean, changed = html.split("changed run", 1)
    assert re.findall(r">(0\.\d+|&lt;0\.001)<", clean) == ["0.500", "0.300", "0.020"]
    assert re.findall(r">(0\.\d+|&lt;0\.001)<", changed) == ["0.700", "0.200"]
    assert clean.count("<b>held one</b>") == 1 and changed.count("<b>held one</b>") == 1
    assert "dashed" in clean and ">4.<" in clean  # below the others, with its rank
    assert "width:50.00%" in clean and "width:70.00%" in changed
    assert "<i>" not in html and "&lt;i&gt;b&lt;/i&gt;" in html
    assert "#3" in picture(by_hand(0.1, 0.1, 0.1, 0.7), None, 0, ["a"]).html  # has no name


def test_its_room_stays_the_same_wherever_the_held_word_stands() -> None:
    rooms = {
        room
        for run in (by_hand(0.5, 0.02, 0.3, 0.18), by_hand(0.1, 0.7, 0.1, 0.1))
        for room in re.findall(r"min-height:(\d+)px", picture(run, run, 0, "abcd", count=2).html)
    }
    assert len(rooms) == 1


@pytest.mark.parametrize("dark", [False, True])
def test_the_clean_run_alone_and_the_colours(clean: Trace, dark: bool) -> None:
    made = picture(clean, None, 1, NAMES, dark=dark)
    colours = DARK if dark else LIGHT
    assert colours.ink in made.html and colours.accent in made.html
    assert "changed run" not in made.html and made.caption in made._repr_html_() + made.caption
    assert made.html.count('role="listitem"') in (5, 6)


def test_runs_about_different_words_have_no_common_picture(clean: Trace) -> None:
    assert clean.produced is not None
    other = replace(clean, produced=replace(clean.produced, ids=(1,) * len(clean.produced.ids)))
    with pytest.raises(ValueError, match="asked about different words"):
        picture(clean, other, 0, NAMES)


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_the_first_words_are_those_of_a_whole_sort(count: int) -> None:
    """Equals, infinities and what is no number stand as a sort puts them."""
    draw = np.random.default_rng(0)
    for logits in (
        draw.normal(size=30),
        np.round(draw.normal(size=30)),
        np.zeros(30),
        np.where(np.arange(30) % 3 == 0, -np.inf, 1.0),
        np.where(np.arange(30) % 7 == 0, np.nan, np.round(draw.normal(size=30))),
        np.full(30, np.nan),
    ):
        wanted = np.argsort(-logits, kind="stable")[:count]
        assert _first(logits, count).tolist() == wanted.tolist()
