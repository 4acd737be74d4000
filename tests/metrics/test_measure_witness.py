"""Every measure of stacked heads against a second implementation, written row by row in Python."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from transformer_viz.metrics.corpus.selection import draw_of
from transformer_viz.metrics.head_measures.columns import PLACES
from transformer_viz.metrics.head_measures.registry import MEASURES
from transformer_viz.metrics.head_measures.rows import GRID, VIEWS
from transformer_viz.metrics.head_measures.side_by_side import orders
from transformer_viz.metrics.head_measures.stacked import Stacked, measure

SENTENCES, HEADS, WIDE = 3, 2, 7
OFFSETS = range(-8, 9)


class Plain:
    """One head in one sentence, looked at row by row.

    ``kept`` names the rows that are no sink rows where other weights than these decide it.
    """

    def __init__(self, stack: Stacked, weights: np.ndarray, ids: list[int] | None, kept=None):  # type: ignore[no-untyped-def]
        self.w, self.ids, self.cross = weights.astype(float), ids, stack.cross
        self.allowed = stack.allowed
        self.query_special, self.key_special = stack.query_special, stack.key_special
        self.content = stack.view == "content"
        seen = self.allowed.any(0)
        self.first = int(np.flatnonzero(seen)[0])
        self.words = [j for j in range(len(seen)) if seen[j] and not self.key_special[j]]
        self.spoken = [i for i in range(len(self.w)) if self.cross or seen[i]]
        self.causal = not self.cross and not np.triu(self.allowed, 1).any()
        self.keys = [
            [j for j in np.flatnonzero(row) if not self.content or j in self.words]
            for row in self.allowed
        ]
        mass = [self.w[i, keys].sum() for i, keys in enumerate(self.keys)]
        heeded = [not self.content or m >= 0.05 for m in mass]
        self.kept = heeded if kept is None else kept
        self.a = np.zeros(self.w.shape)
        for i, keys in enumerate(self.keys):
            self.a[i, keys] = self.w[i, keys] / (mass[i] if self.content and heeded[i] else 1)
        self.asked = [
            i for i in self.spoken if not self.query_special[i] and self.allowed[i].sum() >= 2
        ]
        self.rows = [i for i in self.asked if len(self.keys[i]) >= 2 and self.kept[i]]
        self.ends = [j for j in np.flatnonzero(self.key_special) if j != self.first]

    def entropy(self) -> list[float]:
        found = []
        for i in self.rows:
            p = [x / self.a[i].sum() for x in self.a[i] if x > 0]
            found.append(-sum(x * math.log(x) for x in p) / math.log(len(self.keys[i])))
        return found

    def confidence(self) -> list[float]:
        shown = self.allowed.copy()
        shown[:, self.ends] = False
        return [max((self.w[i] * shown[i]).tolist()) for i in self.asked]

    def distance(self) -> list[float]:
        found = []
        for i in [] if self.cross else self.rows:
            reach = max(abs(int(j) - i) for j in self.keys[i])
            if reach:
                found.append(sum(self.a[i, j] * abs(int(j) - i) for j in self.keys[i]) / reach)
        return found

    def at(self, offset: int) -> list[tuple[int, int]]:
        cells = [(i, i + offset) for i in self.rows if i + offset in self.keys[i]]
        cells = [(i, j) for i, j in cells if j in self.words]
        after_first = (self.first + 1, self.first)
        return [c for c in cells if not (self.causal and offset < 0 and c == after_first)]

    def near(self, offset: int) -> list[float]:
        return [] if self.cross else [self.a[cell] for cell in self.at(offset)]

    def positional(self) -> list[list[float]]:
        def share(i: int, j: int) -> float:
            open_keys = [k for k in self.keys[i] if k not in self.ends]
            best = max(self.a[i, k] for k in open_keys)
            tied = [k for k in open_keys if self.a[i, k] >= best - 1e-6]
            return (j in tied) / len(tied)

        return [[share(*cell) for cell in self.at(offset)] for offset in OFFSETS]

    def sink(self) -> list[float]:
        late = [i for i in self.asked if i - self.first >= 2 or not self.causal]
        return [self.w[i, self.first] for i in late if self.allowed[i, self.first]]

    def special(self) -> list[float]:
        found = []
        for i in self.asked:
            on, off = self.allowed[i] & self.key_special, self.allowed[i] & ~self.key_special
            if on.any() and off.any():
                found.append(self.w[i, on].sum())
        return found

    def null(self, values: np.ndarray) -> list[float]:
        sinks = [j for j in range(len(values)) if self.key_special[j] or j == self.first]
        found = []
        for i in self.asked:
            whole = np.linalg.norm(self.w[i] @ values)
            if sum(self.w[i, j] for j in sinks if self.allowed[i, j]) > 0.3 and whole > 0:
                part = np.linalg.norm(self.w[i, sinks] @ values[sinks])
                found.append(min(1.0, max(0.0, 1 - float(part / whole))))
        return found

    def again(self, kind: str) -> list[float]:
        found, ids = [], self.ids
        for i in [] if self.cross or ids is None else self.rows:
            assert ids is not None
            words = [j for j in self.keys[i] if j in self.words]
            if kind == "duplicate":
                right = [j for j in words if ids[j] == ids[i] and j != i]
            elif i > self.first and ids[i] == ids[i - 1]:
                continue
            else:
                seen = self.allowed.any(0)
                right = [j for j in words if 0 < j < i and seen[j - 1] and ids[j - 1] == ids[i]]
            if 0 < len(right) <= len(self.keys[i]) / 4:
                found.append(self.a[i, right].sum())
        return found

    def monotonicity(self) -> list[float]:
        mean = {i: self.a[i] @ np.arange(len(self.a[i])) / self.a[i].sum() for i in self.rows}
        ahead = [mean[later] - mean[i] for i, later in combinations(self.rows, 2)]
        level = 1e-6 * self.a.shape[1]
        return [0.5 if abs(x) <= level else float(x > 0) for x in ahead] if self.cross else []

    def diagonality(self) -> list[float]:
        real = np.flatnonzero(self.allowed.any(0))
        if not self.cross or min(len(self.spoken), len(real)) < 3:
            return []
        i_of = {i: n / (len(self.spoken) - 1) for n, i in enumerate(self.spoken)}
        j_of = {j: n / (len(real) - 1) for n, j in enumerate(real)}
        off = {i: {j: abs(i_of[i] - j_of[j]) for j in self.keys[i]} for i in self.rows}
        usual = np.mean([np.mean(list(off[i].values())) for i in self.rows])
        return [1 - sum(self.a[i, j] * off[i][j] for j in off[i]) / usual for i in self.rows]

    def coverage(self) -> list[float]:
        rows = [i for i in self.spoken if self.kept[i]] if self.cross else []
        read = {int(j) for keys in self.keys for j in keys}
        return [min(1.0, self.a[rows, j].sum() * len(read) / len(rows)) for j in self.words if rows]

    def measured(self, name: str, values: np.ndarray) -> list[list[float]]:
        """Return one list of values per offset; most measures have one."""
        if name in ("previous", "self", "next"):
            return [self.near({"previous": -1, "self": 0, "next": 1}[name])]
        if name in ("duplicate", "induction"):
            return [self.again(name)]
        if name == "null":
            return [self.null(values)]
        found = getattr(self, name)()
        return found if name == "positional" else [found]  # type: ignore[no-any-return]


def drawn(kind: str, view: str, queries: int, keys: int, seed: int = 3) -> Stacked:
    """Return random heads: the end is a special token, and words come twice."""
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


def test_every_measure_is_the_one_computed_row_by_row():
    draws = np.array([draw_of(0, n) for n in range(SENTENCES)], np.uint64)
    seen = set()
    stacks = (
        *(("whole", 11, 11), ("whole", 3, 3), ("causal", 13, 13)),
        *(("padded", 11, 11), ("cross", 7, 11)),
    )
    for view, (kind, queries, keys) in product(VIEWS, stacks):
        stack = drawn(kind, view, queries, keys)
        found, facts = measure(stack, draws), stack.facts
        assert stack.values is not None
        vectors = stack.values().reshape(SENTENCES, HEADS, keys, WIDE)
        by_rows, by_ids = orders(facts, draws, 0), orders(facts, draws, 1)
        even = stack.allowed / stack.allowed.sum(-1, keepdims=True)
        for n, head in product(range(SENTENCES), range(HEADS)):
            ids = None if stack.ids is None else stack.ids[n].tolist()
            weights, values = stack.weights[n, head], vectors[n, head]
            own = Plain(stack, weights, ids)
            moved = Plain(stack, weights[by_rows[n]], ids, own.kept)
            renamed = None if ids is None else Plain(stack, weights, [ids[k] for k in by_ids[n]])
            sides = {"": own, "chance_": Plain(stack, even, ids, own.kept)}
            for one in MEASURES:
                if one.name in ("copying", "ov_copying"):  # of the model's weights
                    continue
                nulls = {"rows": moved, "ids": renamed}
                null = nulls.get(one.shuffled or "")
                for part, plain in (sides | ({"null_": null} if null else {})).items():
                    place = (n, head, PLACES[one.name])
                    rows = getattr(found, f"{part}rows")[place]
                    total = getattr(found, part.rstrip("_") or "total")[place] / GRID
                    wanted = plain.measured(one.name, values)
                    case = (view, kind, part, one.name, n, head)
                    assert rows.tolist() == [len(some) for some in wanted], case
                    sums = [float(np.sum(some)) for some in wanted]
                    assert total == pytest.approx(sums, abs=3e-7), case
                    if not part:
                        squares = [float(np.sum(np.square(some))) for some in wanted]
                        assert found.squares[place] / GRID == pytest.approx(squares, abs=1e-6), case
                    seen |= {(view, one.name)} if any(map(len, wanted)) else set()
    assert len(seen) == len(VIEWS) * (len(MEASURES) - 2)


def test_rows_without_numbers_and_heads_side_by_side():
    """A row with a NaN is not asked, and no head depends on those beside it."""
    draws = np.array([draw_of(0, n) for n in range(SENTENCES)], np.uint64)
    stack = drawn("whole", "content", 11, 11)
    stack.weights[1, 1, 4, 3] = np.nan
    found, whole = measure(stack, draws), measure(drawn("whole", "content", 11, 11), draws)
    for name in ("entropy", "confidence", "sink"):
        lost = whole.rows[..., PLACES[name]] - found.rows[..., PLACES[name]]
        assert lost.sum() == 1 and lost[1, 1] == 1, name
    stack = drawn("causal", "content", 13, 13)
    together, every = measure(stack, draws), stack.values
    assert every is not None and stack.ids is not None
    values = every().reshape(SENTENCES, HEADS, -1, WIDE)
    for number in range(SENTENCES):
        at = slice(number, number + 1)
        sides = (stack.weights[at], stack.allowed, stack.query_special, stack.key_special)
        alone = Stacked(*sides, stack.ids[at], False, "content", lambda at=at: values[at][0])
        for name, part in vars(measure(alone, draws[at])).items():
            assert part.tobytes() == getattr(together, name)[at].tobytes(), name


def test_the_null_puts_words_alone_in_every_order_alike():
    """Of 3,000 draws each word stands at each place about as often; others stay."""
    facts = drawn("whole", "content", 5, 5).facts  # four words and an end
    many = np.array([draw_of(7, n) for n in range(3000)], np.uint64)
    found = orders(facts, many, 0)
    assert (np.sort(found, 1) == np.arange(5)).all() and (found[:, 4] == 4).all()
    kinds, counts = np.unique(found[:, :4], axis=0, return_counts=True)
    assert len(kinds) == 24
    assert ((counts - 125) ** 2 / 125).sum() < 49.7  # chi-squared, 23 degrees, p = .001
    assert (orders(facts, many, 1) != found).any(1).mean() > 0.9
    assert np.array_equal(orders(facts, many[5:6], 0), found[5:6])
