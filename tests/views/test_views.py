"""The pictures: every listed view, and what a reader must be able to trust in each."""

from __future__ import annotations

import inspect
import json

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention
from transformer_viz.metrics.attention.map_cells import Cells, cells, visible
from transformer_viz.views import VIEWS, Picture, View, head_map, outcome, stream_length
from transformer_viz.views.charts.head_map import CLICKS
from transformer_viz.views.charts.theme import escaped, scale

from .conftest import softmax

NAMES = [f"word {token}" for token in range(12)]
#: What each view is drawn with, after the trace.
WORDS: dict[str, tuple[object, ...]] = {
    "atlas": ("cross",),
    "head_map": ("cross", 1, 2),
    "lines": ("cross",),
    "over_image": ("encoder", 1, 2, 0, np.zeros((4, 6, 3), np.uint8)),
    "outcome": (),
    "candidates": (None, 1, NAMES),
    "vector_change": (None, "encoder"),
    "position_table": ("table.encoder",),
    "position_similarity": ("table.encoder",),
    "wavelengths": ("table.encoder",),
    "position_waves": ("table.encoder", 1),
    "position_shift": ("table.encoder", 1, 0),
    "norm_map": ("input_norm", "encoder"),
    "stream_length": ("encoder", 3),
    "gain_bias": ("encoder.norm",),
}


def _heatmap(picture: go.Figure) -> go.Heatmap:
    return next(trace for trace in picture.data if isinstance(trace, go.Heatmap))


def _named(picture: go.Figure, name: str) -> list[go.Scatter]:
    return [trace for trace in picture.data if trace.name == name]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
@pytest.mark.parametrize("dark", [False, True])
def test_every_view_draws_and_asks_a_question(view: View, dark: bool, clean: Trace) -> None:
    one = "dark" in inspect.signature(view.draw).parameters  # others hold both looks
    picture = view.draw(clean, *WORDS[view.name], **({"dark": dark} if one else {}))
    assert view.question.endswith("?")
    assert isinstance(picture, go.Figure | Picture)
    text = picture.to_json() if isinstance(picture, go.Figure) else picture._repr_html_()
    colours = DARK if dark else LIGHT
    assert colours.ink.lower() in text.lower()


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_figure_is_told_for_the_page_and_for_a_reader_aloud(
    view: View, clean: Trace, warm: Trace
) -> None:
    """The caption is HTML, where marks are written out; the words for a screen reader are not."""
    import html

    before = inspect.signature(view.draw).parameters.get("before")
    compares = before is not None and before.kind is before.KEYWORD_ONLY
    for words in ({}, {"before": clean}) if compares else ({},):
        picture = view.draw(warm, *WORDS[view.name], **words)
        if isinstance(picture, go.Figure):
            meta = picture.layout.meta
            assert set(meta) == {"caption", "alt"} and meta["alt"]
            assert meta["caption"] == escaped(meta["alt"])
            assert meta["alt"] == html.unescape(meta["caption"])


def test_marks_in_words_are_read_aloud_as_they_are(clean: Trace) -> None:
    import dataclasses

    labels = ("R&D <b>", "c", "at", "the", "</s>")
    source = dataclasses.replace(clean.source, labels=labels)
    odd = dataclasses.replace(clean, source=source)
    meta = stream_length(odd, "encoder", 0).layout.meta
    assert "“R&D <b>” strong" in meta["alt"]
    assert "“R&amp;D &lt;b&gt;” strong" in meta["caption"]


def test_the_map_shows_the_heads_weights_with_words_on_numeric_axes(clean: Trace) -> None:
    picture = head_map(clean, "cross", 1, 2)
    assert np.array_equal(_heatmap(picture).z, clean.attention("cross", layer=1)[2])
    assert picture.layout.xaxis.ticktext == ("the", "c", "at", "the (2)", "&lt;/s&gt;")
    assert picture.layout.xaxis.tickvals == (0, 1, 2, 3, 4)
    # Rows of a decoder are named after the words that they produce, not those that they read.
    assert picture.layout.yaxis.ticktext == ("die", "Ka", "tze", "&lt;/s&gt;")


def test_no_picture_carries_a_matrix_of_texts(clean: Trace, warm: Trace) -> None:
    picture = head_map(warm, "cross", 0, 0, before=clean)
    for trace in json.loads(picture.to_json())["data"]:
        assert "text" not in trace and "hovertext" not in trace


def test_masked_cells_are_hatched_and_never_coloured(clean: Trace) -> None:
    picture = head_map(clean, "decoder", 0, 0)
    later = np.triu(np.ones((4, 4), bool), 1)
    assert np.array_equal(np.isnan(_heatmap(picture).z), later)
    (hatch,) = _named(picture, "masked")
    assert hatch.fillpattern.shape == "/"
    outlined = np.array([v for v in hatch.x if v is not None]).reshape(-1, 5)
    assert len(outlined) == 3  # rows 0, 1 and 2 have one run of masked cells each
    assert not _named(head_map(clean, "cross", 0, 0), "masked")


def test_a_weight_of_zero_is_not_masked_where_scores_are_kept() -> None:
    weights = np.array([[[1.0, 0.0, 0.0]]], np.float32)
    scores = np.array([[[3.0, -9.0, -1e9]]], np.float32)
    block = Attention(weights, Site("encoder", "self", 0), "source", "source", scores=scores)
    assert visible(block, 0).tolist() == [[1, 1, 0]]


