"""Pictures of norms: their data is the trace's, their limits are honest, clicks mean places."""

from __future__ import annotations

import json
from dataclasses import fields, replace

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


def heatmap(picture: go.Figure) -> go.Heatmap:
    return next(trace for trace in picture.data if isinstance(trace, go.Heatmap))


def named(picture: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in picture.data if trace.name == name]


def test_the_map_shows_the_numbers_on_an_honest_scale(clean: Trace) -> None:
    for statistic in STATISTICS:
        assert statistic.question.endswith("?") and statistic.sentence.endswith(".")
        for stack, words in (("encoder", clean.source), ("decoder", clean.target)):
            sites, numbers = norm_statistic(clean, statistic.name, stack)
            picture = norm_map(clean, statistic.name, stack)
            drawn = heatmap(picture)
            np.testing.assert_array_equal(drawn.z, numbers.astype(np.float32), statistic.name)
            assert drawn.zmin == (-drawn.zmax if statistic.signed else 0), statistic
            assert drawn.zmax == pytest.approx(np.abs(numbers).max()), statistic
            ends = f"{drawn.zmin:.3g} to {drawn.zmax:.3g}".replace("-", "−")
            assert ends in picture.layout.meta["caption"]
            assert picture.layout.yaxis.ticktext == norm_labels(clean, sites)
            assert len(picture.layout.xaxis.ticktext) == len(words)
    drawn = heatmap(norm_map(clean, "input_norm", "decoder"))  # numbers by hand
    np.testing.assert_allclose(drawn.z, np.linalg.norm(stream(4, 7, 1.0), axis=2), rtol=1e-6)


def test_a_change_is_drawn_around_zero(clean: Trace, warm: Trace) -> None:
    drawn = heatmap(norm_map(warm, "std", "encoder", before=clean))
    now, was = (norm_statistic(run, "std", "encoder")[1] for run in (warm, clean))
    np.testing.assert_allclose(drawn.z, now - was, rtol=1e-6)
    assert drawn.zmin == -drawn.zmax and drawn.zmax == pytest.approx(np.abs(now - was).max())
    same = heatmap(norm_map(clean, "std", "encoder", before=clean))
    assert not same.z.any()
    assert same.zmax == pytest.approx(0.01 * norm_statistic(clean, "rms", "encoder")[1].max())
    pad = Tokens((0,), ("<pad>",), ("<pad>",), (4,), (True,))  # appended padding stays empty
    source = [getattr(clean.source, f.name) + getattr(pad, f.name) for f in fields(Tokens)]
    rows = clean.norms[clean.norms["stack"] == "encoder"]
    norms = pd.concat([clean.norms, rows[rows["token"] == 4].assign(token=5)])
    padded = replace(clean, source=Tokens(*source), norms=norms)
    assert extends(padded.source, clean.source)
    picture = norm_map(padded, "input_norm", "encoder", before=clean)
    assert np.isnan(heatmap(picture).z[:, 5]).all() and not heatmap(picture).z[:, :5].any()
    assert 5 not in named(picture, "cells")[0].x


def test_a_click_means_a_norm_and_a_word(clean: Trace) -> None:
    picture = norm_map(clean, "mean", "encoder", site=2, token=3)
    (markers,) = named(picture, "cells")
    numbers = norm_statistic(clean, "mean", "encoder")[1]
    for x, y, (site, token, value) in zip(markers.x, markers.y, markers.customdata, strict=True):
        assert (y, x) == (site, token)
        assert value == np.float32(numbers[int(site), int(token)])
    assert len(markers.x) == numbers.size
    row, column = picture.layout.shapes
    assert (row.y0, row.y1, row.x0, row.x1) == (1.5, 2.5, -0.5, 4.5)
    assert (column.x0, column.x1, column.y0, column.y1) == (2.5, 3.5, -0.5, 4.5)
    assert not norm_map(clean, "mean", "encoder", site=9, token=-1).layout.shapes
    lost = clean.norms.assign(mean=clean.norms["mean"].where(clean.norms["token"] != 1))
    for norms, count in ((lost, 4), (clean.norms.assign(mean=np.nan, rms=np.nan), 0)):
        picture = norm_map(replace(clean, norms=norms), "mean", "encoder")
        assert np.isfinite(heatmap(picture).zmax)
        (markers,) = named(picture, "cells")  # words that became NaN stay empty
        assert len(set(markers.x)) == count and 1 not in markers.x


