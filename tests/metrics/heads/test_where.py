"""M1 to M8 on weights made by hand: what a row may be asked, and what it then says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.head_arrays import drawn, looking, maps, side, uniform
from transformer_viz.metrics.heads import where
from transformer_viz.metrics.heads.maps import Maps, Projections
from transformer_viz.metrics.heads.moments import ratio
from transformer_viz.metrics.heads.registry import METRICS
from transformer_viz.metrics.heads.sentences import measured


@pytest.mark.parametrize("size", [5, 25, 100])
def test_a_uniform_head_has_entropy_one_at_any_length(size: int) -> None:
    found = where.entropy(maps(uniform(size, causal=True), causal=True))
    assert found.mean == pytest.approx(1, abs=1e-6)
    assert found.count == size - 1  # row 0 sees itself alone


def test_entropy_of_two_equal_keys_is_ln_2_of_ln_n() -> None:
    weights = np.zeros((1, 7, 7), dtype=np.float32)
    weights[0, :, :2] = 0.5
    assert where.entropy(maps(weights)).mean == pytest.approx(np.log(2) / np.log(7))


def test_the_content_view_drops_specials_and_counts_rows_that_keep_something() -> None:
    weights = np.zeros((1, 5, 5), dtype=np.float32)
    weights[0, :, 0] = [1, 0.97, 0.5, 0.5, 0.96]  # the first token is special
    weights[0, :, 1] = [0, 0.03, 0.5, 0.25, 0.04]
    weights[0, 3, 2] = 0.25
    content, raw = (maps(weights, special=[0], view=view) for view in ("content", "raw"))
    assert content.rows.tolist() == [[False, False, True, True, False]]
    assert raw.rows.tolist() == [[False, True, True, True, True]]
    assert where.entropy(content).mean == pytest.approx((0 + np.log(2) / np.log(4)) / 2)
    assert where.sink(content).mean == where.sink(raw).mean  # raw in both


def test_confidence_leaves_out_the_end_of_the_sentence_and_divides_by_nothing() -> None:
    weights = np.array([[[0.2, 0.1, 0.7], [0.3, 0.3, 0.4], [0, 0, 1]]], dtype=np.float32)
    found = where.confidence(maps(weights, special=[2]))
    assert found.mean == pytest.approx(0.25)
    assert found.count == 2


def test_distance_is_a_share_of_how_far_a_row_could_look() -> None:
    furthest = looking([4, 4, 4, 0, 0])
    assert where.distance(maps(furthest)).mean == 1
    assert where.distance(maps(looking(range(5)))).mean == 0
    one_on = where.distance(maps(looking([1, 2, 3, 4, 3])))
    assert one_on.mean == pytest.approx(np.mean([1 / 4, 1 / 3, 1 / 2, 1 / 3, 1 / 4]))


def test_offsets_are_not_swapped() -> None:
    before = maps(looking([0, 0, 1, 2, 3]))
    after = maps(looking([1, 2, 3, 4, 4]))
    assert (where.previous(before).mean, where.following(before).mean) == (1, 0)
    assert (where.previous(after).mean, where.following(after).mean) == (0, 1)
    profile = where.offset_profile(before).mean[0]
    assert where.OFFSETS[np.nanargmax(profile)] == -1
    assert np.isnan(profile[where.OFFSETS > 4]).all()


def test_row_0_and_row_1_of_a_causal_map_are_not_asked() -> None:
    sink, before = looking([0] * 9), looking([0, *range(8)])
    of_sink, of_before = (maps(weights, causal=True) for weights in (sink, before))
    assert where.previous(of_sink).mean == where.itself(of_sink).mean == 0
    assert where.sink(of_before).mean == 0
    assert where.previous(of_before).count == where.sink(of_sink).count == 7
    assert where.sink(of_sink).mean == where.previous(of_before).mean == 1
    assert np.isnan(where.following(of_sink).mean)


def test_ties_share_so_that_a_uniform_head_is_not_positional() -> None:
    found = where.positional(maps(uniform(7)))
    value, _ = where.best_offset(found.sum, found.count)
    assert value == pytest.approx(1 / 7, abs=1e-6)


def test_positional_names_its_offset_and_does_not_trust_the_furthest() -> None:
    value, place = where.best_offset(*_sums(where.positional(maps(looking([2, 3, 4, 5, 5, 0])))))
    assert (value, where.OFFSETS[place]) == (1, 2)  # the rows that have a key two on
    lonely = where.positional(maps(looking([0, 1, 2, 3, 4, 0])))  # one row looks five back
    value, place = where.best_offset(lonely.sum, lonely.count)
    assert value == pytest.approx(5 / 6)
    assert where.OFFSETS[place] == 0


def _sums(moments: where.Moments) -> tuple[np.ndarray, np.ndarray]:
    return moments.sum, moments.count


def test_special_mass_holds_marks_and_asks_no_row_without_any() -> None:
    weights = looking([0, 3, 4, 1, 1])
    tokens = replace(side(5, special=[4]), marks=np.arange(5) == 3)
    one = Maps(weights, np.ones((5, 5), dtype=bool), tokens, tokens, view="content")
    assert where.special(one).mean == pytest.approx(2 / 4)
    assert np.isnan(where.special(maps(weights)).mean)


def test_null_mass_tells_a_parked_head_from_one_that_reads_the_start() -> None:
    weights = np.repeat([[[0.6, 0.4, 0], [0.6, 0.4, 0], [0.6, 0.4, 0]]], 2, 0).astype(np.float32)
    values = np.zeros((2, 3, 2))
    values[0, 1] = [3, 4]  # the first head gets nothing from the start, the second all
    values[1, 0] = [3, 4]
    parts = Projections(values=values, output=np.stack([np.eye(2)] * 2))
    found = where.null(maps(weights, special=[0], beyond=parts))
    assert found.mean.tolist() == [1, 0]
    assert found.count.tolist() == [2, 2]
    turned = replace(parts, values=values * 10, output=parts.output / 10)
    assert where.null(maps(weights, special=[0], beyond=turned)).mean.tolist() == [1, 0]
    assert np.isnan(where.null(maps(weights, special=[0])).mean).all()


@pytest.mark.parametrize("view", ["content", "raw"])
def test_no_metric_changes_what_it_gets(view: str) -> None:
    weights = drawn(3, 11, seed=5)
    ids, before = [0, 5, 6, 7, 5, 8, 9, 6, 4, 3, 2], weights.tobytes()
    weights.setflags(write=False)
    one = maps(weights, ids, [0, 10], view=view)
    measured(one, seed=(0, 0))
    assert weights.tobytes() == before
    assert one.query.ids is not None
    assert one.query.ids.tolist() == ids


def test_no_eligible_row_is_no_value() -> None:
    one = maps(looking([0]), [5], view="content")
    for metric in METRICS:
        found = metric.measure(one)
        value, _ = metric.finish(found.sum, found.count)
        assert (np.isnan(value).all(), found.count.sum()) == (True, 0), metric.name
    assert np.isnan(ratio(np.zeros(2), np.zeros(2))).all()


def test_rows_and_heads_in_another_order_give_the_same_bits() -> None:
    weights, order = drawn(5, 13, seed=2, causal=True), np.array([3, 0, 4, 1, 2])
    ids = [0, 3, 4, 5, 3, 6, 7, 4, 8, 9, 5, 1, 2]
    here = measured(maps(weights, ids, [0], causal=True, view="content"))
    there = measured(maps(weights[order], ids, [0], causal=True, view="content"))
    for name, found in here.items():
        assert found.value.sum[order].tobytes() == there[name].value.sum.tobytes(), name
