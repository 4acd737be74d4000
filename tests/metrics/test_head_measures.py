"""M1 to M15 on weights made by hand: the pitfalls P2, P3, P5 to P10, P13, P35 of head metrics."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product

import numpy as np
import pytest

from tests.support.witness_models import ov_weights
from transformer_viz.core.sites import Site
from transformer_viz.metrics.head_measures import values
from transformer_viz.metrics.head_measures.keys import OFFSETS
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


def jumping(rows: HeadRows, find: str) -> HeadRows:
    """A perfect head: on what followed the same word, or on the word itself, else on BOS."""
    ids = list(rows.key_ids if rows.key_ids is not None else ())
    targets = []
    for i, word in enumerate(ids):
        earlier = [j for j in range(1, i) if ids[j] == word]
        targets.append(earlier[-1] + (find == "induction") if earlier else 0)
    return replace(rows, weights=looking(targets))


def repeated(length: int, seed: int = 0) -> list[int]:
    r = (np.random.default_rng(seed).permutation(length) + 1).tolist()
    return [*r, *r]


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


def test_perfect_heads_score_one_and_even_ones_have_full_entropy_at_any_length():
    """P2, P3."""
    other = {"duplicate": "induction", "induction": "duplicate"}
    for case in product(other, (8, 12, 40), VIEWS):
        find, length, view = case
        rows = jumping(prompt(repeated(length), view=view), find)
        assert value(find, rows) == pytest.approx([1.0], abs=EXACT), case
        assert value(other[find], rows) == pytest.approx([0.0], abs=EXACT), case
    for length, view in product((5, 25, 100), VIEWS):
        even = prompt(list(range(1, length)), view=view)
        assert value("entropy", even) == pytest.approx([1.0], abs=EXACT), (length, view)


def test_runs_loops_and_a_fixed_shift_are_no_induction():
    """P5, P6: in a run nobody is asked, and a loop of two leaves too many right answers.

    Shift eleven is right by luck where the period is 12; not once periods differ.
    """
    for words in ([3] * 50, [3, 4] * 20):
        even = prompt(words)
        itself = replace(even, weights=looking(list(range(len(words) + 1))))
        block = measured(SITE, even)
        found, usual = block.own["induction"], block.chance["induction"]
        if words == [3] * 50:
            assert found.rows[0] == 0 and np.isnan(mean(found)).all()
        assert mean(found) == pytest.approx(mean(usual), abs=EXACT, nan_ok=True)  # lift 0
        assert np.nan_to_num(value("induction", itself)) == 0

    def shifted(period: int) -> Tally:
        targets = [max(0, i - 11) for i in range(2 * period + 1)]
        return own("induction", replace(prompt(repeated(period)), weights=looking(targets)))

    assert mean(shifted(12)) == pytest.approx([1.0])
    assert mean(reduce(Tally.plus, map(shifted, range(13, 41))))[0] < 0.1


def test_the_first_rows_are_left_out():
    """P7: a sink looks at nobody's previous token, a previous head at no first token."""
    rows = prompt(list(range(1, 13)))
    sink = replace(rows, weights=looking([0] * 13))
    back = replace(rows, weights=looking([0, *range(12)]))
    assert value("previous", sink) == 0 and value("sink", sink) == 1
    assert value("sink", back) == 0 and value("previous", back) == 1
    no_bos = replace(sink, query_special=np.zeros(13, bool), key_special=np.zeros(13, bool))
    assert value("previous", no_bos) == 0
    assert value("self", no_bos) == 0  # row 0 looks at itself, having no choice


def test_copies_are_added_and_ties_share_their_row():
    """P8, P9: a row that shares its weight among k copies has found them all.

    An even head is positional by 1/n_i, whatever key stands first.
    """
    words = [7, *range(10, 16), 7, *range(20, 26), 7, *range(30, 36), 7]
    rows, size = prompt(words), len(words) + 1
    places = np.flatnonzero(rows.key_ids == 7)
    weights = np.zeros((1, size, size))
    weights[0, :, 0] = 1
    weights[0, places[-1]] = 0
    weights[0, places[-1], places[:-1]] = 1 / 3
    weights[0, places[1], :] = np.eye(size)[places[0]]
    weights[0, places[2], :] = (np.eye(size)[places[:2]]).mean(0)
    found = own("duplicate", replace(rows, weights=weights.astype(np.float32)))
    assert found.rows[0] == 3 and mean(found) == pytest.approx([1.0], abs=EXACT)
    for view in VIEWS:
        rows = prompt(list(range(1, 25)), view=view)
        profile = own("positional", rows)
        share = profile.mean[0, OFFSETS.index(0)]
        number = rows.count[(rows.asked & rows.heeded)[0] & (rows.count >= 2)]
        assert share == pytest.approx((1 / number).mean(), abs=EXACT), view
        assert mean(profile) == pytest.approx([share], abs=EXACT), view


def test_no_row_is_no_value_and_previous_is_not_next():
    """P10, P11: on an encoder, with a head that looks back and one that looks ahead."""
    for name in ("previous", "next", "duplicate", "induction", "monotonicity", "null", "copying"):
        found = own(name, prompt([5]))
        assert (found.rows == 0).all() and np.isnan(mean(found)).all(), name
    plain = np.zeros(9, bool)
    weights = np.concatenate([looking([0, *range(8)]), looking([*range(1, 9), 8])])
    rows = HeadRows(weights, np.ones((9, 9), bool), plain, plain)
    assert value("previous", rows).tolist() == [1, 0]
    assert value("next", rows).tolist() == [0, 1]
    profile = own("positional", rows).mean
    assert [OFFSETS[place] for place in np.nan_to_num(profile).argmax(-1)] == [-1, 1]


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