def test_long_names_and_many_words(clean: Trace) -> None:
    long = "encoder.layer.0.attention.output.LayerNorm"
    rows = clean.norms[clean.norms["site"] == "encoder.norm"].assign(site=long)
    (name,) = norm_map(replace(clean, norms=rows), "mean", "encoder").layout.yaxis.ticktext
    assert name == "…er.0.attention.output.LayerNorm" and len(name) == 32
    few = clean.norms[(clean.norms["stack"] == "encoder") & (clean.norms["token"] == 0)]
    for count, gap in ((60, 1), (61, 0), (1024, 0)):  # seams never hide the cells
        names = tuple(f"w{n}" for n in range(count))
        words = Tokens(tuple(range(count)), names, names, tuple(range(count)), (False,) * count)
        rows = pd.concat([few.assign(token=n) for n in range(count)])
        run = replace(clean, source=words, norms=rows)
        drawn = heatmap(norm_map(run, STATISTICS[0].name, "encoder"))
        assert (drawn.xgap, drawn.ygap) == (gap, 1), count


def test_gain_and_bias_are_points_over_dimensions(clean: Trace) -> None:
    site = norm_sites(clean, "encoder")[1]
    picture = gain_bias(clean, site)
    for number, part in enumerate(("gain", "bias")):
        (points,) = named(picture, part)
        np.testing.assert_array_equal(points.y, clean.gains[site][number])
        assert list(points.x) == list(range(6))
        assert points.customdata is None  # the pointer is told all there is; a click means nothing
    assert [shape.y0 for shape in picture.layout.shapes] == [1, 0]  # what would change nothing
    for said in ("L0 before feed-forward", "none stands out"):
        assert said in picture.layout.meta["caption"]
    gain = np.tile(np.array([1.0, 1.1, 0.9], np.float32), 10)
    gain[[8, 9, 20]] = 3.0, 2.9, -2.0
    run = replace(clean, gains={"a": (gain, None), "bare": (None, None)})
    picture = gain_bias(run, "a")
    (marked,) = named(picture, "outstanding")
    assert sorted(marked.x) == [8, 9, 20]
    written = {note.text for note in picture.layout.annotations}
    assert written >= {"8", "20", "This norm adds no bias."}
    assert "9" not in written  # beside the 8 it could not be read; the pointer tells it
    assert "3 marked values" in picture.layout.meta["caption"]
    bare = [note.text for note in gain_bias(run, "bare").layout.annotations]
    assert bare == ["This norm has no gain.", "This norm adds no bias."]


def test_the_stream_of_a_word_stands_before_the_others(clean: Trace, warm: Trace) -> None:
    picture = stream_length(warm, "encoder", 3, before=clean)
    *faint, dashed, strong = picture.data
    assert [line.name for line in faint] == ["the", "c", "at", "&lt;/s&gt;"]
    for line, temperature in ((strong, 3.0), (dashed, 1.0)):
        lengths = np.linalg.norm(stream(5, 5, temperature)[:, 3], axis=1)
        np.testing.assert_allclose(line.y, lengths, rtol=1e-6)
    assert dashed.line.dash == "dash" and strong.line.width > faint[0].line.width
    assert strong.name == "the (2)"
    assert [tuple(row) for row in strong.customdata] == [(3, step) for step in range(5)]
    assert picture.layout.xaxis.ticktext[:2] == ("embedding", "L0 after self-attention")
    low, high = 10 ** np.array(picture.layout.yaxis.range)
    every = np.concatenate([line.y for line in picture.data])
    assert low < every.min() and every.max() < high
    assert "dashed" in picture.layout.meta["caption"]
    assert "dashed" not in stream_length(clean, "encoder", 3).layout.meta["caption"]
    zeros = replace(clean, residuals=clean.residuals.assign(norm=0.0))
    assert all(np.isnan(line.y).all() for line in stream_length(zeros, "decoder", 0).data)


def test_colours_texts_and_refusals(clean: Trace) -> None:
    other = replace(clean, source=replace(clean.source, ids=(7, 5, 6, 5, 4)))
    shallow = replace(clean, residuals=clean.residuals[clean.residuals["layer"] == 0])
    for draw, said in (
        (lambda: stream_length(clean, "encoder", 5), "sentence has words 0 to 4; got 5"),
        (lambda: norm_map(other, "mean", "encoder", before=clean), "different words"),
        (lambda: stream_length(other, "encoder", 0, before=clean), "different words"),
        (lambda: stream_length(clean, "encoder", 0, before=shallow), "3 and 5 steps"),
        (lambda: gain_bias(clean, "nowhere"), "no norm 'nowhere'"),
    ):
        with pytest.raises((LookupError, ValueError), match=said):
            draw()
    # Every picture has its colours and carries no texts.
    site = norm_sites(clean, "decoder")[0]
    run = replace(clean, target=replace(clean.target, labels=("<img src=x>", "a", "b", "c")))
    for dark, colours in ((False, LIGHT), (True, DARK)):
        for picture in (
            norm_map(run, "mean", "decoder", dark=dark),
            gain_bias(run, site, dark=dark),
            stream_length(run, "decoder", 0, dark=dark),
        ):
            written = picture.to_json()
            assert colours.ink in written and "<img" not in written
            for drawn in json.loads(written)["data"]:
                assert "text" not in drawn and "hovertext" not in drawn
