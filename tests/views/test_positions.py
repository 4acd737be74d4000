"""Pictures of positions: their numbers, their words, what a click in them means."""

from __future__ import annotations

import dataclasses
import json

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
from transformer_viz.views.charts.labelled_heatmap import CLICKS
from transformer_viz.views.charts.position_shift import position_shift
from transformer_viz.views.charts.position_similarity import position_similarity
from transformer_viz.views.charts.position_table import position_table
from transformer_viz.views.charts.position_waves import position_waves
from transformer_viz.views.charts.wavelengths import wavelengths

NAME = "table.encoder"
WORDS = ("0 the", "1 c", "2 at", "3 the (2)", "4 &lt;/s&gt;")
HALVES = np.arange(5)[:, None] * np.array([1.0, 0.1, 0.01])  # rotary angles of three pairs
EVERY = (
    (position_table, (NAME,)),
    (wavelengths, (NAME,)),
    (position_waves, (NAME, 1)),
    (position_similarity, (NAME,)),
    (position_shift, (NAME, 2, 1)),
)
PLACES = [(token, pair) for token in range(5) for pair in range(3)]


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


def named(picture: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in picture.data if trace.name == name]


def caption(picture: go.Figure) -> str:
    return str(picture.layout.meta["caption"])


def clicks(picture: go.Figure, name: str = "cells") -> np.ndarray:
    return np.asarray(named(picture, name)[0].customdata)


def test_each_picture_draws_in_both_themes_and_names_what_there_is(clean: Trace) -> None:
    bias = with_positions(clean, bias_encoder_0=np.zeros((3, 5, 5)))
    for view, words in EVERY:
        for dark, colours, others in ((False, LIGHT, DARK), (True, DARK, LIGHT)):
            picture = view(clean, *words, dark=dark)
            text = picture.to_json().lower()
            assert colours.ink.lower() in text and others.ink.lower() not in text, view
            assert caption(picture)
            assert all("text" not in trace for trace in json.loads(picture.to_json())["data"])
        with pytest.raises(LookupError, match=r"it has table\.decoder, table\.encoder"):
            view(clean, "rotary.encoder", *words[1:])
        if view is not position_table:
            with pytest.raises(ValueError, match="no wavelengths, no similarity and no shift"):
                view(bias, "bias.encoder.0", *words[1:])


def test_a_picture_of_changed_positions_says_so(clean: Trace) -> None:
    """In a comparison only the table shows the difference; the others name the run they show."""
    for view, words in EVERY[1:]:
        assert "changed run" not in caption(view(clean, *words))
        for edit, said in (
            (ScalePositions(value=0.5), True),
            (ShufflePositions(seed=1, stack="encoder"), True),
            (ScalePositions(value=0.5, stack="decoder"), False),
            (Temperature(value=2.0), False),
        ):
            run = dataclasses.replace(clean, intervention=Intervention((edit,)))
            assert caption(view(run, *words)).endswith(" · changed run") == said, (view, edit)


# ---- the table ---------------------------------------------------------------------------------


def test_tables_angles_and_biases_are_drawn_as_they_are(clean: Trace) -> None:
    picture, table = position_table(clean, NAME), clean.positions[NAME]
    drawn = heatmap(picture)
    assert np.array_equal(drawn.z, table)
    assert drawn.zmin == -drawn.zmax == pytest.approx(-1)
    assert picture.layout.yaxis.ticktext == WORDS
    assert picture.layout.xaxis.tickvals == (0, 2, 4)
    assert picture.layout.xaxis2.ticktext[1] == "dimensions 2 and 3"
    assert "colours from −1 to 1" in caption(picture)
    (marks,) = named(picture, "cells")
    assert sorted(tuple(row[:2]) for row in clicks(picture)) == PLACES
    for x, y, (token, pair, first, second) in zip(marks.x, marks.y, marks.customdata, strict=True):
        assert (x, y) == (2 * pair + 0.5, token)
        assert [first, second] == table[int(token), [2 * int(pair), 2 * int(pair) + 1]].tolist()
    frames = position_table(clean, NAME, token=3, pair=2).layout.shapes
    places = [(f.x0, f.x1, f.y0, f.y1) for f in frames]
    assert places == [(-0.5, 5.5, 2.5, 3.5), (3.5, 5.5, -0.5, 4.5)]
    assert not position_table(clean, NAME, token=9, pair=3).layout.shapes
    # Angles are drawn as cosines and sines.
    one = with_positions(clean, rotary_encoder=HALVES)
    picture = position_table(one, "rotary.encoder", pair=1)
    assert np.allclose(heatmap(picture).z, np.hstack([np.cos(HALVES), np.sin(HALVES)]))
    assert [(f.x0, f.x1) for f in picture.layout.shapes] == [(0.5, 1.5), (3.5, 4.5)]
    found = [tuple(row[:2]) for row in clicks(picture)]
    assert sorted(found) == sorted(PLACES * 2)  # a pair is hit on its cosine and on its sine
    assert "nothing is added" in caption(picture)
    # A bias is drawn for queries and keys.
    bias = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5) - 30
    run = with_positions(clean, bias_cross_1=bias)
    picture = position_table(run, "bias.cross.1", head=2)
    assert np.array_equal(heatmap(picture).z, bias[2])
    assert picture.layout.yaxis.ticktext == ("0 &lt;s&gt;", "1 die", "2 Ka", "3 tze")
    assert picture.layout.xaxis.ticktext == WORDS
    (marks,) = named(picture, "cells")
    assert np.array_equal(clicks(picture)[:, :2], np.stack([marks.y, marks.x], axis=1))
    with pytest.raises(LookupError, match="cross L1 has heads 0 to 2; got 3"):
        position_table(run, "bias.cross.1", head=3)


