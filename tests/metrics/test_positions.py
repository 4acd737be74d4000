"""Positions: waves measured from tables against the paper's formula, and by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conftest import make_model
from tests.support.refusals import refuses
from tests.views.conftest import make_trace
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.inference.tracing import trace
from transformer_viz.metrics.positions.positions import (
    bias_names,
    column_names,
    measured,
    pair_count,
    position_label,
    position_names,
    position_rows,
    shift,
    similarity,
    waves,
)
from transformer_viz.metrics.positions.shift_errors import shift_errors, similarity_by_distance

ROWS, WIDTH = 17, 22
LAYOUTS = ("neighbours", "halves")
#: Four positions, a quarter of a turn each.
QUARTERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def paper(rows: int = ROWS, width: int = WIDTH, layout: str = "neighbours") -> np.ndarray:
    """Return the table of Vaswani et al. 2017, section 3.5, cell by cell, float32."""
    table = np.zeros((rows, width))
    half = (width + 1) // 2
    for position, column in product(range(rows), range(width)):
        pair = column // 2 if layout == "neighbours" else column % half
        cosine = column % 2 if layout == "neighbours" else column // half
        angle = position / 10000 ** (2 * pair / width)
        table[position, column] = math.cos(angle) if cosine else math.sin(angle)
    return table.astype(np.float32)


def learned(rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(rows, width)).astype(np.float32)


def lengths(table: np.ndarray) -> np.ndarray:
    return np.array([wave.wavelength for wave in waves(table)])


SHUFFLED = paper()[np.random.default_rng(1).permutation(ROWS)]


# ---- waves -------------------------------------------------------------------------------------


def test_the_papers_table_has_the_papers_wavelengths():
    sizes = ((2, 22), (17, 22), (17, 256), (128, 7), (300, 64))
    for case in product(LAYOUTS, sizes):
        layout, (rows, width) = case
        found = waves(paper(rows, width, layout))
        pairs = np.arange(width // 2)
        expected = 2 * np.pi * 10000 ** (2 * pairs / width)
        assert [wave.wavelength for wave in found] == pytest.approx(expected, rel=1e-6), case
        assert max(wave.error for wave in found) < 1e-6, case
        first = 2 * pairs if layout == "neighbours" else pairs
        second = first + 1 if layout == "neighbours" else pairs + (width + 1) // 2
        places = [(wave.pair, wave.first, wave.second) for wave in found]
        assert places == list(zip(pairs, first, second, strict=True)), case


def test_waves_of_tables_that_are_cut_scaled_padded_or_rounded():
    table, usual = paper(), lengths(paper())
    for wave in waves(table):  # which passes through the table
        drawn = wave.at(np.arange(ROWS))
        assert drawn == pytest.approx(table[:, [wave.first, wave.second]], abs=1e-6)
    for by in (0.5, 2.0, -1.0):
        assert lengths(by * table) == pytest.approx(usual), by
    assert lengths(paper(30)[2:]) == pytest.approx(usual, rel=1e-5)
    assert lengths(table.astype(np.float16)) == pytest.approx(usual, rel=2e-3)
    padded = paper()
    padded[-3:] = padded[:2] = 0
    assert lengths(padded) == pytest.approx(usual, rel=1e-5)
    assert waves(padded)[0].at(np.arange(5))[2:] == pytest.approx(padded[2:5, :2], abs=1e-6)


def test_quarter_turns_by_hand():
    (wave,) = waves(QUARTERS)
    assert wave.turn == wave.frequency == pytest.approx(np.pi / 2)
    assert wave.wavelength == pytest.approx(4)
    assert wave.start == pytest.approx(1)
    assert wave.error == pytest.approx(0, abs=1e-12)
    half = 0.5**0.5
    drawn = np.array([[1, 0], [half, half], [0, 1], [-1, 0]])
    assert wave.at(np.array([0, 0.5, 1, 6])) == pytest.approx(drawn, abs=1e-9)
    (back,) = waves(QUARTERS[:, ::-1])
    assert back.turn == pytest.approx(-np.pi / 2) and back.wavelength == pytest.approx(4)
    # a pair may stand still beside others
    found = waves(np.concatenate([QUARTERS, np.tile([[0.6, 0.8]], (4, 1))], axis=1))
    assert found[1].wavelength == math.inf and found[1].frequency == 0
    assert found[0].wavelength == pytest.approx(4)
    moved = shift(2 * QUARTERS, 1)
    assert moved.predicted == pytest.approx(2 * QUARTERS[1:], abs=1e-12)
    # An arrow out of line: (1, 0) to (0, 1) asks for a quarter of a turn, (0, 1) to (0, 1) for
    # none; the sum of the products, i + 1, for an eighth. Each is missed by an eighth of a turn:
    # cos 45° from 0, and 1 - cos 45° from 1.
    bent = shift(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1)
    assert bent.predicted == pytest.approx(np.array([[half, half], [-half, half]]))
    assert bent.largest == pytest.approx(half) and bent.relative == pytest.approx(half)


@given(
    st.floats(0.001, 3.1),
    st.floats(-3.1, 3.1),
    st.floats(0.01, 100),
    st.integers(3, 40),
    st.booleans(),
)
def test_any_even_turn_is_measured(frequency, phase, size, rows, back):
    angle = phase + np.arange(rows) * (-frequency if back else frequency)
    (wave,) = waves(size * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert wave.frequency == pytest.approx(frequency, abs=1e-9)
    assert (wave.turn < 0) == back
    assert abs(wave.start) == pytest.approx(size)
    assert wave.error == pytest.approx(0, abs=1e-9)


def test_what_does_not_turn_is_refused_in_a_sentence():
    drift = learned().cumsum(axis=0) / 100 + 5  # hardly moves, so it lies close to any circle
    for table in (learned(), SHUFFLED, drift, learned(2)):
        refuses(r"do not turn evenly.*Learned tables.*shuffled", waves, table)
        assert len(measured(table)) == WIDTH // 2
    assert np.median([wave.error for wave in measured(learned())]) > 1
    assert measured(learned())[3].second == 7  # where nothing fits, neighbours
    refuses("zero: nothing is added, so nothing turns", waves, np.zeros((5, 4)))
    refuses("at least two positions; this table has 1", waves, paper(rows=2)[1:])
    refuses("the same row: nothing turns", waves, np.ones((5, 4)))
    refuses(r"table \[position, dimension\].*shape \(3,\)", waves, np.zeros(3))


# ---- similarity --------------------------------------------------------------------------------


def test_similarity_of_the_papers_table_knows_only_the_distance():
    frequency = 10000.0 ** (-2 * np.arange(WIDTH // 2) / WIDTH)
    apart = np.subtract.outer(np.arange(ROWS), np.arange(ROWS))
    expected = np.cos(frequency * apart[..., None]).mean(axis=-1)
    for layout in LAYOUTS:
        assert similarity(paper(layout=layout)) == pytest.approx(expected, abs=1e-6), layout
    table = np.array([[3.0, 4.0], [0.0, 0.0], [4.0, 3.0], [-6.0, -8.0]])
    by_hand = [[1, 0, 0.96, -1], [0, 0, 0, 0], [0.96, 0, 1, -0.96], [-1, 0, -0.96, 1]]
    assert similarity(table) == pytest.approx(np.array(by_hand))


@given(st.integers(1, 12), st.integers(2, 9), st.integers(0, 999))
def test_similarity_is_symmetric_and_knows_no_scale(rows, width, seed):
    table = np.random.default_rng(seed).normal(size=(rows, width))
    alike = similarity(table)
    assert np.array_equal(alike, alike.T) or np.allclose(alike, alike.T)
    assert np.diagonal(alike) == pytest.approx(np.ones(rows))
    assert np.abs(alike).max() <= 1
    assert similarity(0.5 * table) == pytest.approx(alike)


# ---- shift -------------------------------------------------------------------------------------


def test_one_turn_moves_every_row_of_the_papers_table_and_of_no_other():
    for layout, by in product(LAYOUTS, range(ROWS)):
        table = paper(layout=layout)
        moved = shift(table, by)
        assert moved.predicted.shape == (ROWS - by, WIDTH), (layout, by)
        assert np.array_equal(moved.actual, table[by:]), (layout, by)
        assert moved.predicted == pytest.approx(table[by:], abs=1e-6), (layout, by)
        assert moved.largest < 1e-6 and moved.relative < 1e-6, (layout, by)
    for by in range(1, ROWS - 1):
        assert shift(learned(), by).relative > 0.1 and shift(SHUFFLED, by).relative > 0.1, by
    # no shift changes nothing, and padding is left out
    assert shift(learned(), 0).predicted == pytest.approx(learned(), abs=1e-6)
    padded = paper()
    padded[-3:] = 0
    assert shift(padded, 4).largest < 1e-6
    # an odd width leaves one dimension without a partner
    moved = shift(paper(width=7), 2)
    assert np.isnan(moved.predicted[:, 6]).all() and np.isfinite(moved.predicted[:, :6]).all()
    assert moved.largest < 1e-6
    for by in (-1, ROWS, 99):
        said = f"shift by {by} leads out.*from 0 to {ROWS - 1}".replace("-1 leads", "−1 leads")
        refuses(said, shift, paper(), by)


def test_no_other_turn_fits_better():
    table = learned()
    moved = shift(table, 3)
    for pair in (0, 4):
        a, b = moved.first[pair], moved.second[pair]
        own = ((moved.predicted - moved.actual)[:, [a, b]] ** 2).sum()
        here, there = table[:-3, a] + 1j * table[:-3, b], table[3:, a] + 1j * table[3:, b]
        others = np.exp(1j * np.linspace(0, 2 * np.pi, 3600))
        misses = (np.abs(here[:, None] * others - there[:, None]) ** 2).sum(axis=0)
        assert own == pytest.approx(misses.min(), rel=1e-4) and own <= misses.min() * (1 + 1e-6)


def test_errors_of_all_shifts_and_similarity_by_distance():
    rates = np.array([1.0, 0.31, 0.07, 0.011])  # radians a position, one a pair
    angles = np.arange(23)[:, None] * rates
    sines = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(23, -1)
    assert shift_errors(sines).shape == (11,) and shift_errors(sines).max() < 1e-9
    assert shift_errors(np.random.default_rng(2).standard_normal((23, 8))).min() > 0.2
    wanted = [np.cos(rates * by).mean() for by in range(12)]
    assert similarity_by_distance(sines) == pytest.approx(wanted, abs=1e-12)


# ---- traces ------------------------------------------------------------------------------------

NAMES = ("The", "cat", "</s>")
SOURCE = Tokens((), NAMES, NAMES, (0, 1, 2), (False, False, True))
TARGET = Tokens((), ("<s>", "Die"), ("<s>", "Die"), (0, 1), (True, False))


def a_trace(**positions: np.ndarray) -> Trace:
    named = {name.replace("_", "."): array for name, array in positions.items()}
    return replace(make_trace(), source=SOURCE, target=TARGET, positions=named)


def test_positions_are_named_after_the_words_that_stand_there():
    one = a_trace(table_encoder=paper(3), table_decoder=paper(2))
    assert position_names(one, "table.encoder", 3) == ("0 The", "1 cat", "2 </s>")
    assert position_names(one, "table.decoder", 2) == ("0 <s>", "1 Die")
    assert position_names(one, "table.encoder", 2) == ("0", "1"), "patches have no words"
    assert position_names(replace(one, target=None), "rotary.decoder", 3)[1] == "1 cat"
    assert position_label("table.encoder") == "The encoder's table"
    assert position_label("rotary.decoder") == "The decoder's turn of queries and keys"
    one = a_trace(bias_cross_1=np.zeros((2, 2, 3)))
    refuses(r"The bias of cross L1 is added to the scores", position_rows, one, "bias.cross.1")
    assert bias_names(one, "bias.cross.1") == (("0 <s>", "1 Die"), ("0 The", "1 cat", "2 </s>"))
    assert pair_count(one, "bias.cross.1") == 0
    for run, name, said in (
        (a_trace(), "table.encoder", "it has none that could be found"),
        (
            a_trace(table_encoder=paper(3)),
            "table.decoder",
            r"no positions 'table.decoder'; it has table.encoder\.",
        ),
    ):
        refuses(said, position_rows, run, name, error=LookupError)


def test_angles_have_the_wavelengths_of_their_frequencies():
    frequency = 10000.0 ** (-np.arange(0, 14, 2) / 14)
    angles = (np.arange(ROWS)[:, None] * frequency).astype(np.float32)
    for written, given_angles in {
        "once": angles,
        "halves": np.concatenate([angles, angles], axis=1),
        "neighbours": np.repeat(angles, 2, axis=1),
    }.items():
        one = a_trace(rotary_decoder=given_angles)
        rows = position_rows(one, "rotary.decoder")
        assert rows.shape == (ROWS, 14) and pair_count(one, "rotary.decoder") == 7, written
        assert lengths(rows) == pytest.approx(2 * np.pi / frequency, rel=1e-6), written
        still = position_rows(a_trace(rotary_decoder=0 * given_angles), "rotary.decoder")
        refuses("nothing turns", waves, still)
    assert column_names("rotary.decoder", 14)[6:8] == ("cosine 6", "sine 0")


@settings(max_examples=20)
@given(st.integers(2, 20), st.integers(0, 99))
def test_similarity_of_angles_is_the_mean_cosine_of_their_difference(rows, seed):
    angles = np.random.default_rng(seed).normal(size=(rows, 5))
    assume(not np.array_equal(angles[:, 0], angles[:, 1]))
    alike = similarity(position_rows(a_trace(rotary_encoder=angles), "rotary.encoder"))
    expected = np.cos(angles[:, None] - angles[None]).mean(axis=2)
    assert alike == pytest.approx(expected, abs=1e-12)


def test_what_a_model_adds_or_turns_is_measured_and_what_it_learned_is_refused():
    def seen(**words) -> Trace:
        return trace(make_model(**words), [5, 6, 7, 8, 3], target=[2, 9, 11], check=False)

    expected = 2 * np.pi * 10000 ** (2 * np.arange(11) / 22)
    for kind, layout in {"sinusoidal": "neighbours", "sinusoidal_halves": "halves"}.items():
        run = seen(positions=kind)
        for name, rows in (("table.encoder", 5), ("table.decoder", 3)):
            found = position_rows(run, name)
            assert found == pytest.approx(paper(rows, 22, layout), abs=1e-6), (kind, name)
            assert lengths(found) == pytest.approx(expected, rel=1e-5), (kind, name)
    turned = position_rows(seen(positions="rotary", d_k=14), "rotary.encoder")
    expected = 2 * np.pi * 10000 ** (2 * np.arange(7) / 14)
    assert lengths(turned) == pytest.approx(expected, rel=1e-5)
    own = position_rows(seen(positions="learned"), "table.encoder")
    refuses("do not turn evenly", waves, own)
