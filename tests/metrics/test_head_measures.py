"""M1 to M15 on weights made by hand: the pitfalls P4, P6, P7, P10, P13, P35 of head metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
import pytest

from tests.support.witness_models import ov_weights
from transformer_viz.core.sites import Site
from transformer_viz.metrics.head_measures import values
from transformer_viz.metrics.head_measures.registry import MEASURES, settled
from transformer_viz.metrics.head_measures.row_measures import source_shares
from transformer_viz.metrics.head_measures.rows import VIEWS, HeadRows, Tally
from transformer_viz.metrics.head_measures.stacked import Stacked
from transformer_viz.metrics.head_measures.tables import measured

EXACT = 1e-6
SITE = Site("decoder", "self", 0)
NAMES = [measure.name for measure in MEASURES]
#: What decoder self-attention can be asked of weights alone.
CAUSAL = [
    *("entropy", "confidence", "distance", "previous", "self", "positional", "sink", "special"),
    *("duplicate", "induction"),
]


def prompt(words: list[int], weights: np.ndarray | None = None, view: str = "raw") -> HeadRows:
    """``BOS words`` under a causal mask, weights ``[head, query, key]``; without: one even head."""
    ids = np.array([0, *words])
    allowed = np.tri(len(ids), dtype=bool)
    even = (allowed / allowed.sum(-1, keepdims=True))[None].astype(np.float32)
    special = ids == 0
    given = even if weights is None else weights.astype(np.float32)
    return HeadRows(given, allowed, special, special, key_ids=ids, view=view)


def looking(targets: list[int]) -> np.ndarray:
    """A head whose row i looks at ``targets[i]`` alone, ``[1, query, key]``."""
    return np.eye(len(targets), dtype=np.float32)[targets][None]


def some(heads: int = 3, words: int = 9, seed: int = 4) -> HeadRows:
    """Random causal heads on a text with repeated words."""
    generator = np.random.default_rng(seed)
    raw = generator.random((heads, words + 1, words + 1)) * np.tri(words + 1)
    text = generator.integers(1, 5, words).tolist()
    return prompt(text, raw / raw.sum(-1, keepdims=True))


def own(name: str, rows: HeadRows) -> Tally:
    return measured(SITE, rows).own[name]


def mean(tally: Tally) -> np.ndarray:
    total, rows = (part.reshape(len(part), -1) for part in tally[:2])
    return settled(total, rows)[0]


def value(name: str, rows: HeadRows) -> np.ndarray:
    return mean(own(name, rows))


def test_a_fixed_shift_is_no_induction():
    """P6: shift eleven is right by luck where the period is 12; not once periods differ."""

    def tally_shift(period: int) -> Tally:
        words = np.random.default_rng(0).permutation(period) + 1
        targets = [max(0, i - 11) for i in range(2 * period + 1)]
        return own("induction", replace(prompt([*words, *words]), weights=looking(targets)))

    assert mean(tally_shift(12)) == pytest.approx([1.0])
    assert mean(reduce(Tally.plus, map(tally_shift, range(13, 41))))[0] < 0.1


def test_the_first_rows_are_left_out_also_without_a_special_token():
    """P7: a sink looks at nobody's previous token, a previous head at no first token."""
    none, rows = np.zeros(13, bool), prompt(list(range(1, 13)), looking([0] * 13))
    no_bos = replace(rows, query_special=none, key_special=none)
    assert value("previous", no_bos) == 0
    assert value("self", no_bos) == 0  # row 0 looks at itself, having no choice


def test_no_row_is_no_value():
    """P10."""
    for name in ("previous", "next", "duplicate", "induction", "monotonicity", "null", "copying"):
        found = own(name, prompt([5]))
        assert (found.rows == 0).all() and np.isnan(mean(found)).all(), name


def test_a_measure_leaves_its_input_alone_and_padding_changes_nothing():
    """P13, P4: what it gives is a sum over rows that lie between 0 and 1.

    Three padding tokens stand on either side of a sentence.
    """
    for view in VIEWS:
        rows = replace(some(), view=view)
        parts = (rows.weights, rows.allowed, np.asarray(rows.key_ids))
        before = [part.tobytes() for part in parts]
        block = measured(SITE, rows)
        for name, found in product(NAMES, (block.own, block.chance)):
            total, of = found[name].total, found[name].rows
            assert (found[name].squares <= total + EXACT).all() and (total >= 0).all(), name
            assert (total <= of + EXACT).all(), name
        assert [part.tobytes() for part in parts] == before, view
        for more in ((3, 0), (0, 3)):
            padded = HeadRows(
                np.pad(rows.weights, ((0, 0), more, more)),
                np.pad(rows.allowed, (more, more)),
                np.pad(rows.query_special, more, constant_values=True),
                np.pad(rows.key_special, more, constant_values=True),
                key_ids=np.pad(np.asarray(rows.key_ids), more, constant_values=19),
                view=view,
            )
            wide = measured(SITE, padded).own
            for name in CAUSAL:
                for one, other in zip(block.own[name], wide[name], strict=True):
                    assert one == pytest.approx(other, abs=EXACT), (view, more, name)