def test_the_change_of_the_table(clean: Trace) -> None:
    table = clean.positions[NAME]
    half = position_table(with_positions(clean, table_encoder=0.5 * table), NAME, before=clean)
    assert np.allclose(heatmap(half).z, -0.5 * table)
    assert heatmap(half).zmax == pytest.approx(0.5)
    assert "change since the clean run" in caption(half)
    assert "all zero" in caption(position_table(clean, NAME, before=clean))
    short = with_positions(clean, table_encoder=table[:3])  # what follows is padding
    picture = position_table(clean, NAME, before=short)
    drawn = heatmap(picture).z
    assert np.isnan(drawn[3:]).all() and not drawn[:3].any()
    values, fresh = named(picture, "cells")
    assert set(values.y) == {0, 1, 2} and set(fresh.y) == {3, 4}
    for marks in (values, fresh):  # a click anywhere gives numbers, and the pointer hears no "nan"
        data = np.asarray(marks.customdata)
        assert np.isfinite(data).all()
        places = np.stack([marks.y, (np.asarray(marks.x) - 0.5) / 2], axis=1)
        assert np.array_equal(data[:, :2], places)
    assert "customdata" in values.hovertemplate and "customdata" not in fresh.hovertemplate
    assert "was not there before" in fresh.hovertemplate
    with pytest.raises(ValueError, match=r"\(5, 6\) and \(3, 6\) numbers: no difference"):
        position_table(short, NAME, before=clean)


def test_tables_without_numbers_or_of_zeros(clean: Trace) -> None:
    table = clean.positions[NAME].copy()
    table[2, 4] = np.nan
    lost = with_positions(clean, table_encoder=table)
    for before in (None, clean):
        marks = named(position_table(lost, NAME, before=before), "cells")
        assert all(np.isfinite(mark.customdata).all() for mark in marks)
        (empty,) = (mark for mark in marks if "no number" in mark.hovertemplate)
        assert np.asarray(empty.customdata)[:, :2].tolist() == [[2, 2]]
    assert np.isfinite(clicks(position_similarity(lost, NAME))).all()
    empty = with_positions(clean, table_encoder=np.zeros((5, 6), np.float32))
    assert not heatmap(position_table(empty, NAME, token=1, pair=1)).z.any()
    for view, words, said in (
        (position_similarity, (), "nothing is added, so no place differs"),
        (wavelengths, (), "nothing is added, so nothing turns"),
        (position_waves, (0,), "nothing is added, so nothing turns"),
    ):
        with pytest.raises(ValueError, match=said):
            view(empty, NAME, *words)


def test_long_texts_stay_light(clean: Trace) -> None:
    long = long_trace(clean)
    picture = position_table(long, NAME)
    assert len(clicks(picture)) == 120 * 32 < CLICKS
    few = clicks(position_table(long_trace(clean, width=512), NAME))
    assert len(few) <= CLICKS and set(few[:, 0]) == set(range(120)), "every row can be clicked"
    assert few[:, 1].min() >= 0 and few[:, 1].max() < 256
    assert len(picture.layout.yaxis.tickvals) == 30 and picture.layout.height <= 640
    assert picture.layout.yaxis2.ticktext[119] == "119 w119"
    curve = position_waves(long, NAME, 0)
    assert len(curve.layout.xaxis.tickvals) == 30 and len(curve.to_json()) < 150_000
    assert not named(position_similarity(long, NAME), "cells")


# ---- waves -------------------------------------------------------------------------------------


