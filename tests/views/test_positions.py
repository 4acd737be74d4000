"""The pictures of positions: their numbers, their words, what a click in them means."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer_viz.core.interventions import (
    Intervention,
    ScalePositions,
    ShufflePositions,
    Temperature,
)
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.metrics.positions.positions import similarity, waves
from transformer_viz.views.charts.head_map import CLICKS
from transformer_viz.views.charts.position_shift import position_shift
from transformer_viz.views.charts.position_similarity import position_similarity
from transformer_viz.views.charts.position_table import position_table
from transformer_viz.views.charts.position_waves import position_waves
from transformer_viz.views.charts.wavelengths import wavelengths

NAME = "table.encoder"
WORDS = ("0 the", "1 c", "2 at", "3 the (2)", "4 &lt;/s&gt;")
HALVES = np.arange(5)[:, None] * np.array([1.0, 0.1, 0.01])  # rotary angles of three pairs
EVERY: tuple[tuple[Callable[..., go.Figure], tuple[Any, ...]], ...] = (
    (position_table, (NAME,)),
    (wavelengths, (NAME,)),
    (position_waves, (NAME, 1)),
    (position_similarity, (NAME,)),
    (position_shift, (NAME, 2, 1)),
)


def with_positions(clean: Trace, **positions: np.ndarray) -> Trace:
    named = {name.replace("_", "."): array for name, array in positions.items()}
    return dataclasses.replace(clean, positions=named)


def long_trace(clean: Trace, rows: int = 120, width: int = 64) -> Trace:
    """Many words, whose names must be thinned, and a table with more cells than clicks."""
    names = tuple(f"w{place}" for place in range(rows))
    tokens = Tokens((), names, names, tuple(range(rows)), (False,) * rows)
    angle = np.arange(rows)[:, None] * 10000.0 ** (-np.arange(width // 2) / (width // 2))
    table = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(rows, width)
    return dataclasses.replace(clean, source=tokens, positions={NAME: table.astype(np.float32)})


def heatmap(picture: go.Figure) -> go.Heatmap:
    return next(trace for trace in picture.data if isinstance(trace, go.Heatmap))


def named(picture: go.Figure, name: str) -> go.Scatter:
    return next(trace for trace in picture.data if trace.name == name)


def caption(picture: go.Figure) -> str:
    return str(picture.layout.meta["caption"])


def data(trace: go.Scatter) -> np.ndarray:
    return np.asarray(trace.customdata)


@pytest.mark.parametrize(("view", "words"), EVERY, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("dark", [False, True])
def test_each_picture_draws_in_both_themes(
    view: Callable[..., go.Figure], words: tuple[Any, ...], dark: bool, clean: Trace
) -> None:
    picture = view(clean, *words, dark=dark)
    text = picture.to_json().lower()
    assert (DARK if dark else LIGHT).ink.lower() in text
    assert (LIGHT if dark else DARK).ink.lower() not in text
    assert caption(picture)
    assert all("text" not in trace for trace in json.loads(picture.to_json())["data"])


@pytest.mark.parametrize(("view", "words"), EVERY, ids=lambda v: getattr(v, "__name__", ""))
def test_each_picture_names_what_there_is(
    view: Callable[..., go.Figure], words: tuple[Any, ...], clean: Trace
) -> None:
    with pytest.raises(LookupError, match=r"it has table\.decoder, table\.encoder"):
        view(clean, "rotary.encoder", *words[1:])


@pytest.mark.parametrize(("view", "words"), EVERY[1:], ids=lambda v: getattr(v, "__name__", ""))
def test_a_bias_has_only_its_table(
    view: Callable[..., go.Figure], words: tuple[Any, ...], clean: Trace
) -> None:
    one = with_positions(clean, bias_encoder_0=np.zeros((3, 5, 5)))
    with pytest.raises(ValueError, match="no wavelengths, no similarity and no shift"):
        view(one, "bias.encoder.0", *words[1:])


# ---- the table ---------------------------------------------------------------------------------


def test_the_table_is_the_one_that_is_added(clean: Trace) -> None:
    picture = position_table(clean, NAME)
    drawn = heatmap(picture)
    assert np.array_equal(drawn.z, clean.positions[NAME])
    assert drawn.zmin == -drawn.zmax == pytest.approx(-1)
    assert picture.layout.yaxis.ticktext == WORDS
    assert picture.layout.xaxis.tickvals == (0, 2, 4)
    assert "colours from −1 to 1" in caption(picture)


def test_a_click_in_the_table_gives_position_and_pair(clean: Trace) -> None:
    marks = named(position_table(clean, NAME), "cells")
    found, table = data(marks), clean.positions[NAME]
    assert {tuple(row[:2]) for row in found} == {(t, p) for t in range(5) for p in range(3)}
    for x, y, (token, pair, first, second) in zip(marks.x, marks.y, found, strict=True):
        assert (x, y) == (2 * pair + 0.5, token)
        assert [first, second] == table[int(token), [2 * int(pair), 2 * int(pair) + 1]].tolist()
    assert position_table(clean, NAME).layout.xaxis2.ticktext[1] == "dimensions 2 and 3"


def test_row_and_pair_are_outlined(clean: Trace) -> None:
    frames = position_table(clean, NAME, token=3, pair=2).layout.shapes
    assert [(f.x0, f.x1, f.y0, f.y1) for f in frames] == [
        (-0.5, 5.5, 2.5, 3.5),
        (3.5, 5.5, -0.5, 4.5),
    ]
    assert not position_table(clean, NAME, token=9, pair=3).layout.shapes


def test_angles_are_drawn_as_cosines_and_sines(clean: Trace) -> None:
    one = with_positions(clean, rotary_encoder=HALVES)
    picture = position_table(one, "rotary.encoder", pair=1)
    assert np.allclose(heatmap(picture).z[:, :3], np.cos(HALVES))
    assert np.allclose(heatmap(picture).z[:, 3:], np.sin(HALVES))
    assert [(f.x0, f.x1) for f in picture.layout.shapes] == [(0.5, 1.5), (3.5, 4.5)]
    marks = named(picture, "cells")
    assert {tuple(row[:2]) for row in data(marks)} == {(t, p) for t in range(5) for p in range(3)}
    assert len(data(marks)) == 30, "a pair is hit on its cosine and on its sine"
    assert "nothing is added" in caption(picture)


def test_a_bias_is_drawn_for_queries_and_keys(clean: Trace) -> None:
    bias = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5) - 30
    picture = position_table(with_positions(clean, bias_cross_1=bias), "bias.cross.1", head=2)
    assert np.array_equal(heatmap(picture).z, bias[2])
    assert picture.layout.yaxis.ticktext == ("0 &lt;s&gt;", "1 die", "2 Ka", "3 tze")
    assert picture.layout.xaxis.ticktext == WORDS
    marks = named(picture, "cells")
    assert np.array_equal(data(marks)[:, :2], np.stack([marks.y, marks.x], axis=1))
    with pytest.raises(LookupError, match="cross L1 has heads 0 to 2; got 3"):
        position_table(with_positions(clean, bias_cross_1=bias), "bias.cross.1", head=3)


def test_the_change_of_the_table(clean: Trace) -> None:
    table = clean.positions[NAME]
    half = with_positions(clean, table_encoder=0.5 * table)
    picture = position_table(half, NAME, before=clean)
    assert np.allclose(heatmap(picture).z, -0.5 * table)
    assert heatmap(picture).zmax == pytest.approx(0.5)
    assert "change since the clean run" in caption(picture)
    assert "all zero" in caption(position_table(clean, NAME, before=clean))


def test_padding_has_no_change(clean: Trace) -> None:
    short = with_positions(clean, table_encoder=clean.positions[NAME][:3])
    picture = position_table(clean, NAME, before=short)
    drawn = heatmap(picture).z
    assert np.isnan(drawn[3:]).all() and not drawn[:3].any()
    values, fresh = (trace for trace in picture.data if trace.name == "cells")
    assert set(values.y) == {0, 1, 2} and set(fresh.y) == {3, 4}
    for marks in (values, fresh):  # a click anywhere gives numbers, and the pointer hears no "nan"
        assert np.isfinite(data(marks)).all()
        places = np.stack([marks.y, (np.asarray(marks.x) - 0.5) / 2], axis=1)
        assert np.array_equal(data(marks)[:, :2], places)
    assert "customdata" in values.hovertemplate and "customdata" not in fresh.hovertemplate
    assert "was not there before" in fresh.hovertemplate
    with pytest.raises(ValueError, match=r"\(5, 6\) and \(3, 6\) numbers: no difference"):
        position_table(short, NAME, before=clean)


def test_a_row_without_numbers_answers_without_them(clean: Trace) -> None:
    table = clean.positions[NAME].copy()
    table[2, 4] = np.nan
    lost = with_positions(clean, table_encoder=table)
    for before in (None, clean):
        marks = [t for t in position_table(lost, NAME, before=before).data if t.name == "cells"]
        assert all(np.isfinite(data(mark)).all() for mark in marks)
        (empty,) = (mark for mark in marks if "no number" in mark.hovertemplate)
        assert data(empty)[:, :2].tolist() == [[2, 2]]
    assert np.isfinite(data(named(position_similarity(lost, NAME), "cells"))).all()


def test_dropped_positions_are_an_empty_table(clean: Trace) -> None:
    empty = with_positions(clean, table_encoder=np.zeros((5, 6), np.float32))
    assert not heatmap(position_table(empty, NAME, token=1, pair=1)).z.any()
    with pytest.raises(ValueError, match="nothing is added, so no place differs"):
        position_similarity(empty, NAME)
    with pytest.raises(ValueError, match="nothing is added, so nothing turns"):
        wavelengths(empty, NAME)
    with pytest.raises(ValueError, match="nothing is added, so nothing turns"):
        position_waves(empty, NAME, 0)


def test_a_large_table_stays_light(clean: Trace) -> None:
    long = long_trace(clean)
    picture = position_table(long, NAME)
    marks = data(named(picture, "cells"))
    assert len(marks) == 120 * 32 < CLICKS
    wide = position_table(long_trace(clean, width=512), NAME)
    few = data(named(wide, "cells"))
    assert len(few) <= CLICKS and set(few[:, 0]) == set(range(120)), "every row can be clicked"
    assert few[:, 1].min() >= 0 and few[:, 1].max() < 256
    assert len(picture.layout.yaxis.tickvals) == 30 and picture.layout.height <= 640
    assert picture.layout.yaxis2.ticktext[119] == "119 w119"


# ---- which run is shown ------------------------------------------------------------------------

MEASURED = EVERY[1:]


@pytest.mark.parametrize(("view", "words"), MEASURED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_picture_of_changed_positions_says_so(
    view: Callable[..., go.Figure], words: tuple[Any, ...], clean: Trace
) -> None:
    """In a comparison only the table shows the difference; the others name the run they show."""
    assert "changed run" not in caption(view(clean, *words))
    for edit, named_here in (
        (ScalePositions(value=0.5), True),
        (ShufflePositions(seed=1, stack="encoder"), True),
        (ScalePositions(value=0.5, stack="decoder"), False),
        (Temperature(value=2.0), False),
    ):
        run = dataclasses.replace(clean, intervention=Intervention((edit,)))
        assert caption(view(run, *words)).endswith(" · changed run") == named_here


# ---- waves -------------------------------------------------------------------------------------


def test_wavelengths_are_those_measured(clean: Trace) -> None:
    picture = wavelengths(clean, NAME, pair=1)
    points = named(picture, "pairs")
    expected = [2 * np.pi * 10000 ** (pair / 3) for pair in range(3)]
    assert points.y == pytest.approx(expected, rel=1e-5)
    assert data(points).tolist() == [[0], [1], [2]]
    assert list(points.marker.size) == [7, 14, 7]
    assert picture.layout.yaxis.type == "log"


def test_the_ends_of_the_paper_are_lines_with_names(clean: Trace) -> None:
    picture = wavelengths(clean, NAME)
    heights = [line.y0 for line in picture.layout.shapes]
    assert heights == pytest.approx([2 * np.pi, 5, 20000 * np.pi])
    notes = {note.text: note.y for note in picture.layout.annotations}
    assert notes["fastest: 2π"] == pytest.approx(np.log10(2 * np.pi))
    assert notes["the paper's slowest: 10000 · 2π"] == pytest.approx(np.log10(20000 * np.pi))
    assert notes["this sentence: 5 positions"] == pytest.approx(np.log10(5))


def test_pairs_that_stand_still_are_counted(clean: Trace) -> None:
    one = with_positions(clean, rotary_encoder=HALVES * [1, 1, 0])
    picture = wavelengths(one, "rotary.encoder")
    assert data(named(picture, "pairs")).tolist() == [[0], [1]]
    assert "1 pair stands still" in caption(picture)


def test_a_learned_table_is_refused_in_a_sentence(clean: Trace) -> None:
    random = np.random.default_rng(2).normal(size=(5, 6))
    with pytest.raises(ValueError, match="Learned tables are like this"):
        wavelengths(with_positions(clean, table_encoder=random), NAME)


def test_both_dimensions_of_a_pair_over_the_words(clean: Trace) -> None:
    picture = position_waves(clean, NAME, 1)
    table, wave = clean.positions[NAME], waves(clean.positions[NAME])[1]
    for column in (2, 3):
        points = named(picture, f"dimension {column}")
        assert np.array_equal(points.y, table[:, column]) and points.mode == "markers"
        assert data(points).tolist() == [[0], [1], [2], [3], [4]]
        assert tuple(points.hovertext) == WORDS
        assert points.unselected.marker.opacity == 1  # a click fades nothing
    assert picture.layout.xaxis.ticktext == WORDS
    curves = [trace for trace in picture.data if trace.name == "wave"]
    assert np.allclose(np.stack([c.y for c in curves], 1), wave.at(np.asarray(curves[0].x)))
    assert np.allclose([c.y[::16] for c in curves], table[:, 2:4].T, atol=1e-6)
    assert "one turn takes 135.4 positions, so this sentence sees 0.03 of a turn" in caption(
        picture
    )


def test_points_of_other_tables_are_joined_by_straight_lines(clean: Trace) -> None:
    random = with_positions(clean, table_encoder=np.random.default_rng(2).normal(size=(5, 6)))
    picture = position_waves(random, NAME, 2)
    assert named(picture, "dimension 4").mode == "lines+markers"
    assert not [trace for trace in picture.data if trace.name == "wave"]
    assert "does not turn evenly" in caption(picture)
    with pytest.raises(LookupError, match="pairs 0 to 2; got 3"):
        position_waves(clean, NAME, 3)


def test_a_long_curve_stays_light(clean: Trace) -> None:
    picture = position_waves(long_trace(clean), NAME, 0)
    assert len(picture.layout.xaxis.tickvals) == 30
    assert len(picture.to_json()) < 150_000


# ---- similarity and shift ----------------------------------------------------------------------


def test_similarity_is_drawn_from_minus_one_to_one(clean: Trace) -> None:
    picture = position_similarity(clean, NAME, token=2)
    drawn = heatmap(picture)
    assert np.allclose(drawn.z, similarity(clean.positions[NAME]))
    assert (drawn.zmin, drawn.zmax) == (-1, 1)
    assert picture.layout.xaxis.ticktext == picture.layout.yaxis.ticktext == WORDS
    (frame,) = picture.layout.shapes
    assert (frame.y0, frame.y1) == (1.5, 2.5)
    marks = named(picture, "cells")
    assert all(row[0] == y for y, row in zip(marks.y, data(marks), strict=True))
    assert not [t for t in position_similarity(long_trace(clean), NAME).data if t.name == "cells"]


def test_a_row_turned_lies_on_the_row_further_on(clean: Trace) -> None:
    picture = position_shift(clean, NAME, 2, 1)
    table = clean.positions[NAME]
    lines = [named(picture, f"{side} of the pair") for side in ("first", "second")]
    points = [trace for trace in picture.data if trace.name == "turned"]
    for line, point, column in zip(lines, points, (0, 1), strict=True):
        assert np.array_equal(line.y, table[3, column::2])
        assert np.allclose(point.y, table[3, column::2], atol=1e-6)
        assert data(point)[:, :2].tolist() == [[p, 2 * p + column] for p in range(3)]
        assert data(point)[:, 2].tolist() == table[3, column::2].tolist()
        assert point.unselected.marker.opacity == 1
    said = caption(picture)
    assert "“1 c” moved by 2 to “3 the (2)”" in said and "over all 3 positions" in said
    assert "the same turn fits everywhere" in said


def test_a_table_without_the_property_says_by_how_much(clean: Trace) -> None:
    table = np.zeros((4, 2))
    table[:, 0] = 1, 0, 0, 0
    table[:, 1] = 0, 1, 1, 2
    picture = position_shift(with_positions(clean, table_decoder=table), "table.decoder", 1, 0)
    # Turns by a quarter (weight 1), none (1) and none (2): the angle of 3 + i. The last row, of
    # length 1, should become 2: 2 - 3 / √10 is missing, which is 53% of 2.
    assert "the largest difference is 1.1, 53% of the table's largest value" in caption(picture)


def test_one_word_alone_proves_nothing(clean: Trace) -> None:
    assert "a fit proves nothing" in caption(position_shift(clean, NAME, 4, 0))


def test_a_shift_beyond_the_sentence_is_refused(clean: Trace) -> None:
    with pytest.raises(ValueError, match=r"Position 3 moved by 2 would be 5; .* 0 to 4"):
        position_shift(clean, NAME, 2, 3)
    with pytest.raises(ValueError, match="shift by 5 leads out"):
        position_shift(clean, NAME, 5, 0)
