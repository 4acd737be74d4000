"""The labs of the mechanism on their page: every kind of model, and numbers against the library."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.model_kinds import NAMES
from transformer_viz.app.engine import engine
from transformer_viz.app.labs import whole_runs
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    Causal,
    Edit,
    Intervention,
    Pad,
    ScaleHead,
    ScaleResidual,
    Window,
)
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.output.surprisal import held_bits
from transformer_viz.metrics.residual.similarity import alikeness

from ...support.page_content import address, array, charts, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT = "The cat sat."
LONGER = "The cat sat and the dog sat."
LABS = (
    *("masks", "padding", "window", "residual", "position-wise"),
    *("qkv", "far", "heads", "learning"),
)


@pytest.fixture
def tiny(shelf) -> Model:
    return tv.load(shelf / "tiny")


def run(model: Model, *edits: Edit) -> Trace:
    """The clean run, or a changed one over the same words, as `trace` gives it by itself."""
    best = tv.translate(model, TEXT, beam=4)[0]
    ids = list(best.ids[:-1] if best.finished else best.ids)
    words: dict[str, Any] = {
        "target": [model.bos_id, *ids],
        "keep": ("weights", "scores", "hidden"),
    }
    clean = tv.trace(model, TEXT, check=False, **words)
    if not edits:
        return clean
    assert clean.produced is not None
    held: dict[str, Any] = {
        "produced": list(clean.produced.ids),
        "intervention": Intervention(edits),
    }
    return tv.trace(model, TEXT, check=False, **words, **held)


def bits(trace: Trace) -> float:
    return float(held_bits(trace).sum())


def curve(figure: dict, number: int) -> np.ndarray:
    return array(figure["data"][number]["y"])


@pytest.mark.parametrize("lab", LABS)
def test_every_lab_answers_on_the_class_s_sentence(visit: Visit, lab: str) -> None:
    app = visit("labs", lab=lab, tried="guess=0", text="The cat sat and the dog sat.")
    assert not app.exception and not app.error and not app.warning
    assert 'data-held="' in said(app, "verdict")


@pytest.mark.parametrize("model", NAMES)
def test_what_a_model_cannot_serve_is_said_in_a_sentence(meet: Visit, model: str) -> None:
    app = meet(model, "labs", lab=LABS[0], tried="guess=show")
    for lab in LABS if model == "vit" else LABS[:-1]:  # the last one asks models of its own
        app.session_state["lab"], app.session_state["tried"] = lab, "guess=show"
        app.run()
        assert not app.exception and not app.error, lab
        why = [info.value for info in app.info]
        assert len(why) == 1 or 'data-what="verdict"' in html(app), lab
        assert all(sentence.endswith(".") for sentence in why)


def test_the_causal_lab_shows_the_probabilities_of_both_runs(visit: Visit, tiny: Model) -> None:
    app = visit("labs", lab="masks", tried="guess=2")
    shown = charts(app)["lab-masks-words"]
    for number, edits in enumerate(((), (Causal(on=False, stack="decoder"),))):
        produced = run(tiny, *edits).produced
        assert produced is not None
        assert curve(shown, number) == pytest.approx(produced.probability, rel=1e-4)
    noticed = charts(app)["lab-masks-noticed"]
    assert not curve(noticed, 0)[:-1].any() and curve(noticed, 1)[:-1].any()


def test_the_padding_lab_counts_the_bits_of_three_runs(visit: Visit, tiny: Model) -> None:
    app = visit("labs", lab="padding", tried="guess=1;count=5")
    page = html(app)
    for edits in ((), (Pad(count=5),), (Pad(count=5, masked=False),)):
        assert f"<td>{bits(run(tiny, *edits)):.2f}</td>" in page
    trace = run(tiny, Pad(count=5, masked=False))
    padded = trace.attention("encoder")[..., len(tv.trace(tiny, TEXT, check=False).source) :]
    assert f"{padded.sum(-1).mean():.0%} of the encoder" in page


def test_a_window_costs_what_the_changed_run_costs(visit: Visit, tiny: Model) -> None:
    app = visit("labs", lab="window", tried="guess=1;where=all")
    figure = charts(app)["lab-window-radius"]
    clean = bits(run(tiny))
    for radius, shown in zip(array(figure["data"][0]["x"]), curve(figure, 0), strict=True):
        cost = bits(run(tiny, Window(radius=int(radius)))) - clean
        assert shown == pytest.approx(cost, abs=1e-4)
    assert array(figure["data"][0]["x"])[-1] >= 8


def test_a_cut_residual_makes_the_words_as_alike_as_the_changed_run_says(
    visit: Visit, tiny: Model
) -> None:
    app = visit("labs", lab="residual", tried="guess=2;stack=decoder;layer=1")
    figure = charts(app)["lab-residual-alike"]
    edit = ScaleResidual(value=0, stack="decoder", layer=1)
    for number, edits in enumerate(((edit,), ())):
        wanted = alikeness(run(tiny, *edits).hidden("decoder"))
        assert curve(figure, number) == pytest.approx(wanted, rel=1e-4)
    assert f"The held text costs {bits(run(tiny, edit)):.1f} bits" in html(app)


def test_each_head_costs_what_its_own_run_costs(visit: Visit, tiny: Model) -> None:
    app = visit("labs", lab="heads", tried="guess=show")
    clean = bits(run(tiny))
    shown = heatmap(charts(app)["lab-heads-cross"])
    assert shown.shape == (2, 2)
    for layer, head in np.ndindex(2, 2):
        off = ScaleHead(value=0, stack="decoder", block="cross", layer=layer, head=head)
        assert shown[layer, head] == pytest.approx(bits(run(tiny, off)) - clean, abs=1e-4)
    assert "More heads cost no more parameters" in html(app)


def test_sharing_makes_symmetric_scores_and_two_maps(visit: Visit) -> None:
    app = visit("labs", lab="qkv", tried="guess=1;block=decoder;head=L1H1")
    row = re.search(r"lopsidedness.*?</tr>", html(app))
    assert row is not None and "<td>0.000</td>" in row[0]
    written = html(app)
    assert "K made by Q" in written and "V made by K" not in written  # 11 and 13 numbers wide
    assert "different widths" in written


def test_long_sentences_are_measured_over_all_layers_too(
    visit: Visit, tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "WHOLE", 0)  # the page keeps the opened layer alone
    app = visit("labs", lab="far", tried="guess=0", block="cross", text=LONGER)
    best = tv.trace(tiny, LONGER, check=False)
    weights = best.attention("encoder").reshape(-1, *[len(best.source)] * 2)
    mean = curve(charts(app)["lab-far-distance"], 1)
    hand = [np.diagonal(weights, -1, 1, 2), np.diagonal(weights, 1, 1, 2)]
    assert mean[1] == pytest.approx(np.mean(hand), rel=1e-5)
    for lab in ("masks", "padding"):
        app = visit("labs", lab=lab, tried="guess=0", block="encoder", layer="1")
        assert 'data-held="' in said(app, "verdict"), lab
    trace = run(tiny, Causal(on=False, stack="decoder"))
    ahead = np.triu(trace.attention("decoder"), 1).sum(-1).mean()
    app = visit("labs", lab="masks", tried="guess=0", block="encoder")
    assert f"without the mask {ahead:.0%} of the decoder" in html(app)


@pytest.mark.parametrize("lab", ["far", "masks", "padding"])
def test_a_sentence_of_too_many_cells_is_refused_before_the_guess(
    visit: Visit, lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_runs, "MAX_MAP_BYTES", 100)
    app = visit("labs", lab=lab, text=LONGER)
    assert "too long for this lab" in app.info[0].value


def test_what_was_set_in_a_lab_is_in_the_link(visit: Visit) -> None:
    app = visit("labs", lab="far", tried="guess=0")
    app.selectbox(key="try-far-head-en").set_value("L2H1").run()
    assert address(app)["tried"] == "guess=0;head=L2H1"
    assert "L2 H1" in charts(app)["lab-far-distance"]["data"][0]["name"]


def test_the_training_slider_speaks_of_the_snapshot(visit: Visit) -> None:
    app = visit("labs", lab="learning", tried="guess=3;step=1024", text="I love my dog.")
    assert not app.exception and not app.error
    wanted = tv.translate(tv.load("en-de-small/step-1024"), "I love my dog.")[0].text
    assert wanted in said(app, "said")
    figure = charts(app)["lab-learning-entropy"]
    end = tv.load("en-de-small")
    text = tv.translate(end, "I love my dog.")[0].text
    heads = tv.trace(end, "I love my dog.", target=text, check=False).heads
    cross = heads[heads["block"] == "cross"]["entropy"].mean()
    assert curve(figure, 4)[-1] == pytest.approx(cross, rel=1e-4)  # a mark follows each curve
    assert told(app) is not None
