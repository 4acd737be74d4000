"""Compare in Streamlit's own test runner: the library's numbers, a link that holds all of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.metrics.comparison.comparing import Comparison

from ...support.page_content import address, charts, go, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
OTHER = FIRST_TEXT.replace("tired", "wide")
WARM = Intervention((Temperature(value=3.0, stack="decoder", block="cross"),))
MODEL = "en-de-small"


@pytest.fixture
def shown(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """The page with the small translator in the box."""

    def open_page(**link: str) -> AppTest:
        app = visit("compare", **({"text": FIRST_TEXT, "model": MODEL} | link))
        assert not app.exception
        return app

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", MODEL)
    return open_page


def written(model: object, text: str, beam: int = 4) -> list[int]:
    """What a model writes, as its decoder reads it."""
    best = tv.translate(model, text, beam=beam)[0]
    return [model.bos_id, *(best.ids[:-1] if best.finished else best.ids)]  # type: ignore[attr-defined]


def is_shown(app: AppTest, found: Comparison, matched: bool = False) -> None:
    drawn = charts(app)
    for one in found.shared:
        bits = heatmap(drawn[f"compare-{one.name}"])
        for layer, head in found.pairs(one.name, matched):
            wanted = found.divergence(one.name, (layer, head), matched)
            assert bits[layer, head] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.shipped
def test_two_sentences_each_with_its_own_output(shown: Visit) -> None:
    app = shown()
    assert not app.error and not app.warning
    model = tv.load(MODEL, device="cpu")
    runs = [
        tv.trace(model, text, written(model, text), keep=("weights", "scores"), check=False)
        for text in (FIRST_TEXT, OTHER)
    ]
    found = tv.compare(*runs)
    is_shown(app, found)
    best = found.heads.loc[found.heads["divergence"].idxmax()]
    name = {"encoder": "encoder", "decoder": "decoder"}[best.stack]
    name = "cross" if best.block == "cross" else name
    title = said(app, "compared-head")
    assert f"{name} L{best.layer} H{best['head']}" in title and f"{best.divergence:.3f}" in title
    maps = found.maps(name, best.layer, best["head"])
    drawn = charts(app)
    for side in ("a", "b", "difference"):
        got = heatmap(drawn[f"compared-{side}"])
        np.testing.assert_allclose(got, getattr(maps, side), atol=1e-5)
    assert "<span>tired</span><br>wide" in said(app, "words-source")
    assert said(app, "matched").count("<tr") == 1 + len(found.matched)


@pytest.mark.shipped
def test_edits_beside_the_clean_run(shown: Visit) -> None:
    assert "Nothing is changed" in told(shown(versus="edits"))
    app = shown(versus="edits", edits=WARM.to_json())
    model = tv.load(MODEL, device="cpu")
    found = tv.compare(None, WARM, FIRST_TEXT, model=model, target=written(model, FIRST_TEXT))
    is_shown(app, found)
    encoder = heatmap(charts(app)["compare-encoder"])
    assert (encoder == 0).all()  # nothing before the change differs


@pytest.mark.shipped
def test_two_steps_hold_the_later_ones_words(shown: Visit) -> None:
    app = shown(versus="step", moments="256,4096", opposite="match", weighed="content")
    late = tv.load(f"{MODEL}/step-4096", device="cpu")
    held = written(late, FIRST_TEXT, beam=1)
    found = tv.compare(f"{MODEL}/step-256", late, FIRST_TEXT, target=held, view="content")
    is_shown(app, found, matched=True)
    link = address(app)
    assert link["moments"] == "256,4096" and link["opposite"] == "match"
    assert "after 256 updates" in html(app)
    again = shown(**link)
    assert said(again, "compared-head") == said(app, "compared-head")


@pytest.mark.shipped
def test_another_model_and_a_head_of_the_link(shown: Visit) -> None:
    app = shown(versus="model", beside="en-de", seen="cross.1.2")
    models = [tv.load(name, device="cpu") for name in (MODEL, "en-de")]
    text = models[0].tokenizer.decode(written(models[0], FIRST_TEXT))
    ours = tv.trace(models[0], FIRST_TEXT, written(models[0], FIRST_TEXT), check=False)
    theirs = tv.trace(models[1], FIRST_TEXT, text, check=False)
    is_shown(app, tv.compare(ours, theirs))
    assert "cross L1 H2" in said(app, "compared-head")
    assert "not the same layers and heads" in html(app)
    app.selectbox(key="compare-head").set_value("encoder.0.1").run()
    assert address(app)["seen"] == "encoder.0.1"
    assert "encoder L0 H1" in said(app, "compared-head")


@pytest.mark.shipped
def test_what_is_not_there_is_said(shown: Visit) -> None:
    app = shown(versus="step", moments="3,4", seen="cross.9.9")
    assert "There are no two steps" in told(app) and "no head 'cross.9.9'" in told(app)
    app = shown(versus="model", beside="nowhere")
    assert "There is no model 'nowhere' here" in told(app)
    app = shown(other="Zwei Hunde.")
    assert "read no word in common" in told(app)
    app = shown(other=FIRST_TEXT)
    assert "Both sentences are the same now" in told(app) and not charts(app)
    app.text_input(key="compare-other").set_value(OTHER).run()
    assert charts(app) and address(app)["other"] == OTHER


@pytest.mark.shipped
def test_numbers_and_their_card_go_along(shown: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, bytes] = {}
    monkeypatch.setattr(
        "streamlit.download_button",
        lambda label, data, file_name, **more: handed.update({file_name: data}),
    )
    app = shown(versus="edits", edits=WARM.to_json())
    app.session_state["compare-numbers"] = True
    app.run()
    table = pd.read_csv(io.BytesIO(handed["compare.csv"]))
    card = json.loads(handed["compare.card.json"])
    assert len(table) == 36 and {"divergence", "rows", "margin", "other_head"} <= set(table)
    assert card["a"]["model_hash"] == card["b"]["model_hash"]
    assert Intervention.from_json(card["b"]["intervention"]) == WARM
    assert card["rows"] == table["rows"].max() and card["view"] == "raw"


def test_pictures_are_compared_with_and_without_edits(meet: Visit) -> None:
    """What cannot be exchanged is said; edits can be compared for every kind of model."""
    app = meet("vit")
    go(app, "compare")
    assert "the model at hand reads something else" in told(app)
    heat = Intervention((Temperature(value=4.0, stack="encoder", layer=0),))
    app = meet("vit", edits=heat.to_json(), versus="edits")
    go(app, "compare")
    assert "compare-encoder" in charts(app)
