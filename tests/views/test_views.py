"""The pictures: every listed view, and what a reader must be able to trust in each."""

from __future__ import annotations

import html
import inspect
import json
import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import DARK, LIGHT
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Attention, Produced, Tokens
from transformer_viz.metrics import Axis, output_changes, vector_changes
from transformer_viz.metrics.attention.map_cells import Cells, cells, visible
from transformer_viz.views import VIEWS, Picture, head_map, outcome, stream_length, vector_change
from transformer_viz.views.charts.labelled_heatmap import CLICKS
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


@pytest.mark.slow
def test_every_view_draws_asks_a_question_and_is_told(clean: Trace, warm: Trace) -> None:
    """The caption is HTML, where marks are written out; the words for a screen reader are not."""
    for view in VIEWS:
        assert view.question.endswith("?"), view.name
        taken = inspect.signature(view.draw).parameters
        for dark, colours in ((False, LIGHT), (True, DARK)):
            one = {"dark": dark} if "dark" in taken else {}  # others hold both looks
            picture = view.draw(clean, *WORDS[view.name], **one)
            assert isinstance(picture, go.Figure | Picture), view.name
            html_of = "to_json" if isinstance(picture, go.Figure) else "_repr_html_"
            assert colours.ink.lower() in getattr(picture, html_of)().lower(), view.name
        before = taken.get("before")
        compares = before is not None and before.kind is before.KEYWORD_ONLY
        for words in ({}, {"before": clean}) if compares else ({},):
            picture = view.draw(warm, *WORDS[view.name], **words)
            if isinstance(picture, go.Figure):
                meta = picture.layout.meta
                assert set(meta) == {"caption", "alt"} and meta["alt"], view.name
                assert meta["caption"] == escaped(meta["alt"]), view.name
                assert meta["alt"] == html.unescape(meta["caption"]), view.name


def test_marks_stay_text_and_scales_run_from_zero_to_one(clean: Trace) -> None:
    source = replace(clean.source, labels=("R&D <b>", "c", "at", "the", "</s>"))
    meta = stream_length(replace(clean, source=source), "encoder", 0).layout.meta
    assert "“R&D <b>” strong" in meta["alt"]
    assert "“R&amp;D &lt;b&gt;” strong" in meta["caption"]
    assert clean.produced is not None
    evil = ("<img src=x onerror=alert(1)>", "b", "c", "d")
    run = replace(clean, produced=replace(clean.produced, labels=evil))
    assert "<img" not in outcome(run).html
    assert "<img" not in head_map(run, "cross", 0, 0).to_json()
    # Scales run from zero to one.
    for colours in (LIGHT, DARK):
        assert scale(colours.amounts)[0][0] == 0 and scale(colours.amounts)[-1][0] == 1
        assert scale(colours.changes)[2][0] == 0.5
        assert scale(colours.changes)[2][1] == scale(colours.amounts)[0][1]  # no change: background


def test_the_map_shows_the_heads_weights_under_words(clean: Trace) -> None:
    picture = head_map(clean, "cross", 1, 2)
    assert np.array_equal(_heatmap(picture).z, clean.attention("cross", layer=1)[2])
    assert picture.layout.xaxis.ticktext == ("the", "c", "at", "the (2)", "&lt;/s&gt;")
    assert picture.layout.xaxis.tickvals == (0, 1, 2, 3, 4)
    # Rows of a decoder are named after the words that they produce, not those that they read.
    assert picture.layout.yaxis.ticktext == ("die", "Ka", "tze", "&lt;/s&gt;")
    for said, place in (("heads 0 to 2; got 3", (0, 3)), ("no layer 5", (5, 0))):
        with pytest.raises(LookupError, match=said):
            head_map(clean, "cross", *place)
    # Whole words and ordinary words.
    found = cells(clean, "cross", 0, 1, words=True, special=False)
    assert found.rows.labels == ("die", "Katze")
    assert found.columns.labels == ("the", "cat", "the (2)")
    assert found.members == ((0,), (1, 2))
    assert np.allclose(found.weights.sum(axis=1), 1)
    assert found.note
    markers = _named(head_map(clean, "cross", 0, 0, words=True, special=False), "cells")
    data = np.concatenate([m.customdata for m in markers if len(m.customdata)])
    # A click names the model's own row: "die" is row 0, "Katze" begins in row 1.
    assert sorted(set(data[:, 0])) == [0, 1]


def test_masked_cells_are_hatched_and_never_coloured(clean: Trace) -> None:
    picture = head_map(clean, "decoder", 0, 0)
    later = np.triu(np.ones((4, 4), bool), 1)
    assert np.array_equal(np.isnan(_heatmap(picture).z), later)
    (hatch,) = _named(picture, "masked")
    assert hatch.fillpattern.shape == "/"
    outlined = np.array([v for v in hatch.x if v is not None]).reshape(-1, 5)
    assert len(outlined) == 3  # rows 0, 1 and 2 have one run of masked cells each
    assert not _named(head_map(clean, "cross", 0, 0), "masked")
    block = clean.block("decoder", 0)
    cold = replace(block, scores=block.scores * 2000)  # a small temperature hides nothing
    cold = replace(cold, weights=softmax(cold.scores).astype(np.float32))
    edits = Intervention((Temperature(value=0.0005),))
    assert cold.scores[0][np.isfinite(cold.scores[0])].min() < -1e3
    found = cells(replace(clean, attentions=(cold,), intervention=edits), "decoder", 0, 0)
    assert np.array_equal(found.masked, later) and not found.blind


