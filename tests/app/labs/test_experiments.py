"""The numbers of the labs against the library, or against sums of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.component_stage import decoded
from tests.support.tiny_labs import labs as labs  # the box with the tiny models
from tests.support.tiny_labs import tiny_box as tiny_box
from tests.support.widgets import fine, put
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
from transformer_viz.metrics.attention.score_variance import random_spread
from transformer_viz.metrics.output.surprisal import held_bits
from transformer_viz.metrics.residual.similarity import alikeness

from ...support.page_content import address, array, charts, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT, LONGER = "The cat sat.", "The cat sat and the dog sat."
VERDICT = 'data-what="verdict"'


@pytest.fixture(scope="module")
def tiny(shelf: Path) -> Model:
    return tv.load(shelf / "tiny")


@cache
def run(model: Model, *edits: Edit) -> Trace:
    """The clean run, or a changed one over the same words, as `trace` gives it by itself."""
    words: dict[str, Any] = {"keep": ("weights", "scores", "hidden"), "check": False}
    if not edits:
        best = tv.translate(model, TEXT, beam=4)[0]
        ids = list(best.ids[:-1] if best.finished else best.ids)
        return tv.trace(model, TEXT, [model.bos_id, *ids], **words)
    clean = run(model)
    assert clean.target is not None and clean.produced is not None
    words |= {"target": list(clean.target.ids), "produced": list(clean.produced.ids)}
    return tv.trace(model, TEXT, intervention=Intervention(edits), **words)


def bits(trace: Trace) -> float:
    return float(held_bits(trace).sum())


def curve(figure: dict[str, Any], number: int) -> np.ndarray:
    return array(figure["data"][number]["y"])


def lines(app: AppTest, key: str) -> dict[str, np.ndarray]:
    """The curves of a figure by their names."""
    return {
        line["name"]: array(line["y"])
        for line in charts(app)[key]["data"]
        if line.get("name") and line.get("hovertemplate")
    }


def maps(app: AppTest) -> list[np.ndarray]:
    """The weights of the heads that stand side by side."""
    sent = [decoded(one.proto.bytes) for one in app.get("bidi_component") if one.proto.bytes]
    return [arrays["weights"] for head, arrays in sent if head["part"] == "head"]


@pytest.fixture
def lab(visit: Visit) -> Visit:
    """Opens a lab with a prediction, which it answers; other settings follow in `tried`."""

    def opened(name: str, tried: str = "guess=1", **link: str) -> AppTest:
        app = fine(visit("labs", lab=name, tried=tried, **link), name)
        assert 'data-held="' in said(app, "verdict"), name
        return app

    return opened


# ---- Labs of the architecture


def test_the_variance_that_is_drawn_is_the_one_that_was_measured(lab: Visit, meet: Visit) -> None:
    app = lab("scale")
    rows = lines(app, "lab-scale-row")
    assert all(line.sum() == pytest.approx(1) for line in rows.values())
    keys = len(app.session_state["_maps"]) and len(next(iter(rows.values())))
    drawn, widths = lines(app, "lab-scale-variance"), [4, 8, 16, 32, 64, 128, 256]
    wanted = [random_spread(d_k, keys).variance for d_k in widths]
    assert drawn["random vectors"] == pytest.approx(wanted)
    assert list(drawn["theory: dₖ"]) == widths
    assert len(drawn["heads of this model"]) == 2 * (3 + 2 + 2)
    app = fine(meet("vit", "labs", lab="scale", tried="guess=1"))
    assert len(lines(app, "lab-scale-variance")["heads of this model"]) > 1


def test_five_models_stand_side_by_side(lab: Visit, labs: Path) -> None:
    app = lab("scores", "guess=4;softness=hard")
    assert 'data-held="right"' in said(app, "verdict")  # the box's lowest score
    assert all(f"<td>{score:.1f}</td>" in html(app) for score in (20.5, 19.5, 18.5, 17.5, 16.5))
    assert len(maps(app)) == 5
    for weights in maps(app):
        assert np.allclose(weights.max(axis=1), 1)  # one key takes all
    for weights in maps(lab("scores", "guess=show;window=1")):
        rows, columns = np.indices(weights.shape)
        assert not np.nan_to_num(weights)[np.abs(rows - columns) > 1].any()  # near words only


def test_the_score_of_several_trainings_is_their_mean_with_the_least_and_the_most(
    lab: Visit, labs: Path
) -> None:
    paths = [path / "config.json" for path in (labs / "labs").iterdir()]
    before = {path: path.read_text(encoding="utf-8") for path in paths}
    for others, shown, words in (
        ((), "20.5", "with the same seed"),
        ((19.0, 22.3), "20.6 (19.0–22.3)", "3 times from other random weights"),
    ):
        try:
            for path, text in before.items():
                config = json.dumps(json.loads(text) | {"bleu_seeds": others})
                path.write_text(config, encoding="utf-8")
            app = lab("scores", "guess=4")
        finally:
            for path, text in before.items():
                path.write_text(text, encoding="utf-8")
        text = told(app) + html(app)
        assert shown in text and words in text, others


def test_positions_and_norms(lab: Visit, visit: Visit, labs: Path) -> None:
    app = lab("positions", text="The cat saw the dog.")
    assert 'data-held="right"' in said(app, "verdict")
    errors = lines(app, "lab-positions-shifts")  # without positions no shuffle is noticed
    assert errors["sinusoidal"].max() < 1e-5 < errors["learned"].min()
    app = fine(visit("labs", lab="positions", tried="guess=1", text="Go."))
    assert "no other order" in told(app) and VERDICT not in html(app)

    app = lab("norms")  # only batch norm knows the neighbours
    assert 'data-held="right"' in said(app, "verdict")
    moved = lines(app, "lab-norms-changes")
    assert moved["layer norm"].max() < 1e-4 < moved["batch norm"].min()
    without = lines(app, "lab-norms-numbers")["batch norm, second batch"]
    fine(put(app, {"try-norms-padding-en": True}))
    assert not np.allclose(without, lines(app, "lab-norms-numbers")["batch norm, second batch"])


def test_gradients_of_fresh_models(lab: Visit, labs: Path) -> None:
    app = lab("pre-post", "guess=1;layers=4")
    drawn = lines(app, "lab-pre-post-gradients")
    assert {len(sizes) for sizes in drawn.values()} == {4} and len(drawn) == 2
    lengths = lines(app, "lab-pre-post-lengths")
    assert lengths["norm before (pre)"][-1] > lengths["norm before (pre)"][0]
    assert np.ptp(lengths["norm after the sum (post)"][1:]) < 0.01  # each is normalised
    assert len(lines(app, "lab-pre-post-trained")["norm before (pre)"]) == 1 + 3 * 2


# ---- Labs of the mechanism


def test_the_labs_of_masks_padding_and_window_show_the_changed_runs(
    lab: Visit, tiny: Model
) -> None:
    drawn = charts(lab("masks", "guess=2"))
    for number, edits in enumerate(((), (Causal(on=False, stack="decoder"),))):
        produced = run(tiny, *edits).produced
        assert produced is not None
        shown = curve(drawn["lab-masks-words"], number)
        assert shown == pytest.approx(produced.probability, rel=1e-4), edits
    noticed = drawn["lab-masks-noticed"]
    assert not curve(noticed, 0)[:-1].any() and curve(noticed, 1)[:-1].any()

    page = html(lab("padding", "guess=1;count=5"))
    for edits in ((), (Pad(count=5),), (Pad(count=5, masked=False),)):
        assert f"<td>{bits(run(tiny, *edits)):.2f}</td>" in page, edits
    weights = run(tiny, Pad(count=5, masked=False)).attention("encoder")
    padded = weights[..., len(tv.trace(tiny, TEXT, check=False).source) :]
    assert f"{padded.sum(-1).mean():.0%} of the encoder" in page

    figure = charts(lab("window", "guess=1;where=all"))["lab-window-radius"]
    radii, clean = array(figure["data"][0]["x"]), bits(run(tiny))
    for radius, shown in zip(radii, curve(figure, 0), strict=True):
        cost = bits(run(tiny, Window(radius=int(radius)))) - clean
        assert shown == pytest.approx(cost, abs=1e-4), radius
    assert radii[-1] >= 8


def test_the_labs_of_residuals_heads_and_sharing(lab: Visit, tiny: Model) -> None:
    app = lab("residual", "guess=2;stack=decoder;layer=1")
    figure = charts(app)["lab-residual-alike"]
    edit = ScaleResidual(value=0, stack="decoder", layer=1)
    for number, edits in enumerate(((edit,), ())):
        wanted = alikeness(run(tiny, *edits).hidden("decoder"))
        assert curve(figure, number) == pytest.approx(wanted, rel=1e-4), edits
    assert f"The held text costs {bits(run(tiny, edit)):.1f} bits" in html(app)

    lab("position-wise", "guess=0", text=LONGER)
    app, clean = lab("heads", "guess=show"), bits(run(tiny))
    shown = heatmap(charts(app)["lab-heads-cross"])
    assert shown.shape == (2, 2)
    for layer, head in np.ndindex(2, 2):
        off = ScaleHead(value=0, stack="decoder", block="cross", layer=layer, head=head)
        assert shown[layer, head] == pytest.approx(bits(run(tiny, off)) - clean, abs=1e-4)
    assert "More heads cost no more parameters" in html(app)

    page = html(lab("qkv", "guess=1;block=decoder;head=L1H1"))
    row = re.search(r"lopsidedness.*?</tr>", page)
    assert row is not None and "<td>0.000</td>" in row[0]
    assert "K made by Q" in page and "V made by K" not in page  # 11 and 13 numbers wide
    assert "different widths" in page


def test_long_sentences_are_measured_over_all_layers_too(
    lab: Visit, visit: Visit, tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = put(lab("far", "guess=0"), {"try-far-head-en": "L2H1"})
    assert address(app)["tried"] == "guess=0;head=L2H1"
    assert "L2 H1" in charts(app)["lab-far-distance"]["data"][0]["name"]
    monkeypatch.setattr(engine, "WHOLE", 0)  # the page keeps the opened layer alone
    app = lab("far", "guess=0", block="cross", text=LONGER)
    best = tv.trace(tiny, LONGER, check=False)
    weights = best.attention("encoder").reshape(-1, *[len(best.source)] * 2)
    hand = [np.diagonal(weights, -1, 1, 2), np.diagonal(weights, 1, 1, 2)]
    mean = curve(charts(app)["lab-far-distance"], 1)
    assert mean[1] == pytest.approx(np.mean(hand), rel=1e-5)
    for name in ("masks", "padding"):
        lab(name, "guess=0", block="encoder", layer="1")
    trace = run(tiny, Causal(on=False, stack="decoder"))
    ahead = np.triu(trace.attention("decoder"), 1).sum(-1).mean()
    app = lab("masks", "guess=0", block="encoder")
    assert f"without the mask {ahead:.0%} of the decoder" in html(app)
    monkeypatch.setattr(whole_runs, "MAX_MAP_BYTES", 100)  # refused before the guess
    for name in ("far", "masks", "padding"):
        app = visit("labs", lab=name, text=LONGER)
        assert "too long for this lab" in app.info[0].value, name


@pytest.mark.shipped
def test_the_training_slider_speaks_of_the_snapshot(lab: Visit) -> None:
    text = "I love my dog."
    app = lab("learning", "guess=3;step=1024", text=text)
    wanted = tv.translate(tv.load("en-de-small/step-1024"), text)[0].text
    assert wanted in said(app, "said")
    end = tv.load("en-de-small")
    heads = tv.trace(end, text, target=tv.translate(end, text)[0].text, check=False).heads
    cross = heads[heads["block"] == "cross"]["entropy"].mean()
    figure = charts(app)["lab-learning-entropy"]
    assert curve(figure, 4)[-1] == pytest.approx(cross, rel=1e-4)  # a mark follows each curve