def test_parts_add_up_to_the_whole():
    """P35: tallies of 40 sentences, merged in seven random ways, are the same bytes."""
    blocks = [measured(SITE, some(seed=seed)).own for seed in range(40)]
    for name in NAMES:
        tallies = [block[name] for block in blocks]
        whole = b"".join(part.tobytes() for part in reduce(Tally.plus, tallies))
        generator = np.random.default_rng(1)
        for _ in range(7):
            order = generator.permutation(40)
            cuts = np.sort(generator.integers(1, 40, 3))
            parts = [[tallies[n] for n in part] for part in np.split(order, cuts) if len(part)]
            merged = reduce(Tally.plus, [reduce(Tally.plus, part) for part in parts])
            assert b"".join(part.tobytes() for part in merged) == whole, name


def test_special_tokens_by_view_and_what_is_parked():
    """M8: BOS whose values are 0 does nothing; BOS that gives everything does.

    A row that parks .6 on BOS: raw as it is; content divided by .4; parked wholly: not asked.
    """
    weights = np.zeros((1, 4, 4))
    weights[0, :, 0] = 1
    weights[0, 3] = [0.6, 0.1, 0.3, 0.0]
    raw = prompt([5, 6, 7], weights)
    content = replace(raw, view="content")
    assert value("previous", raw) == pytest.approx([0.15], abs=EXACT)  # rows 2 and 3
    assert value("previous", content) == pytest.approx([0.75], abs=EXACT)  # row 3 alone
    assert value("special", content) == value("special", raw)
    weights = np.full((2, 3, 3), 0.0)
    weights[..., 0], weights[..., 1] = 0.8, 0.2
    given = np.zeros((2, 3, 4))
    given[0, 1] = given[1, 0] = [1, 2, 3, 4]
    parked = replace(prompt([5, 6], weights), values=given)
    assert value("null", parked) == pytest.approx([1, 0], abs=EXACT)


def test_the_walk_through_the_source():
    """M13 to M15 of a diagonal, a reversed, an even head, and one on a single word."""
    diagonal, none = np.eye(6), np.zeros(6, bool)
    heads = np.stack([diagonal, diagonal[::-1], np.full((6, 6), 1 / 6), diagonal[[2] * 6]])
    rows = HeadRows(heads.astype(np.float32), np.ones((6, 6), bool), none, none, cross=True)
    assert value("monotonicity", rows) == pytest.approx([1, 0, 0.5, 0.5], abs=EXACT)
    near = value("diagonality", rows)
    assert near[:3] == pytest.approx([1, near[1], 0], abs=EXACT) and near[1] < 0
    assert value("coverage", rows) == pytest.approx([1, 1, 1, 1 / 6], abs=EXACT)
    dead = (source_shares(Stacked.of(rows).own)[0] < 0.1).sum(0)
    assert dead.tolist() == [0, 0, 0, 5]


def test_eigenvalues_of_an_ov_circuit():
    """W3, M12: copy 1, negated -1, shifted by one 0, random about 0; small equals large product."""
    for kind, wanted in (("copy", 1.0), ("negated", -1.0), ("shift", 0.0)):
        assert values.ov_values(**ov_weights(kind)) == pytest.approx([wanted], abs=EXACT)
    random = [values.ov_values(**ov_weights("random", seed))[0] for seed in range(20)]
    assert abs(np.mean(random)) < 0.15
    generator = np.random.default_rng(0)
    parts = {
        "embed": generator.normal(size=(30, 7)),
        "w_v": generator.normal(size=(2, 7, 3)),
        "w_o": generator.normal(size=(2, 3, 7)),
        "unembed": generator.normal(size=(7, 30)),
    }
    whole = np.linalg.eigvals(parts["embed"] @ parts["w_v"] @ parts["w_o"] @ parts["unembed"])
    wanted_two = whole.sum(-1).real / np.abs(whole).sum(-1)
    assert values.ov_values(**parts) == pytest.approx(wanted_two, abs=EXACT)


def test_a_copying_head_raises_what_it_looks_at():
    """W3, M11; its opposite is found with the sign turned."""
    rows = prompt(list(range(6, 19)), looking([0, *range(13)]))
    for kind, wanted in (("copy", 1), ("negated", 0), ("shift", 0)):
        parts = ov_weights(kind)
        out = (parts["w_v"] @ parts["w_o"])[0]
        direct = rows.weights @ (parts["embed"][rows.key_ids] @ out @ parts["unembed"])
        direct = direct - 1e-3 * np.arange(20)  # no ties; the next five are never looked at
        direct[..., :5] += 1e-2
        found, turned = (mean(values.copying(replace(rows, direct=d))) for d in (direct, -direct))
        assert found == wanted, kind
        assert kind == "shift" or turned == 1 - wanted, kind
        chance = mean(values.copying_by_chance(replace(rows, direct=direct)))
        assert chance == pytest.approx([5 / 20], abs=EXACT), kind
