"""Positions: waves measured from tables against the paper's formula, and by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Report, Tokens
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

ROWS, WIDTH = 17, 22
#: Four positions, a quarter of a turn each.
QUARTERS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])


def paper(rows: int = ROWS, width: int = WIDTH, layout: str = "neighbours") -> np.ndarray:
    """The table of Vaswani et al. 2017, section 3.5, cell by cell, float32."""
    table = np.zeros((rows, width))
    half = (width + 1) // 2
    for position in range(rows):
        for column in range(width):
            pair = column // 2 if layout == "neighbours" else column % half
            cosine = column % 2 if layout == "neighbours" else column // half
            angle = position / 10000 ** (2 * pair / width)
            table[position, column] = math.cos(angle) if cosine else math.sin(angle)
    return table.astype(np.float32)


def learned(rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(rows, width)).astype(np.float32)


def lengths(table: np.ndarray) -> np.ndarray:
    return np.array([wave.wavelength for wave in waves(table)])


# ---- waves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["neighbours", "halves"])
@pytest.mark.parametrize(("rows", "width"), [(2, 22), (17, 22), (17, 256), (128, 7), (300, 64)])
def test_the_papers_table_has_the_papers_wavelengths(layout: str, rows: int, width: int) -> None:
    found = waves(paper(rows, width, layout))
    pairs = np.arange(width // 2)
    expected = 2 * np.pi * 10000 ** (2 * pairs / width)
    assert [wave.wavelength for wave in found] == pytest.approx(expected, rel=1e-6)
    assert max(wave.error for wave in found) < 1e-6
    first = 2 * pairs if layout == "neighbours" else pairs
    second = first + 1 if layout == "neighbours" else pairs + (width + 1) // 2
    assert [wave.pair for wave in found] == pairs.tolist()
    assert [wave.first for wave in found] == first.tolist()
    assert [wave.second for wave in found] == second.tolist()


def test_quarter_turns_by_hand() -> None:
    (wave,) = waves(QUARTERS)
    assert wave.turn == pytest.approx(np.pi / 2)
    assert wave.frequency == pytest.approx(np.pi / 2)
    assert wave.wavelength == pytest.approx(4)
    assert wave.start == pytest.approx(1)
    assert wave.error == pytest.approx(0, abs=1e-12)
    assert wave.at(np.array([0, 0.5, 1, 6])) == pytest.approx(
        np.array([[1, 0], [0.5**0.5, 0.5**0.5], [0, 1], [-1, 0]]), abs=1e-9
    )
    (back,) = waves(QUARTERS[:, ::-1])
    assert back.turn == pytest.approx(-np.pi / 2) and back.wavelength == pytest.approx(4)


@given(
    st.floats(0.001, 3.1),
    st.floats(-3.1, 3.1),
    st.floats(0.01, 100),
    st.integers(3, 40),
    st.booleans(),
)
def test_any_even_turn_is_measured(
    frequency: float, phase: float, size: float, rows: int, back: bool
) -> None:
    angle = phase + np.arange(rows) * (-frequency if back else frequency)
    (wave,) = waves(size * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert wave.frequency == pytest.approx(frequency, abs=1e-9)
    assert (wave.turn < 0) == back
    assert abs(wave.start) == pytest.approx(size)
    assert wave.error == pytest.approx(0, abs=1e-9)


def test_the_wave_passes_through_the_table() -> None:
    table = paper()
    for wave in waves(table):
        drawn = wave.at(np.arange(ROWS))
        assert drawn == pytest.approx(table[:, [wave.first, wave.second]], abs=1e-6)


@pytest.mark.parametrize("by", [0.5, 2.0, -1.0])
def test_a_scaled_table_has_the_same_waves(by: float) -> None:
    assert lengths(by * paper()) == pytest.approx(lengths(paper()))


def test_positions_may_begin_late_and_padding_may_have_none() -> None:
    assert lengths(paper(30)[2:]) == pytest.approx(lengths(paper()), rel=1e-5)
    padded = paper()
    padded[-3:] = 0
    padded[:2] = 0
    found = waves(padded)
    expected = [wave.wavelength for wave in waves(paper())]
    assert [wave.wavelength for wave in found] == pytest.approx(expected, rel=1e-5)
    assert found[0].at(np.arange(5))[2:] == pytest.approx(padded[2:5, :2], abs=1e-6)


def test_numbers_of_half_precision_are_waves_still() -> None:
    assert lengths(paper().astype(np.float16)) == pytest.approx(lengths(paper()), rel=2e-3)


SHUFFLED = paper()[np.random.default_rng(1).permutation(ROWS)]
DRIFT = learned().cumsum(axis=0) / 100 + 5  # hardly moves, so it lies close to any circle


@pytest.mark.parametrize(
    "table", [learned(), SHUFFLED, DRIFT, learned(2)], ids=["learned", "shuffled", "drift", "two"]
)
def test_other_tables_have_no_wavelengths(table: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"do not turn evenly.*Learned tables.*shuffled"):
        waves(table)
    assert len(measured(table)) == WIDTH // 2


def test_what_does_not_turn_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="zero: nothing is added, so nothing turns"):
        waves(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="at least two positions; this table has 1"):
        waves(paper(rows=2)[1:])
    with pytest.raises(ValueError, match="the same row: nothing turns"):
        waves(np.ones((5, 4)))
    with pytest.raises(ValueError, match=r"table \[position, dimension\].*shape \(3,\)"):
        waves(np.zeros(3))


def test_a_pair_may_stand_still_beside_others() -> None:
    still = np.concatenate([QUARTERS, np.tile([[0.6, 0.8]], (4, 1))], axis=1)
    found = waves(still)
    assert found[1].wavelength == math.inf and found[1].frequency == 0
    assert found[0].wavelength == pytest.approx(4)


def test_a_random_table_is_far_from_a_turn() -> None:
    errors = [wave.error for wave in measured(learned())]
    assert np.median(errors) > 1
    assert measured(learned())[3].second == 7  # where nothing fits, neighbours


# ---- similarity --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["neighbours", "halves"])
def test_similarity_of_the_papers_table_knows_only_the_distance(layout: str) -> None:
    alike = similarity(paper(layout=layout))
    frequency = 10000.0 ** (-2 * np.arange(WIDTH // 2) / WIDTH)
    for p in range(ROWS):
        for q in range(ROWS):
            expected = sum(math.cos(w * (p - q)) for w in frequency) / len(frequency)
            assert alike[p, q] == pytest.approx(expected, abs=1e-6)


def test_similarity_by_hand() -> None:
    table = np.array([[3.0, 4.0], [0.0, 0.0], [4.0, 3.0], [-6.0, -8.0]])
    expected = [[1, 0, 0.96, -1], [0, 0, 0, 0], [0.96, 0, 1, -0.96], [-1, 0, -0.96, 1]]
    assert similarity(table) == pytest.approx(np.array(expected))


@given(st.integers(1, 12), st.integers(2, 9), st.integers(0, 999))
def test_similarity_is_symmetric_and_knows_no_scale(rows: int, width: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(rows, width))
    alike = similarity(table)
    assert np.array_equal(alike, alike.T) or np.allclose(alike, alike.T)
    assert np.diagonal(alike) == pytest.approx(np.ones(rows))
    assert np.abs(alike).max() <= 1
    assert similarity(0.5 * table) == pytest.approx(alike)


# ---- shift -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["neighbours", "halves"])
@pytest.mark.parametrize("by", range(ROWS))
def test_one_turn_moves_every_row_of_the_papers_table(layout: str, by: int) -> None:
    table = paper(layout=layout)
    moved = shift(table, by)
    assert moved.predicted.shape == (ROWS - by, WIDTH)
    assert np.array_equal(moved.actual, table[by:])
    assert moved.predicted == pytest.approx(table[by:], abs=1e-6)
    assert moved.largest < 1e-6 and moved.relative < 1e-6


def test_a_quarter_turn_by_hand() -> None:
    moved = shift(2 * QUARTERS, 1)
    assert moved.predicted == pytest.approx(2 * QUARTERS[1:], abs=1e-12)
    # An arrow out of line: (1, 0) to (0, 1) asks for a quarter of a turn, (0, 1) to (0, 1) for
    # none; the sum of the products, i + 1, for an eighth. Each is missed by an eighth of a turn:
    # cos 45° from 0, and 1 - cos 45° from 1.
    bent = shift(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1)
    half = 0.5**0.5
    assert bent.predicted == pytest.approx(np.array([[half, half], [-half, half]]))
    assert bent.largest == pytest.approx(half) and bent.relative == pytest.approx(half)


def test_no_other_turn_fits_better() -> None:
    table = learned()
    moved = shift(table, 3)
    for pair in (0, 4):
        a, b = moved.first[pair], moved.second[pair]
        own = ((moved.predicted - moved.actual)[:, [a, b]] ** 2).sum()
        here, there = table[:-3, a] + 1j * table[:-3, b], table[3:, a] + 1j * table[3:, b]
        others = np.exp(1j * np.linspace(0, 2 * np.pi, 3600))
        misses = (np.abs(here[:, None] * others - there[:, None]) ** 2).sum(axis=0)
        assert own == pytest.approx(misses.min(), rel=1e-4) and own <= misses.min() * (1 + 1e-6)


@pytest.mark.parametrize("by", range(1, ROWS - 1))
def test_a_learned_table_is_not_moved_by_a_turn(by: int) -> None:
    assert shift(learned(), by).relative > 0.1
    assert shift(SHUFFLED, by).relative > 0.1


def test_no_shift_changes_nothing_and_padding_is_left_out() -> None:
    still = shift(learned(), 0)
    assert still.predicted == pytest.approx(learned(), abs=1e-6)
    padded = paper()
    padded[-3:] = 0
    assert shift(padded, 4).largest < 1e-6


def test_an_odd_width_leaves_one_dimension_without_a_partner() -> None:
    moved = shift(paper(width=7), 2)
    assert np.isnan(moved.predicted[:, 6]).all() and np.isfinite(moved.predicted[:, :6]).all()
    assert moved.largest < 1e-6


@pytest.mark.parametrize("by", [-1, ROWS, 99])
def test_a_shift_out_of_the_sentence_is_refused(by: int) -> None:
    said = str(by).replace("-", "−")
    with pytest.raises(ValueError, match=f"shift by {said} leads out.*from 0 to {ROWS - 1}"):
        shift(paper(), by)


# ---- traces ------------------------------------------------------------------------------------

NAMES = ("The", "cat", "</s>")
SOURCE = Tokens((), NAMES, NAMES, (0, 1, 2), (False, False, True))
TARGET = Tokens((), ("<s>", "Die"), ("<s>", "Die"), (0, 1), (True, False))


def a_trace(**positions: np.ndarray) -> Trace:
    nothing = pd.DataFrame()
    named = {name.replace("_", "."): array for name, array in positions.items()}
    return Trace(
        source=SOURCE,
        target=TARGET,
        produced=None,
        heads=nothing,
        thumbnails={},
        attentions=(),
        norms=nothing,
        gains={},
        residuals=nothing,
        positions=named,
        logits=None,
        report=Report((), 0.0, None, {}),
        manifest={},
    )


def test_a_name_that_is_not_there_is_told_what_is() -> None:
    with pytest.raises(LookupError, match=r"no positions 'table.decoder'; it has table.encoder\."):
        position_rows(a_trace(table_encoder=paper(3)), "table.decoder")
    with pytest.raises(LookupError, match="it has none that could be found"):
        position_rows(a_trace(), "table.encoder")


def test_a_bias_has_no_rows() -> None:
    one = a_trace(bias_cross_1=np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match=r"The bias of cross L1 is added to the scores"):
        position_rows(one, "bias.cross.1")
    assert bias_names(one, "bias.cross.1") == (("0 <s>", "1 Die"), ("0 The", "1 cat", "2 </s>"))
    assert pair_count(one, "bias.cross.1") == 0


def test_positions_are_named_after_the_words_that_stand_there() -> None:
    one = a_trace(table_encoder=paper(3), table_decoder=paper(2))
    assert position_names(one, "table.encoder", 3) == ("0 The", "1 cat", "2 </s>")
    assert position_names(one, "table.decoder", 2) == ("0 <s>", "1 Die")
    assert position_names(one, "table.encoder", 2) == ("0", "1"), "patches have no words"
    alone = dataclasses.replace(one, target=None)
    assert position_names(alone, "rotary.decoder", 3)[1] == "1 cat"
    assert position_label("table.encoder") == "The encoder's table"
    assert position_label("rotary.decoder") == "The decoder's turn of queries and keys"


@pytest.mark.parametrize("written", ["once", "halves", "neighbours"])
def test_angles_have_the_wavelengths_of_their_frequencies(written: str) -> None:
    frequency = 10000.0 ** (-np.arange(0, 14, 2) / 14)
    angles = (np.arange(ROWS)[:, None] * frequency).astype(np.float32)
    if written == "halves":
        angles = np.concatenate([angles, angles], axis=1)
    elif written == "neighbours":
        angles = np.repeat(angles, 2, axis=1)
    one = a_trace(rotary_decoder=angles)
    rows = position_rows(one, "rotary.decoder")
    assert rows.shape == (ROWS, 14) and pair_count(one, "rotary.decoder") == 7
    assert lengths(rows) == pytest.approx(2 * np.pi / frequency, rel=1e-6)
    assert column_names("rotary.decoder", 14)[6:8] == ("cosine 6", "sine 0")
    with pytest.raises(ValueError, match="nothing turns"):
        waves(position_rows(a_trace(rotary_decoder=0 * angles), "rotary.decoder"))


@settings(max_examples=20)
@given(st.integers(2, 20), st.integers(0, 99))
def test_similarity_of_angles_is_the_mean_cosine_of_their_difference(rows: int, seed: int) -> None:
    angles = np.random.default_rng(seed).normal(size=(rows, 5))
    assume(not np.array_equal(angles[:, 0], angles[:, 1]))
    alike = similarity(position_rows(a_trace(rotary_encoder=angles), "rotary.encoder"))
    expected = np.cos(angles[:, None] - angles[None]).mean(axis=2)
    assert alike == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal_halves"])
def test_what_a_model_adds_is_measured(build_model: Callable[..., Model], kind: str) -> None:
    seen = trace(build_model(positions=kind), [5, 6, 7, 8, 3], target=[2, 9, 11])
    expected = 2 * np.pi * 10000 ** (2 * np.arange(11) / 22)
    for name, rows in (("table.encoder", 5), ("table.decoder", 3)):
        assert position_rows(seen, name) == pytest.approx(
            paper(rows, 22, "neighbours" if kind == "sinusoidal" else "halves"), abs=1e-6
        )
        assert lengths(position_rows(seen, name)) == pytest.approx(expected, rel=1e-5)


def test_what_a_model_turns_is_measured(build_model: Callable[..., Model]) -> None:
    seen = trace(build_model(positions="rotary", d_k=14), [5, 6, 7, 8, 3], target=[2, 9, 11])
    expected = 2 * np.pi * 10000 ** (2 * np.arange(7) / 14)
    assert lengths(position_rows(seen, "rotary.encoder")) == pytest.approx(expected, rel=1e-5)


def test_what_a_model_learned_is_refused(build_model: Callable[..., Model]) -> None:
    seen = trace(build_model(positions="learned"), [5, 6, 7, 8, 3], target=[2, 9, 11])
    with pytest.raises(ValueError, match="do not turn evenly"):
        waves(position_rows(seen, "table.encoder"))