def test_a_sink_behind_the_keys_is_no_column() -> None:
    """Some models score a place that holds no word (gpt-oss); its weight is not among the keys."""
    site = Site("decoder", "self", 0)
    weights = np.full((1, 2, 2), 0.25, np.float32)
    scores = np.array([[[0, -np.inf, 1], [0, 0, 1]]], np.float32)
    block = Attention(weights, site, "source", "source", scores=scores)
    assert visible(block, 0).tolist() == [[1, 0], [1, 1]]


def test_a_small_temperature_hides_nothing(clean: Trace) -> None:
    import dataclasses

    block = clean.block("decoder", 0)
    cold = dataclasses.replace(block, scores=block.scores * 2000)
    cold = dataclasses.replace(cold, weights=softmax(cold.scores).astype(np.float32))
    edits = Intervention((Temperature(value=0.0005),))
    trace = dataclasses.replace(clean, attentions=(cold,), intervention=edits)
    assert cold.scores[0][np.isfinite(cold.scores[0])].min() < -1e3
    found = cells(trace, "decoder", 0, 0)
    assert np.array_equal(found.masked, np.triu(np.ones((4, 4), bool), 1)) and not found.blind


def test_difference_is_symmetric_around_zero(clean: Trace, warm: Trace) -> None:
    picture = head_map(warm, "encoder", 1, 1, before=clean)
    drawn = _heatmap(picture)
    expected = warm.attention("encoder", 1)[1] - clean.attention("encoder", 1)[1]
    assert np.allclose(drawn.z, expected)
    assert drawn.zmin == -drawn.zmax
    assert drawn.zmax == pytest.approx(float(np.abs(expected).max()))
    same = _heatmap(head_map(clean, "encoder", 1, 1, before=clean))
    assert not same.z.any() and same.zmax == 0.05


def test_a_click_names_the_models_own_row(clean: Trace) -> None:
    markers = _named(head_map(clean, "cross", 0, 0, words=True, special=False), "cells")
    data = np.concatenate([m.customdata for m in markers if len(m.customdata)])
    assert sorted(set(data[:, 0])) == [0, 1]  # "die" is row 0, "Katze" begins in row 1


def test_whole_words_and_ordinary_words(clean: Trace) -> None:
    found = cells(clean, "cross", 0, 1, words=True, special=False)
    assert found.rows.labels == ("die", "Katze")
    assert found.columns.labels == ("the", "cat", "the (2)")
    assert found.members == ((0,), (1, 2))
    assert np.allclose(found.weights.sum(axis=1), 1)
    assert found.note


def test_a_row_with_nothing_to_see_is_named() -> None:
    from transformer_viz.metrics import Axis

    one = Axis(("a", "b"), (0, 1), (False, False))
    masked = np.array([[True, True], [False, True]])
    found = Cells(np.zeros((2, 2)), masked, one, one, ((0,), (1,)), ((0,), (1,)))
    assert found.blind == ("a",)


def test_a_long_sentence_thins_its_names_and_keeps_hover(clean: Trace) -> None:
    import dataclasses

    from transformer_viz.core.trace_parts import Tokens

    n = 100
    names = tuple(f"w{i}" for i in range(n))
    tokens = Tokens((), names, names, tuple(range(n)), (False,) * n)
    weights = np.full((3, n, n), 1 / n, np.float32)
    block = Attention(weights, Site("encoder", "self", 0), "source", "source")
    long = dataclasses.replace(clean, source=tokens, attentions=(block,))
    picture = head_map(long, "encoder", 0, 0)
    assert n * n > CLICKS and not _named(picture, "cells")
    assert len(picture.layout.xaxis.tickvals) == 25
    assert picture.layout.xaxis2.ticktext == names  # the hover still knows every name
    assert picture.layout.height <= 720


def test_outcome_tells_probability_and_rank(clean: Trace, warm: Trace) -> None:
    html = outcome(clean, warm).html
    assert "0.90 → 0.25" in html and "rank 1 → 7" in html
    assert "→" not in outcome(clean).html


def test_tokens_cannot_write_html(clean: Trace) -> None:
    import dataclasses

    assert clean.produced is not None
    evil = "<img src=x onerror=alert(1)>"
    produced = dataclasses.replace(clean.produced, labels=(evil, "b", "c", "d"))
    trace = dataclasses.replace(clean, produced=produced)
    assert "<img" not in outcome(trace).html
    assert "<img" not in head_map(trace, "cross", 0, 0).to_json()


def test_what_is_not_there_is_named(clean: Trace) -> None:
    with pytest.raises(LookupError, match="heads 0 to 2; got 3"):
        head_map(clean, "cross", 0, 3)
    with pytest.raises(LookupError, match="no layer 5"):
        head_map(clean, "cross", 5, 0)


def test_scales_run_from_zero_to_one() -> None:
    for colours in (LIGHT, DARK):
        assert scale(colours.amounts)[0][0] == 0 and scale(colours.amounts)[-1][0] == 1
        assert scale(colours.changes)[2][0] == 0.5
        assert scale(colours.changes)[2][1] == scale(colours.amounts)[0][1]  # no change: background
