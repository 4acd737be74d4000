"""Align in Streamlit's own test runner: the library's links, words and errors, and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.cards.alignment import unread
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.metrics.alignment.aligning import Alignment
from transformer_viz.metrics.alignment.error_rate import gold_of

from ...support.page_content import address, html, part, said, told
from ...support.speech import speech_folder

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT = "The cat sat on the mat."
GOLD = "0-0 1-1 2-2 3p3"


@pytest.fixture
def shown(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """The page with the translator in the box."""

    def open_page(**link: str) -> AppTest:
        app = visit("align", **({"text": TEXT, "model": "en-de"} | link))
        assert not app.exception and not app.error, told(app)
        return app

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")
    return open_page


def library(shift: str = "out", edits: Intervention | None = None, **place: int) -> Alignment:
    """What the library says of the sentence on the page."""
    model = tv.load("en-de", device="cpu")
    held = [model.bos_id, *tv.translate(model, TEXT, beam=4)[0].ids[:-1]]
    return tv.align(tv.trace(model, TEXT, target=held, intervention=edits), shift, **place)


@pytest.mark.shipped
@pytest.mark.parametrize(
    ("link", "asked"),
    [
        ({}, {}),
        ({"aligned": "1", "aligned_row": "in"}, {"shift": "in", "layer": 1}),
        ({"aligned": "0.7"}, {"layer": 0, "head": 7}),
    ],
)
def test_the_drawing_holds_the_librarys_links(
    shown: Visit, link: dict[str, str], asked: dict[str, int]
) -> None:
    app = shown(**link)
    found = library(**asked)
    header, arrays = part(app, "head")
    links, rest = arrays["weights"]
    np.testing.assert_allclose(links + rest, found.weights, atol=1e-6)
    assert {(s, t) for t, s in np.argwhere(links > 0).tolist()} == set(found.pairs)
    assert header["rows"]["labels"] == list(found.target)
    assert header["columns"]["labels"] == list(found.source)
    assert header["unread"] == list(found.unread)
    assert app.code[0].value == found.pharaoh().strip()
    for walk in found.walks:
        row = re.search(rf'data-measure="{walk.name}">(.*?)</tr>', html(app)).group(1)
        assert f"<td>{walk.value:.2f}</td>" in row
        assert f"<td>{walk.chance:.2f}</td>" in row and f"<td>{walk.rows:,}</td>" in row
    for word in found.unread:
        assert f"“{found.source[word]}”" in said(app, "unread")


@pytest.mark.shipped
def test_unread_words_are_told_only_where_somebody_looks_at_words() -> None:
    found = library()
    none = replace(found, shares=np.full(len(found.source), np.nan))
    few = replace(found, shares=np.where(np.arange(len(found.source)) == 1, 0.05, 1.0))
    assert unread(none).startswith("No target word looks at a source word")
    assert unread(few).startswith(f"Read by nobody: “{found.source[1]}”")
    assert unread(replace(few, shares=np.ones(len(found.source)))).startswith("No source word is")


@pytest.mark.shipped
def test_gold_gives_the_error_rate_of_this_map_and_of_all(shown: Visit) -> None:
    app = shown(aligned="2")
    assert "Paste a line such as 0-0 1-2 3p4" in html(app)
    app.text_input(key="align-gold").set_value(GOLD).run()
    found = library(layer=2)
    rate = found.counts(gold_of(GOLD)).error_rate
    assert f"alignment error rate {rate:.2f}" in said(app, "error-rate")
    assert 'data-what="ranked"' in html(app)
    assert address(app)["gold"] == GOLD
    app.toggle(key="gold_from_one").set_value(True).run()
    assert "words counted from 1; got &#x27;0-0&#x27;" in html(app) or "counted from 1" in told(app)
    assert address(app)["gold_from_one"] == "on"
    app.text_input(key="align-gold").set_value("1-1 99-1").run()
    assert "the source has" in told(app)
    app.text_input(key="align-gold").set_value("one-two").run()
    assert "A gold link is written 3-4" in told(app)


@pytest.mark.shipped
def test_changes_move_the_links(shown: Visit) -> None:
    edits = Intervention((Temperature(value=6.0, stack="decoder", block="cross"),))
    app = shown(edits=edits.to_json())
    found = library(edits=edits)
    links, rest = part(app, "head")[1]["weights"]
    np.testing.assert_allclose(links + rest, found.weights, atol=1e-6)
    gone = len(found.pairs ^ library().pairs)
    assert f"{gone} links came or went" in html(app)


@pytest.mark.shipped
def test_files_and_their_card(shown: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, bytes] = {}
    monkeypatch.setattr(
        "streamlit.download_button",
        lambda label, data, file_name, **more: handed.update({file_name: data}),
    )
    shown(aligned="1.2", aligned_row="in")
    found = library("in", layer=1, head=2)
    assert handed["links.pharaoh"].decode() == found.pharaoh()
    assert handed["links.csv"].decode() == found.links.to_csv(index=False)
    card = json.loads(handed["links.card.json"])
    assert card["model_hash"] and card["shift"] == "in" and card["heads"] == "cross L1 H2"
    assert card["sentences_hash"] == found.card["sentences_hash"]


def test_a_map_that_is_not_there_is_told_and_all_are_read(visit: Visit) -> None:
    app = visit("align", aligned="7.1")
    assert not app.exception
    assert "There is no cross-attention L7 H1 here" in told(app)
    assert app.selectbox(key="aligned").value == ""


@pytest.mark.parametrize("name", ["lm", "mlm", "vit"])
def test_models_without_cross_attention_say_what_can_be_had(
    meet: Callable[..., AppTest], name: str
) -> None:
    app = meet(name, "align")
    assert not app.exception and "the model at hand has none" in told(app)


def test_a_source_without_words_has_no_alignment(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speech_folder("whisper", tmp_path / "whisper")
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(tmp_path / "whisper"))
    app = visit("align", model="whisper")
    assert not app.exception and "what this model reads has none" in told(app)
