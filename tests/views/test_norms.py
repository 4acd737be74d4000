"""The pictures of norms: their data is the trace's, their limits are honest, clicks mean places."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Tokens
from transformer_viz.metrics.attention.thumbnails import extends
from transformer_viz.metrics.residual.norm_labels import norm_labels
from transformer_viz.metrics.residual.norm_statistics import STATISTICS, norm_sites, norm_statistic
from transformer_viz.views.charts.gain_bias import gain_bias
from transformer_viz.views.charts.norm_map import norm_map
from transformer_viz.views.charts.stream_length import stream_length

from .conftest import stream


def _heatmap(picture: go.Figure) -> go.Heatmap:
    return next(trace for trace in picture.data if isinstance(trace, go.Heatmap))


def _named(picture: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in picture.data if trace.name == name]


def _padded(run: Trace) -> Trace:
    """The same run with one padding token behind its source."""
    source = run.source
    pad = Tokens((0,), ("<pad>",), ("<pad>",), (4,), (True,))
    tokens = Tokens(
        *(getattr(source, f.name) + getattr(pad, f.name) for f in dataclasses.fields(Tokens))
    )
    rows = run.norms[run.norms["stack"] == "encoder"]
    more = rows[rows["token"] == 4].assign(token=5)
    return dataclasses.replace(run, source=tokens, norms=pd.concat([run.norms, more]))


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda statistic: statistic.name)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_the_map_shows_the_numbers_on_an_honest_scale(statistic, stack, clean: Trace) -> None:
    sites, numbers = norm_statistic(clean, statistic.name, stack)
    picture = norm_map(clean, statistic.name, stack)
    drawn = _heatmap(picture)
    np.testing.assert_array_equal(drawn.z, numbers.astype(np.float32))
    assert drawn.zmin == (-drawn.zmax if statistic.signed else 0)
    assert drawn.zmax == pytest.approx(np.abs(numbers).max())
    ends = f"{drawn.zmin:.3g} to {drawn.zmax:.3g}".replace("-", "−")
    assert ends in picture.layout.meta["caption"]
    assert picture.layout.yaxis.ticktext == norm_labels(clean, sites)
    words = clean.source if stack == "encoder" else clean.target
    assert len(picture.layout.xaxis.ticktext) == len(words)
    assert statistic.question.endswith("?") and statistic.sentence.endswith(".")


def test_the_numbers_by_hand_are_the_streams(clean: Trace) -> None:
    drawn = _heatmap(norm_map(clean, "input_norm", "decoder"))
    states = stream(4, 7, 1.0)
    np.testing.assert_allclose(drawn.z, np.linalg.norm(states, axis=2), rtol=1e-6)


def test_a_change_is_drawn_around_zero(clean: Trace, warm: Trace) -> None:
    drawn = _heatmap(norm_map(warm, "std", "encoder", before=clean))
    now, was = (norm_statistic(run, "std", "encoder")[1] for run in (warm, clean))
    np.testing.assert_allclose(drawn.z, now - was, rtol=1e-6)
    assert drawn.zmin == -drawn.zmax and drawn.zmax == pytest.approx(np.abs(now - was).max())
    same = _heatmap(norm_map(clean, "std", "encoder", before=clean))
    assert not same.z.any()
    assert same.zmax == pytest.approx(0.01 * norm_statistic(clean, "rms", "encoder")[1].max())


def test_a_click_means_a_norm_and_a_word(clean: Trace) -> None:
    picture = norm_map(clean, "mean", "encoder", site=2, token=3)
    (markers,) = _named(picture, "cells")
    numbers = norm_statistic(clean, "mean", "encoder")[1]
    for x, y, (site, token, value) in zip(markers.x, markers.y, markers.customdata, strict=True):
        assert (y, x) == (site, token)
        assert value == np.float32(numbers[int(site), int(token)])
    assert len(markers.x) == numbers.size
    row, column = picture.layout.shapes
    assert (row.y0, row.y1, row.x0, row.x1) == (1.5, 2.5, -0.5, 4.5)
    assert (column.x0, column.x1, column.y0, column.y1) == (2.5, 3.5, -0.5, 4.5)
    assert not norm_map(clean, "mean", "encoder", site=9, token=-1).layout.shapes


def test_appended_padding_stays_empty_in_a_change(clean: Trace) -> None:
    padded = _padded(clean)
    assert extends(padded.source, clean.source)
    picture = norm_map(padded, "input_norm", "encoder", before=clean)
    drawn = _heatmap(picture)
    assert np.isnan(drawn.z[:, 5]).all() and not drawn.z[:, :5].any()
    (markers,) = _named(picture, "cells")
    assert 5 not in markers.x


def test_of_a_strangers_long_name_the_end_is_shown(clean: Trace) -> None:
    long = "encoder.layer.0.attention.output.LayerNorm"
    rows = clean.norms[clean.norms["site"] == "encoder.norm"].assign(site=long)
    picture = norm_map(dataclasses.replace(clean, norms=rows), "mean", "encoder")
    (name,) = picture.layout.yaxis.ticktext
    assert name == "…er.0.attention.output.LayerNorm" and len(name) == 32


def test_gain_and_bias_are_points_over_dimensions(clean: Trace) -> None:
    site = norm_sites(clean, "encoder")[1]
    picture = gain_bias(clean, site)
    for number, part in enumerate(("gain", "bias")):
        (points,) = _named(picture, part)
        np.testing.assert_array_equal(points.y, clean.gains[site][number])
        assert list(points.x) == list(range(6))
        assert points.customdata is None  # the pointer is told all there is; a click means nothing
    assert [shape.y0 for shape in picture.layout.shapes] == [1, 0]  # what would change nothing
    assert "L0 before feed-forward" in picture.layout.meta["caption"]
    assert "none stands out" in picture.layout.meta["caption"]


def test_outstanding_gains_are_marked_with_their_number(clean: Trace) -> None:
    gain = np.tile(np.array([1.0, 1.1, 0.9], np.float32), 10)
    gain[[8, 9, 20]] = 3.0, 2.9, -2.0
    run = dataclasses.replace(clean, gains={"a": (gain, None), "bare": (None, None)})
    picture = gain_bias(run, "a")
    (marked,) = _named(picture, "outstanding")
    assert sorted(marked.x) == [8, 9, 20]
    written = [note.text for note in picture.layout.annotations]
    assert "8" in written and "20" in written
    assert "9" not in written  # beside the 8 it could not be read; the pointer tells it
    assert "This norm adds no bias." in written
    assert "3 marked values" in picture.layout.meta["caption"]
    bare = [note.text for note in gain_bias(run, "bare").layout.annotations]
    assert bare == ["This norm has no gain.", "This norm adds no bias."]


def test_the_stream_of_a_word_stands_before_the_others(clean: Trace, warm: Trace) -> None:
    picture = stream_length(warm, "encoder", 3, before=clean)
    *faint, dashed, strong = picture.data
    assert [line.name for line in faint] == ["the", "c", "at", "&lt;/s&gt;"]
    np.testing.assert_allclose(strong.y, np.linalg.norm(stream(5, 5, 3.0)[:, 3], axis=1), rtol=1e-6)
    np.testing.assert_allclose(dashed.y, np.linalg.norm(stream(5, 5, 1.0)[:, 3], axis=1), rtol=1e-6)
    assert dashed.line.dash == "dash" and strong.line.width > faint[0].line.width
    assert strong.name == "the (2)"
    assert [tuple(row) for row in strong.customdata] == [(3, step) for step in range(5)]
    assert picture.layout.xaxis.ticktext[:2] == ("embedding", "L0 after self-attention")
    low, high = 10 ** np.array(picture.layout.yaxis.range)
    every = np.concatenate([line.y for line in picture.data])
    assert low < every.min() and every.max() < high
    assert "dashed" in picture.layout.meta["caption"]
    assert "dashed" not in stream_length(clean, "encoder", 3).layout.meta["caption"]


def test_a_vector_of_zeros_has_no_place_on_the_line(clean: Trace) -> None:
    zeros = dataclasses.replace(clean, residuals=clean.residuals.assign(norm=0.0))
    picture = stream_length(zeros, "decoder", 0)
    assert all(np.isnan(line.y).all() for line in picture.data)


def test_words_that_became_nan_stay_empty(clean: Trace) -> None:
    lost = clean.norms.assign(mean=clean.norms["mean"].where(clean.norms["token"] != 1))
    for norms, count in ((lost, 4), (clean.norms.assign(mean=np.nan, rms=np.nan), 0)):
        picture = norm_map(dataclasses.replace(clean, norms=norms), "mean", "encoder")
        assert np.isfinite(_heatmap(picture).zmax)
        (markers,) = _named(picture, "cells")
        assert len(set(markers.x)) == count and 1 not in markers.x


def test_what_cannot_be_drawn_is_said(clean: Trace) -> None:
    with pytest.raises(LookupError, match="sentence has words 0 to 4; got 5"):
        stream_length(clean, "encoder", 5)
    other = dataclasses.replace(
        clean, source=dataclasses.replace(clean.source, ids=(7, 5, 6, 5, 4))
    )
    for draw in (
        lambda: norm_map(other, "mean", "encoder", before=clean),
        lambda: stream_length(other, "encoder", 0, before=clean),
    ):
        with pytest.raises(ValueError, match="different words"):
            draw()
    shallow = dataclasses.replace(clean, residuals=clean.residuals[clean.residuals["layer"] == 0])
    with pytest.raises(ValueError, match="3 and 5 steps"):
        stream_length(clean, "encoder", 0, before=shallow)
    with pytest.raises(LookupError, match="no norm 'nowhere'"):
        gain_bias(clean, "nowhere")


@pytest.mark.parametrize("dark", [False, True])
def test_every_picture_has_its_colours_and_carries_no_texts(clean: Trace, dark: bool) -> None:
    site = norm_sites(clean, "decoder")[0]
    evil = dataclasses.replace(clean.target, labels=("<img src=x>", "a", "b", "c"))
    run = dataclasses.replace(clean, target=evil)
    for picture in (
        norm_map(run, "mean", "decoder", dark=dark),
        gain_bias(run, site, dark=dark),
        stream_length(run, "decoder", 0, dark=dark),
    ):
        written = picture.to_json()
        assert (DARK if dark else LIGHT).ink in written and "<img" not in written
        for drawn in json.loads(written)["data"]:
            assert "text" not in drawn and "hovertext" not in drawn


@pytest.mark.parametrize("count, gap", [(60, 1), (61, 0), (1024, 0)])
def test_seams_never_hide_the_cells(count: int, gap: int, clean: Trace) -> None:
    """At 1,024 words a cell is narrower than a seam: with one between them the map was white."""
    names = tuple(f"w{n}" for n in range(count))
    words = Tokens(tuple(range(count)), names, names, tuple(range(count)), (False,) * count)
    few = clean.norms[(clean.norms["stack"] == "encoder") & (clean.norms["token"] == 0)]
    rows = pd.concat([few.assign(token=n) for n in range(count)])
    run = dataclasses.replace(clean, source=words, norms=rows)
    drawn = _heatmap(norm_map(run, STATISTICS[0].name, "encoder"))
    assert (drawn.xgap, drawn.ygap) == (gap, 1)
