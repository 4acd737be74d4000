"""The page Labs: a question, a prediction, an experiment, a reveal; all of it in the link."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.support.model_kinds import NAMES
from tests.support.page_content import address, array, chart, go, html, said, told
from tests.support.tiny_labs import labs as labs  # the box with the tiny models
from tests.support.tiny_labs import tiny_box as tiny_box
from transformer_viz.metrics.attention.score_variance import random_spread

Visit = Callable[..., AppTest]
VERDICT = 'data-what="verdict"'
MINE = ("scale", "scores", "positions", "norms", "pre-post")


def _well(app: AppTest) -> AppTest:
    assert not app.exception and not app.error, told(app)
    return app


def _lines(app: AppTest, key: str) -> dict[str, np.ndarray]:
    """The curves of a figure by their names."""
    return {
        line["name"]: array(line["y"])
        for line in chart(app, key)["data"]
        if line.get("name") and line.get("hovertemplate")
    }


@pytest.mark.parametrize("lab", MINE)
def test_nothing_is_revealed_before_a_prediction(visit: Visit, labs: Path, lab: str) -> None:
    app = _well(visit("labs", lab=lab))
    assert '<h2 class="tv-lab-question">' in html(app) and VERDICT not in html(app)
    drawn = [one for one in app.get("bidi_component") if one.key != "language"]
    assert not app.get("plotly_chart") and not drawn
    app.button(key=f"guess-{lab}-0").click().run()
    assert VERDICT in html(_well(app))
    assert address(app)["tried"] == "guess=0"
    app.button(key=f"again-{lab}").click().run()
    assert VERDICT not in html(_well(app)) and "tried" not in address(app)


def test_right_and_wrong_predictions_are_told_apart(visit: Visit) -> None:
    for guess, held in (("0", "wrong"), ("1", "right"), ("2", "wrong"), ("show", "shown")):
        app = _well(visit("labs", lab="scale", tried=f"guess={guess}"))
        assert f'data-held="{held}"' in said(app, "verdict")


def test_a_link_that_cannot_be_had_is_said(visit: Visit) -> None:
    app = _well(visit("labs", lab="<b>none", tried="guess=1;width=65;gibberish"))
    assert app.session_state["lab"] == "scale"
    assert "lab is '<b>none', which is not here" in told(app)
    assert "tried has parts that are no settings" in told(app)
    assert "tried sets width to '65'" in told(app)
    assert address(app)["tried"] == "guess=1"


def test_settings_survive_other_labs_and_other_pages(visit: Visit) -> None:
    app = _well(visit("labs", lab="scale", tried="guess=1"))
    app.select_slider(key="try-scale-width-en").set_value("16").run()
    assert address(app)["tried"] == "guess=1;width=16"
    app.button(key="step-on").click().run()
    assert address(app)["lab"] == "scores" and "tried" not in address(app)
    app.button(key="step-back").click().run()
    assert address(app)["tried"] == "guess=1;width=16"
    for page in ("norms", "positions", "", "lessons", "labs"):
        app = _well(go(app, page))
        assert address(app)["lab"] == "scale" and address(app)["tried"] == "guess=1;width=16"
    assert app.select_slider(key="try-scale-width-en").value == "16"


def test_the_variance_that_is_drawn_is_the_one_that_was_measured(visit: Visit) -> None:
    app = _well(visit("labs", lab="scale", tried="guess=1"))
    keys = len(app.session_state["_maps"]) and len(_row(app))
    drawn = _lines(app, "lab-scale-variance")
    assert drawn["random vectors"] == pytest.approx(
        [random_spread(d_k, keys).variance for d_k in (4, 8, 16, 32, 64, 128, 256)]
    )
    assert list(drawn["theory: dₖ"]) == [4, 8, 16, 32, 64, 128, 256]
    assert len(drawn["heads of this model"]) == 2 * (3 + 2 + 2)
    for line in _lines(app, "lab-scale-row").values():
        assert line.sum() == pytest.approx(1)


def _row(app: AppTest) -> np.ndarray:
    return next(iter(_lines(app, "lab-scale-row").values()))


def test_five_models_stand_side_by_side(visit: Visit, labs: Path) -> None:
    app = _well(visit("labs", lab="scores", tried="guess=4;softness=hard"))
    assert 'data-held="right"' in said(app, "verdict")  # the box's lowest score
    assert all(f"<td>{score:.1f}</td>" in html(app) for score in (20.5, 19.5, 18.5, 17.5, 16.5))
    from tests.support.component_stage import decoded

    maps = [decoded(one.proto.bytes) for one in app.get("bidi_component") if one.proto.bytes]
    maps = [(head, arrays) for head, arrays in maps if head["part"] == "head"]
    assert len(maps) == 5
    for _, arrays in maps:
        assert np.allclose(arrays["weights"].max(axis=1), 1)  # one key takes all


@pytest.mark.parametrize(
    ("others", "shown", "said"),
    [
        ((), "20.5", "with the same seed"),
        ((19.0, 22.3), "20.6 (19.0–22.3)", "3 times from other random weights"),
    ],
)
def test_the_score_of_several_trainings_is_their_mean_with_the_least_and_the_most(
    visit: Visit, labs: Path, others: tuple[float, ...], shown: str, said: str
) -> None:
    paths = [path / "config.json" for path in (labs / "labs").iterdir()]
    before = {path: path.read_text(encoding="utf-8") for path in paths}
    try:
        for path, text in before.items():
            path.write_text(json.dumps(json.loads(text) | {"bleu_seeds": others}), encoding="utf-8")
        app = _well(visit("labs", lab="scores", tried="guess=4"))
    finally:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
    text = told(app) + html(app)
    assert shown in text
    assert said in text


def test_a_window_leaves_near_words_only(visit: Visit, labs: Path) -> None:
    from tests.support.component_stage import decoded

    app = _well(visit("labs", lab="scores", tried="guess=show;window=1"))
    for one in app.get("bidi_component"):
        head, arrays = decoded(one.proto.bytes) if one.proto.bytes else ({}, {})
        if head.get("part") == "head":
            rows, columns = np.indices(arrays["weights"].shape)
            assert not np.nan_to_num(arrays["weights"])[np.abs(rows - columns) > 1].any()


def test_a_model_without_positions_does_not_notice_a_shuffle(visit: Visit, labs: Path) -> None:
    app = _well(visit("labs", lab="positions", tried="guess=1", text="The cat saw the dog."))
    assert 'data-held="right"' in said(app, "verdict")
    errors = _lines(app, "lab-positions-shifts")
    assert errors["sinusoidal"].max() < 1e-5 < errors["learned"].min()


def test_a_word_alone_has_no_other_order(visit: Visit, labs: Path) -> None:
    app = _well(visit("labs", lab="positions", tried="guess=1", text="Go."))
    assert "no other order" in told(app) and VERDICT not in html(app)


def test_only_batch_norm_knows_the_neighbours(visit: Visit) -> None:
    app = _well(visit("labs", lab="norms", tried="guess=1"))
    assert 'data-held="right"' in said(app, "verdict")
    moved = _lines(app, "lab-norms-changes")
    assert moved["layer norm"].max() < 1e-4 < moved["batch norm"].min()
    without = _lines(app, "lab-norms-numbers")["batch norm, second batch"]
    app.toggle(key="try-norms-padding-en").set_value(True).run()
    counted = _lines(_well(app), "lab-norms-numbers")["batch norm, second batch"]
    assert not np.allclose(without, counted)


def test_gradients_of_fresh_models(visit: Visit, labs: Path) -> None:
    app = _well(visit("labs", lab="pre-post", tried="guess=1;layers=4"))
    drawn = _lines(app, "lab-pre-post-gradients")
    assert {len(sizes) for sizes in drawn.values()} == {4} and len(drawn) == 2
    lengths = _lines(app, "lab-pre-post-lengths")
    assert lengths["norm before (pre)"][-1] > lengths["norm before (pre)"][0]
    assert np.ptp(lengths["norm after the sum (post)"][1:]) < 0.01  # each is normalised
    assert len(_lines(app, "lab-pre-post-trained")["norm before (pre)"]) == 1 + 3 * 2


def test_without_the_tiny_models_a_sentence_says_so(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer_viz.checkpoints.common import bundled as box

    monkeypatch.setattr(box, "PRETRAINED", tmp_path)
    for lab in ("scores", "positions", "pre-post"):
        app = _well(visit("labs", lab=lab, tried="guess=0"))
        assert "tiny models of this lab are not in this box" in told(app)


@pytest.mark.parametrize("lab", ["scores", "positions", "norms", "pre-post"])
def test_a_model_that_reads_no_sentence_says_why(meet: Visit, lab: str) -> None:
    app = _well(meet("vit", "labs", lab=lab, tried="guess=0"))
    assert VERDICT not in html(app) and "hoose" in told(app)


def test_a_model_of_pictures_has_products_too(meet: Visit) -> None:
    app = _well(meet("vit", "labs", lab="scale", tried="guess=1"))
    assert len(_lines(app, "lab-scale-variance")["heads of this model"]) > 1


@pytest.mark.parametrize("model", NAMES)
@pytest.mark.parametrize("lab", MINE)
def test_every_kind_of_model_is_served_or_told_why(
    meet: Visit, labs: Path, model: str, lab: str
) -> None:
    app = _well(meet(model, "labs", lab=lab, tried="guess=0"))
    assert VERDICT in html(app) or told(app)
