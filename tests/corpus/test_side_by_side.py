"""Heads side by side give what each measure gives of one sentence after another, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from transformer_viz.metrics.corpus.columns import PLACES
from transformer_viz.metrics.corpus.heads_last import Facts, orders
from transformer_viz.metrics.corpus.selection import draw_of
from transformer_viz.metrics.corpus.stacked import Stacked, measure
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.rows import GRID, VIEWS, HeadRows, Tally

SENTENCES, HEADS, WIDE = 5, 3, 7
APART = ("copying", "ov_copying")
#: Sums in another order may part on the last bit, which moves a row's rounding to 2^-30 by one.
UNITS = 2


def drawn(kind: str, view: str, queries: int, keys: int, seed: int = 3) -> Stacked:
    """Random heads: the end is a special token, and words come twice."""
    generator = np.random.default_rng(seed)
    allowed = np.ones((queries, keys), bool)
    if kind == "causal":
        allowed = np.tri(queries, dtype=bool)
    if kind == "padded":
        allowed[:, -2:] = False
    scores = generator.normal(0, 3, (SENTENCES, HEADS, queries, keys))
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    special = [np.zeros(n, bool) for n in (queries, keys)]
    for side in special if kind != "cross" else special[1:]:
        side[-1 if kind != "causal" else 0] = True
    if kind == "padded":
        special[0][-3] = special[1][-3] = True
    values = generator.normal(0, 1, (SENTENCES * HEADS, keys, WIDE)).astype(np.float32)
    ids = None if kind == "cross" else generator.integers(1, 5, (SENTENCES, keys))
    return Stacked(
        weights.astype(np.float32), allowed, *special, ids, kind == "cross", view, lambda: values
    )


def rows_of(stack: Stacked, number: int) -> HeadRows:
    values = stack.values
    assert values is not None
    every = values().reshape(SENTENCES, HEADS, -1, WIDE)
    return HeadRows(
        stack.weights[number],
        stack.allowed,
        stack.query_special,
        stack.key_special,
        key_ids=None if stack.ids is None else stack.ids[number],
        cross=stack.cross,
        view=stack.view,
        values=every[number],
    )


def draws() -> np.ndarray:
    return np.array([draw_of(0, n) for n in range(SENTENCES)], np.uint64)


def same(rows: np.ndarray, total: np.ndarray, found: Tally) -> None:
    shape = rows.shape
    assert np.array_equal(rows, np.broadcast_to(found.rows.reshape(shape[0], -1), shape))
    apart = np.abs(total - np.rint(found.total.reshape(shape[0], -1) * GRID))
    assert apart.max() <= UNITS


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    "kind, queries, keys",
    [("whole", 11, 11), ("whole", 3, 3), ("causal", 13, 13), ("padded", 11, 11), ("cross", 7, 11)],
)
def test_own_chance_and_null_are_those_of_the_measures(
    kind: str, queries: int, keys: int, view: str
) -> None:
    stack = drawn(kind, view, queries, keys)
    found = measure(stack, draws())
    by_rows, by_ids = (orders(stack.facts, draws(), n) for n in (0, 1))
    for number in range(SENTENCES):
        rows = rows_of(stack, number)
        moved = HeadRows(
            rows.weights[:, by_rows[number]],
            *(rows.allowed, rows.query_special, rows.key_special),
            cross=rows.cross,
            view=view,
            kept=rows.heeded,
        )
        for one in MEASURES:
            if one.name in APART:
                continue
            at = (number, slice(None), PLACES[one.name])
            own = one.of(rows)
            same(found.rows[at], found.total[at], own)
            same(found.rows[at], found.squares[at], Tally(own.squares, own.rows, own.total))
            same(found.chance_rows[at], found.chance[at], one.chance(rows))
            if one.shuffled == "rows":
                same(found.null_rows[at], found.null[at], one.of(moved))
            if one.shuffled == "ids" and rows.key_ids is not None:
                ids = rows.key_ids[by_ids[number]]
                other = HeadRows(
                    *(rows.weights, rows.allowed, rows.query_special, rows.key_special),
                    key_ids=ids,
                    view=view,
                )
                same(found.null_rows[at], found.null[at], one.of(other))
    asked = {name for name, place in PLACES.items() if found.rows[..., place].any()}
    assert len(asked) >= (8 if keys > 3 else 5)


def test_rows_that_are_no_numbers_are_not_asked() -> None:
    stack = drawn("whole", "content", 11, 11)
    stack.weights[1, 2, 4, 3] = np.nan
    found, whole = measure(stack, draws()), measure(drawn("whole", "content", 11, 11), draws())
    for one in ("entropy", "confidence", "sink"):
        place = PLACES[one]
        lost = whole.rows[..., place] - found.rows[..., place]
        assert lost.sum() == 1 and lost[1, 2] == 1
        same(found.rows[1, :, place], found.total[1, :, place], _of(one, rows_of(stack, 1)))


def _of(name: str, rows: HeadRows) -> Tally:
    return next(one for one in MEASURES if one.name == name).of(rows)


def test_heads_do_not_depend_on_those_beside_them() -> None:
    stack = drawn("causal", "content", 13, 13)
    together = measure(stack, draws())
    every = stack.values
    assert every is not None
    for number in range(SENTENCES):
        at = slice(number, number + 1)
        alone = Stacked(
            *(stack.weights[at], stack.allowed, stack.query_special, stack.key_special),
            *(None if stack.ids is None else stack.ids[at], False, "content"),
            lambda at=at: every().reshape(SENTENCES, HEADS, -1, WIDE)[at].reshape(HEADS, -1, WIDE),
        )
        for name, part in vars(measure(alone, draws()[at])).items():
            assert part.tobytes() == getattr(together, name)[at].tobytes(), name


def test_the_null_puts_words_alone_in_every_order_alike() -> None:
    """Of 3,000 draws each word stands at each place about as often; others stay."""
    facts: Facts = drawn("whole", "content", 5, 5).facts  # four words and an end
    many = np.array([draw_of(7, n) for n in range(3000)], np.uint64)
    found = orders(facts, many, 0)
    assert (np.sort(found, 1) == np.arange(5)).all() and (found[:, 4] == 4).all()
    kinds, counts = np.unique(found[:, :4], axis=0, return_counts=True)
    assert len(kinds) == 24
    chi = ((counts - 125) ** 2 / 125).sum()
    assert chi < 49.7  # 23 degrees of freedom, p = .001
    assert (orders(facts, many, 1) != found).any(1).mean() > 0.9
    assert np.array_equal(orders(facts, many[5:6], 0), found[5:6])
