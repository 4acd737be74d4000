"""M9 to M12 on weights made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.head_arrays import looking, maps, uniform
from transformer_viz.metrics.heads import words
from transformer_viz.metrics.heads.maps import Projections


def test_weight_split_over_earlier_copies_is_added_up() -> None:
    ids = [1, 2, 3, 1, 4, 5, 6, 7, 8, 9, 10, 11, 1]  # 1 stands at 0, 3 and 12
    weights = uniform(13)
    for row, copies in ((0, (3, 12)), (3, (0, 12)), (12, (0, 3))):
        weights[0, row] = 0
        weights[0, row, list(copies)] = 0.5
    found = words.duplicate(maps(weights, ids))
    assert (found.mean, found.count) == (1, 3)


def test_chance_of_duplicate_is_the_share_of_keys_that_are_one() -> None:
    ids = [1, 2, 3, 1, 4, 5, 6, 7]
    assert words.duplicate(maps(uniform(8), ids)).mean == pytest.approx(1 / 8)


def test_induction_looks_behind_an_earlier_place_of_the_token() -> None:
    ids = [0, 5, 6, 7, 8, 5, 6, 7, 8]
    behind = looking([0, 0, 0, 0, 0, 2, 3, 4, 5])
    found = words.induction(maps(behind, ids, [0], causal=True))
    assert (found.mean, found.count) == (1, 4)
    same = looking([0, 0, 0, 0, 0, 1, 2, 3, 4])
    assert words.induction(maps(same, ids, [0], causal=True)).mean == 0
    assert words.duplicate(maps(same, ids, [0], causal=True)).mean == 1


@pytest.mark.parametrize("head", [uniform(50, causal=True), looking(range(50))])
def test_a_run_of_one_token_has_no_induction(head: np.ndarray) -> None:
    assert np.isnan(words.induction(maps(head, [4] * 50, causal=True)).mean)


def test_a_loop_of_two_tokens_lifts_nothing() -> None:
    heads = np.concatenate([uniform(40, causal=True), looking(range(40))])
    found = words.induction(maps(heads, [4, 5] * 20, causal=True))
    assert found.count.tolist() == [1, 1]  # the fourth token, which has one such key of four
    assert found.mean.tolist() == [0.25, 0]  # chance is .25


def test_copying_by_the_logits_and_by_the_weights() -> None:
    size, vocabulary = 12, 20
    ids = list(range(3, 3 + size))
    before = looking([0, *range(size - 1)])
    one_hot = np.eye(vocabulary)
    turn = np.roll(one_hot, 1, axis=1)
    ways = np.stack([one_hot, -one_hot, turn])
    parts = Projections(
        values=np.repeat(one_hot[ids][None], 3, 0), final=ways, unembedding=one_hot, circuit=ways
    )
    one = maps(np.repeat(before, 3, 0), ids, causal=True, beyond=parts)
    assert words.copying(one).mean.tolist() == [1, 0, 0]
    assert words.suppressing(one).mean.tolist() == [0, 1, 0]
    assert words.ov_copying(one).mean == pytest.approx([1, -1, 0], abs=1e-6)
    assert words.copying(one).count.tolist() == [6, 6, 6]  # the second half


def test_the_small_product_has_the_spectrum_of_the_large_one() -> None:
    rng = np.random.default_rng(3)
    down, up = rng.normal(size=(23, 5)), rng.normal(size=(5, 23))
    whole = np.linalg.eigvals(down @ up)
    wanted = whole.real.sum() / np.abs(whole).sum()
    parts = Projections(circuit=(up @ down)[None])
    found = words.ov_copying(maps(uniform(5), beyond=parts)).mean
    assert found == pytest.approx(wanted, abs=1e-6)


def test_without_what_it_writes_there_is_no_value() -> None:
    one = maps(uniform(9), list(range(9)))
    assert np.isnan(words.copying(one).mean)
    assert np.isnan(words.ov_copying(one).mean)