def test_wavelengths_are_those_measured(clean: Trace) -> None:
    picture = wavelengths(clean, NAME, pair=1)
    (points,) = named(picture, "pairs")
    assert points.y == pytest.approx([2 * np.pi * 10000 ** (p / 3) for p in range(3)], rel=1e-5)
    assert clicks(picture, "pairs").tolist() == [[0], [1], [2]]
    assert list(points.marker.size) == [7, 14, 7] and picture.layout.yaxis.type == "log"
    heights = [line.y0 for line in picture.layout.shapes]  # the ends of the paper
    assert heights == pytest.approx([2 * np.pi, 5, 20000 * np.pi])
    notes = {note.text: note.y for note in picture.layout.annotations}
    assert notes["fastest: 2π"] == pytest.approx(np.log10(2 * np.pi))
    assert notes["the paper's slowest: 10000 · 2π"] == pytest.approx(np.log10(20000 * np.pi))
    assert notes["this sentence: 5 positions"] == pytest.approx(np.log10(5))
    still = with_positions(clean, rotary_encoder=HALVES * [1, 1, 0])
    picture = wavelengths(still, "rotary.encoder")
    assert clicks(picture, "pairs").tolist() == [[0], [1]]
    assert "1 pair stands still" in caption(picture)


def test_both_dimensions_of_a_pair_over_the_words(clean: Trace) -> None:
    picture = position_waves(clean, NAME, 1)
    table, wave = clean.positions[NAME], waves(clean.positions[NAME])[1]
    for column in (2, 3):
        (points,) = named(picture, f"dimension {column}")
        assert np.array_equal(points.y, table[:, column]) and points.mode == "markers"
        assert np.asarray(points.customdata).tolist() == [[0], [1], [2], [3], [4]]
        assert tuple(points.hovertext) == WORDS
        assert points.unselected.marker.opacity == 1  # a click fades nothing
    assert picture.layout.xaxis.ticktext == WORDS
    curves = named(picture, "wave")
    assert np.allclose(np.stack([c.y for c in curves], 1), wave.at(np.asarray(curves[0].x)))
    assert np.allclose([c.y[::16] for c in curves], table[:, 2:4].T, atol=1e-6)
    turn = "one turn takes 135.4 positions, so this sentence sees 0.03 of a turn"
    assert turn in caption(picture)
    with pytest.raises(LookupError, match="pairs 0 to 2; got 3"):
        position_waves(clean, NAME, 3)
    random = with_positions(clean, table_encoder=np.random.default_rng(2).normal(size=(5, 6)))
    picture = position_waves(random, NAME, 2)  # points are joined by straight lines
    assert named(picture, "dimension 4")[0].mode == "lines+markers" and not named(picture, "wave")
    assert "does not turn evenly" in caption(picture)
    with pytest.raises(ValueError, match="Learned tables are like this"):
        wavelengths(random, NAME)


# ---- similarity and shift ----------------------------------------------------------------------


def test_similarity_and_shift(clean: Trace) -> None:
    picture = position_similarity(clean, NAME, token=2)
    drawn = heatmap(picture)
    assert np.allclose(drawn.z, similarity(clean.positions[NAME]))
    assert (drawn.zmin, drawn.zmax) == (-1, 1)
    assert picture.layout.xaxis.ticktext == picture.layout.yaxis.ticktext == WORDS
    (frame,) = picture.layout.shapes
    assert (frame.y0, frame.y1) == (1.5, 2.5)
    (marks,) = named(picture, "cells")
    assert all(row[0] == y for y, row in zip(marks.y, marks.customdata, strict=True))
    # A row turned lies on the row further on.
    picture, table = position_shift(clean, NAME, 2, 1), clean.positions[NAME]
    lines = [named(picture, f"{side} of the pair")[0] for side in ("first", "second")]
    for line, point, column in zip(lines, named(picture, "turned"), (0, 1), strict=True):
        moved, data = table[3, column::2], np.asarray(point.customdata)
        assert np.array_equal(line.y, moved) and np.allclose(point.y, moved, atol=1e-6)
        assert data[:, :2].tolist() == [[p, 2 * p + column] for p in range(3)]
        assert data[:, 2].tolist() == moved.tolist()
        assert point.unselected.marker.opacity == 1
    said = caption(picture)
    assert "“1 c” moved by 2 to “3 the (2)”" in said and "over all 3 positions" in said
    assert "the same turn fits everywhere" in said
    table = np.zeros((4, 2))
    table[:, 0] = 1, 0, 0, 0
    table[:, 1] = 0, 1, 1, 2
    picture = position_shift(with_positions(clean, table_decoder=table), "table.decoder", 1, 0)
    # Turns by a quarter (weight 1), none (1) and none (2): the angle of 3 + i. The last row, of
    # length 1, should become 2: 2 - 3 / √10 is missing, which is 53% of 2.
    assert "the largest difference is 1.1, 53% of the table's largest value" in caption(picture)
    assert "a fit proves nothing" in caption(position_shift(clean, NAME, 4, 0))
    with pytest.raises(ValueError, match=r"Position 3 moved by 2 would be 5; .* 0 to 4"):
        position_shift(clean, NAME, 2, 3)
    with pytest.raises(ValueError, match="shift by 5 leads out"):
        position_shift(clean, NAME, 5, 0)