def test_what_is_visible_follows_the_scores() -> None:
    """A weight of 0 is not masked; a sink behind the keys (gpt-oss) is no column."""
    site = Site("decoder", "self", 0)
    for weights, scores, expected in (
        ([[1.0, 0.0, 0.0]], [[3.0, -9.0, -1e9]], [[1, 1, 0]]),
        ([[0.25, 0.25]] * 2, [[0, -np.inf, 1], [0, 0, 1]], [[1, 0], [1, 1]]),
    ):
        given = (np.array([x], np.float32) for x in (weights, scores))
        block = Attention(next(given), site, "source", "source", scores=next(given))
        assert visible(block, 0, Intervention()).tolist() == expected
    one = Axis(("a", "b"), (0, 1), (False, False))
    masked = np.array([[True, True], [False, True]])
    found = Cells(np.zeros((2, 2)), masked, one, one, ((0,), (1,)), ((0,), (1,)))
    assert found.blind == ("a",)


def test_difference_is_symmetric_around_zero(clean: Trace, warm: Trace) -> None:
    picture = head_map(warm, "encoder", 1, 1, before=clean)
    drawn = _heatmap(picture)
    expected = warm.attention("encoder", 1)[1] - clean.attention("encoder", 1)[1]
    assert np.allclose(drawn.z, expected)
    assert drawn.zmin == -drawn.zmax
    assert drawn.zmax == pytest.approx(float(np.abs(expected).max()))
    same = _heatmap(head_map(clean, "encoder", 1, 1, before=clean))
    assert not same.z.any() and same.zmax == 0.05
    for trace in json.loads(picture.to_json())["data"]:  # no matrix of texts
        assert "text" not in trace and "hovertext" not in trace


def test_a_long_sentence_thins_its_names_and_keeps_hover(clean: Trace) -> None:
    n = 100
    names = tuple(f"w{i}" for i in range(n))
    tokens = Tokens((), names, names, tuple(range(n)), (False,) * n)
    weights = np.full((3, n, n), 1 / n, np.float32)
    block = Attention(weights, Site("encoder", "self", 0), "source", "source")
    picture = head_map(replace(clean, source=tokens, attentions=(block,)), "encoder", 0, 0)
    assert n * n > CLICKS and not _named(picture, "cells")
    assert len(picture.layout.xaxis.tickvals) == 25
    assert picture.layout.xaxis2.ticktext == names  # the hover still knows every name
    assert picture.layout.height <= 720


# ---- how far vectors moved, and what came of it --------------------------------------------------

WAS = np.array([[3.0, 4.0], [0.0, 2.0], [6.0, 8.0], [1.0, 0.0], [0.0, 0.0]], np.float32)
NOW = np.array([[3.0, 4.0], [0.0, 5.0], [0.0, 0.0], [1.0, 0.5], [0.0, 0.0]], np.float32)


def test_the_change_is_the_length_of_the_difference(clean: Trace, warm: Trace) -> None:
    before, after = replace(clean, output=WAS), replace(clean, output=NOW)
    longer = replace(clean, output=np.concatenate([NOW, NOW]))  # padding behind is left out
    for run in (after, longer):
        table = vector_changes(before, run, "encoder")
        assert list(table["length_before"]) == [5, 2, 10, 1, 0]
        assert list(table["change"]) == [0, 3, 10, 0.5, 0]
        assert list(table["token"]) == list(clean.source.labels)
    drawn = vector_change(before, after, "encoder").html
    assert [float(n) for n in re.findall(r"<div>([\d.]+)</div>", drawn)] == [0, 3, 10, 0.5, 0]
    heights = [int(pixels) for pixels in re.findall(r"width:22px;height:(\d+)px", drawn)]
    assert heights == [1, 14, 46, 2, 1]  # of 46 pixels for the largest; nothing is one
    alone = vector_change(before, None, "encoder").html
    assert "of " not in re.sub("<[^>]*>", "", alone) and "5.00" in alone
    with pytest.raises(ValueError, match="5 and 2 tokens"):
        vector_changes(before, replace(clean, output=NOW[:2]), "encoder")
    # Without an output the last hidden states are compared.
    last = clean.hidden("encoder")[-1].astype(np.float64) - warm.hidden("encoder")[-1]
    table = vector_changes(clean, warm, "encoder")
    assert np.allclose(table["change"], np.sqrt((last**2).sum(axis=1)), rtol=1e-12)


def test_outcome_tells_probability_and_rank_of_chosen_rows(clean: Trace, warm: Trace) -> None:
    told = outcome(clean, warm).html
    assert "0.90 → 0.25" in told and "rank 1 → 7" in told
    assert "→" not in outcome(clean).html
    words = re.findall(r"<div>(\w+)</div>", outcome(clean, warm, rows=[0, 2]).html)
    assert words == ["die", "tze"]
    said = warm.produced
    assert said is not None
    more = Produced(
        (*said.ids, 0),
        (*said.pieces, "<pad>"),
        (*said.labels, "<pad>"),
        np.append(said.probability, np.float32(0.5)),
        np.append(said.rank, 1),
    )
    padded = output_changes(clean, replace(warm, produced=more))
    assert padded.equals(output_changes(clean, warm))
    other = replace(more, ids=(0, *more.ids[1:]))
    with pytest.raises(ValueError, match="different words"):
        output_changes(clean, replace(warm, produced=other))
