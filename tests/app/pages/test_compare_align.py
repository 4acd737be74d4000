"""The pages Compare and Align: the library's numbers, links that hold all of it, and refusals."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import fine, put, runs
from transformer_viz.app.cards.alignment import unread
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.metrics.alignment.aligning import Alignment
from transformer_viz.metrics.alignment.error_rate import gold_of
from transformer_viz.metrics.comparison.comparing import Comparison

from ...support.page_content import address, charts, heatmap, html, part, said, told
from ...support.speech import speech_folder

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
OTHER = FIRST_TEXT.replace("tired", "wide")
WARM = Intervention((Temperature(value=3.0, stack="decoder", block="cross"),))
MODEL = "en-de-small"
TEXT = "The cat sat on the mat."
GOLD = "0-0 1-1 2-2 3p3"

load = cache(lambda name: tv.load(name, device="cpu"))


# ---- Compare


def written(model: Any, text: str, beam: int = 4) -> list[int]:
    """Return what a model writes, as its decoder reads it."""
    best = tv.translate(model, text, beam=beam)[0]
    return [model.bos_id, *(best.ids[:-1] if best.finished else best.ids)]


def is_shown(app: AppTest, found: Comparison, matched: bool = False) -> None:
    drawn = charts(app)
    for one in found.shared:
        bits = heatmap(drawn[f"compare-{one.name}"])
        for layer, head in found.pairs(one.name, matched):
            wanted = found.divergence(one.name, (layer, head), matched)
            assert bits[layer, head] == pytest.approx(wanted, abs=1e-5), (one.name, layer, head)


@pytest.mark.shipped
def test_two_sentences_each_with_its_own_output(bundled: Visit) -> None:
    app = fine(bundled("compare", MODEL, text=FIRST_TEXT))
    words: dict[str, Any] = {"keep": ("weights", "scores"), "check": False}
    model = load(MODEL)
    found = tv.compare(
        *(tv.trace(model, text, written(model, text), **words) for text in (FIRST_TEXT, OTHER))
    )
    is_shown(app, found)
    best = found.heads.loc[found.heads["divergence"].idxmax()]
    name = "cross" if best.block == "cross" else best.stack
    title = said(app, "compared-head")
    assert f"{name} L{best.layer} H{best['head']}" in title and f"{best.divergence:.3f}" in title
    maps = found.maps(name, best.layer, best["head"])
    for side in ("a", "b", "difference"):
        got = heatmap(charts(app)[f"compared-{side}"])
        np.testing.assert_allclose(got, getattr(maps, side), atol=1e-5, err_msg=side)
    assert "<span>tired</span><br>wide" in said(app, "words-source")
    assert said(app, "matched").count("<tr") == 1 + len(found.matched)


@pytest.mark.shipped
def test_edits_beside_the_clean_run(bundled: Visit, downloads: dict[str, bytes]) -> None:
    link = {"text": FIRST_TEXT, "versus": "edits"}
    assert "Nothing is changed" in told(bundled("compare", MODEL, **link))
    app = bundled("compare", MODEL, **link, edits=WARM.to_json())
    target = written(load(MODEL), FIRST_TEXT)
    is_shown(app, tv.compare(None, WARM, FIRST_TEXT, model=load(MODEL), target=target))
    assert (heatmap(charts(app)["compare-encoder"]) == 0).all()  # nothing before it differs
    app.session_state["compare-numbers"] = True
    app.run()
    table = pd.read_csv(io.BytesIO(downloads["compare.csv"]))
    card = json.loads(downloads["compare.card.json"])
    assert len(table) == 36 and {"divergence", "rows", "margin", "other_head"} <= set(table)
    assert card["a"]["model_hash"] == card["b"]["model_hash"]
    assert Intervention.from_json(card["b"]["intervention"]) == WARM
    assert card["rows"] == table["rows"].max() and card["view"] == "raw"


@pytest.mark.shipped
def test_two_steps_and_another_model(bundled: Visit) -> None:
    link = {"versus": "step", "moments": "256,4096", "opposite": "match", "weighed": "content"}
    app = bundled("compare", MODEL, text=FIRST_TEXT, **link)
    late = load(f"{MODEL}/step-4096")  # both hold the later one's words
    held = written(late, FIRST_TEXT, beam=1)
    found = tv.compare(f"{MODEL}/step-256", late, FIRST_TEXT, target=held, view="content")
    is_shown(app, found, matched=True)
    there = address(app)
    assert there["moments"] == "256,4096" and there["opposite"] == "match"
    again = bundled("compare", MODEL, **({"text": FIRST_TEXT} | there))
    assert said(again, "compared-head") == said(app, "compared-head")

    app = bundled(
        "compare", MODEL, text=FIRST_TEXT, versus="model", beside="en-de", seen="cross.1.2"
    )
    ids = written(load(MODEL), FIRST_TEXT)
    targets = {MODEL: ids, "en-de": load(MODEL).tokenizer.decode(ids)}
    each = [tv.trace(load(name), FIRST_TEXT, ids, check=False) for name, ids in targets.items()]
    is_shown(app, tv.compare(*each))
    assert "cross L1 H2" in said(app, "compared-head")
    assert "not the same layers and heads" in html(app)
    put(app, {"compare-head": "encoder.0.1"})
    assert address(app)["seen"] == "encoder.0.1"
    assert "encoder L0 H1" in said(app, "compared-head")


@pytest.mark.shipped
def test_what_cannot_be_compared_is_said(bundled: Visit, meet: Visit) -> None:
    for link, words in (
        ({"versus": "step", "moments": "3,4", "seen": "cross.9.9"}, "There are no two steps"),
        ({"versus": "step", "moments": "3,4", "seen": "cross.9.9"}, "no head 'cross.9.9'"),
        ({"versus": "model", "beside": "nowhere"}, "There is no model 'nowhere' here"),
        ({"other": "Zwei Hunde."}, "read no word in common"),
    ):
        assert words in told(bundled("compare", MODEL, text=FIRST_TEXT, **link)), link
    app = bundled("compare", MODEL, text=FIRST_TEXT, other=FIRST_TEXT)
    assert "Both sentences are the same now" in told(app) and not charts(app)
    put(app, {"compare-other": OTHER})
    assert charts(app) and address(app)["other"] == OTHER
    # Edits can be compared for every kind of model.
    heat = Intervention((Temperature(value=4.0, stack="encoder", layer=0),))
    app = meet("vit", "compare", edits=heat.to_json(), versus="edits")
    assert "compare-encoder" in charts(app)


# ---- Align


def library(shift: str = "out", edits: Intervention | None = None, **place: int) -> Alignment:
    """Return what the library computes for the sentence on the page."""
    model = load("en-de")
    held = [model.bos_id, *tv.translate(model, TEXT, beam=4)[0].ids[:-1]]
    run = tv.trace(model, TEXT, target=held, intervention=edits, check=False)
    return tv.align(run, shift, **place)


@pytest.mark.shipped
def test_the_drawing_holds_the_librarys_links(bundled: Visit, downloads: dict[str, bytes]) -> None:
    for link, asked in (
        ({}, {}),
        ({"aligned": "1", "aligned_row": "in"}, {"shift": "in", "layer": 1}),
        ({"aligned": "0.7"}, {"layer": 0, "head": 7}),
        ({"aligned": "1.2", "aligned_row": "in"}, {"shift": "in", "layer": 1, "head": 2}),
    ):
        app = bundled("align", text=TEXT, **link)
        assert not app.error, link
        found = library(**asked)
        header, arrays = part(app, "head")
        links, rest = arrays["weights"]
        np.testing.assert_allclose(links + rest, found.weights, atol=1e-6, err_msg=str(link))
        assert {(s, t) for t, s in np.argwhere(links > 0).tolist()} == set(found.pairs), link
        assert header["rows"]["labels"] == list(found.target)
        assert header["columns"]["labels"] == list(found.source)
        assert header["unread"] == list(found.unread), link
        assert app.code[0].value == found.pharaoh().strip(), link
        for walk in found.walks:
            row = re.search(rf'data-measure="{walk.name}">(.*?)</tr>', html(app)).group(1)
            shown = [f"{number:.2f}" for number in (walk.value, walk.chance)]
            for cell in (*shown, f"{walk.rows:,}"):
                cell = cell.replace("-0.00", "0.00")
                assert f"<td>{cell}</td>" in row.replace("-0.00", "0.00"), (link, walk.name)
        for word in found.unread:
            assert f"“{found.source[word]}”" in said(app, "unread"), (link, word)
    assert downloads["links.pharaoh"].decode() == found.pharaoh()
    assert downloads["links.csv"].decode() == found.links.to_csv(index=False)
    card = json.loads(downloads["links.card.json"])
    assert card["model_hash"] and card["shift"] == "in" and card["heads"] == "cross L1 H2"
    assert card["sentences_hash"] == found.card["sentences_hash"]


@pytest.mark.shipped
def test_unread_words_are_told_only_where_somebody_looks_at_words() -> None:
    found = library()
    none = replace(found, shares=np.full(len(found.source), np.nan))
    few = replace(found, shares=np.where(np.arange(len(found.source)) == 1, 0.05, 1.0))
    assert unread(none).startswith("No target word looks at a source word")
    assert unread(few).startswith(f"Read by nobody: “{found.source[1]}”")
    assert unread(replace(few, shares=np.ones(len(found.source)))).startswith("No source word is")


@pytest.mark.shipped
def test_gold_gives_the_error_rate_and_changes_move_the_links(bundled: Visit) -> None:
    app = bundled("align", text=TEXT, aligned="2")
    assert "Paste a line such as 0-0 1-2 3p4" in html(app)
    put(app, {"align-gold": GOLD})
    rate = library(layer=2).counts(gold_of(GOLD)).error_rate
    assert f"alignment error rate {rate:.2f}" in said(app, "error-rate")
    assert 'data-what="ranked"' in html(app) and address(app)["gold"] == GOLD
    put(app, {"gold_from_one": True})
    assert "words counted from 1; got &#x27;0-0&#x27;" in html(app) or "counted from 1" in told(app)
    assert address(app)["gold_from_one"] == "on"
    for gold, words in (("1-1 99-1", "the source has"), ("one-two", "A gold link is written 3-4")):
        assert words in told(put(app, {"align-gold": gold})), gold

    edits = Intervention((Temperature(value=6.0, stack="decoder", block="cross"),))
    app = bundled("align", text=TEXT, edits=edits.to_json())
    found = library(edits=edits)
    links, rest = part(app, "head")[1]["weights"]
    np.testing.assert_allclose(links + rest, found.weights, atol=1e-6)
    assert not app.error
    assert f"{len(found.pairs ^ library().pairs)} links came or went" in html(app)


def test_a_source_without_words_has_no_alignment(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speech_folder("whisper", tmp_path / "whisper")
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(tmp_path / "whisper"))
    assert "what this model reads has none" in told(runs(visit("align", model="whisper")))
