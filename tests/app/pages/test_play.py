"""Play in Streamlit's own test runner: every choice, the link, every kind of model."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz import load
from transformer_viz.app.engine.model_kind import Kind
from transformer_viz.app.pages.play import _silent
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead
from transformer_viz.core.search_tree import LEFT_OUT
from transformer_viz.i18n import catalogue
from transformer_viz.inference.generation import translate

from ...support.component_events import trigger
from ...support.page_content import address, go, html, part, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT = "The cat sat."
OFF = Intervention((ScaleHead(value=0.0, stack="decoder", layer=0, head=1),))


def play(app: AppTest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the browser is sent."""
    assert not app.exception and not app.error
    return part(app, "play")


def ids(app: AppTest) -> list[str]:
    """The names of the shown text's tokens."""
    header, arrays = play(app)
    found, one = [], header["chosen"]
    while one >= 0:
        found.append(header["names"][arrays["tokens"][one]])
        one = int(arrays["parents"][one])
    return found[::-1]


def test_it_opens_with_the_search_that_the_other_pages_show(visit: Visit) -> None:
    app = visit()
    translation = said(app, "translation")
    app = go(app, "play")
    header, _ = play(app)
    assert header["way"] == "beam" and header["beam"] == 4 and header["played"] == 0
    assert header["written"][0] in translation
    assert header["words"][-1] == "</s>"
    assert "How does the model write its translation?" in html(app)
    assert "do not say why" in told(app)


@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_each_way_is_that_of_translate(visit: Visit, shelf: Any, way: str) -> None:
    app = visit("play", search=way, drawing="1.7", seed="5", beam="3")
    words: dict[str, Any] = {"sample": {"sample": 1.7, "seed": 5}, "beam": {"beam": 3}}.get(way, {})
    found = translate(load(str(shelf / "tiny"), device="cpu"), TEXT, **words)
    header, arrays = play(app)
    assert header["written"] == [one.text for one in found]
    assert [float(arrays["scores"][n]) for n in header["best"]] == pytest.approx(
        [one.score for one in found], rel=1e-5
    )


def test_every_choice_is_in_the_link(visit: Visit) -> None:
    app = visit("play")
    app.button_group(key="search").set_value("sample")
    app.run()
    before = ids(app)
    app.slider(key="drawing").set_value(3.0).run()
    assert address(app)["search"] == "sample" and address(app)["drawing"] == "3"
    hot = ids(app)
    assert hot != before
    app.button(key="redraw").click().run()
    assert address(app)["seed"] == "1" and ids(app) != hot
    link = address(app)
    again = visit("play", **link)
    assert ids(again) == ids(app) and address(again) == link


def test_the_width_of_the_beam_is_that_of_the_frame(visit: Visit) -> None:
    app = visit("play")
    app.selectbox(key="wide").set_value(2).run()
    header, _ = play(app)
    assert header["beam"] == 2 and len(header["best"]) == 2
    assert address(app)["beam"] == "2"
    assert app.selectbox(key="beam").value == 2
    app.selectbox(key="beam").set_value(5).run()
    assert play(app)[0]["beam"] == 5 and app.selectbox(key="wide").value == 5


def test_a_step_and_a_text_of_the_link_are_shown(visit: Visit) -> None:
    _, arrays = play(visit("play"))
    out = int(np.flatnonzero(arrays["fates"] == LEFT_OUT)[0])
    step = int(arrays["steps"][out])
    place = out - int(np.flatnonzero(arrays["steps"] == step)[0])
    app = visit("play", played=str(step), branch=f"{step}.{place}")
    header, _ = play(app)
    assert header["chosen"] == out and header["played"] == step
    assert not app.warning
    there = go(go(app, "norms"), "play")
    assert play(there)[0]["chosen"] == out and address(there)["branch"] == f"{step}.{place}"


def test_a_text_that_the_hand_chose_stands_in_the_link_as_a_link_names_it(visit: Visit) -> None:
    _, arrays = play(visit("play"))
    place = int(np.flatnonzero(arrays["steps"] == 0)[-1])
    branch = f"0.{place}"
    app = trigger(visit("play"), "play", "moved", {"played": 0, "branch": branch})
    assert play(app)[0]["chosen"] == place and address(app)["branch"] == branch
    assert not app.warning


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        (
            {"branch": "900.0"},
            "branch is '900.0', which this search did not weigh; its best text is",
        ),
        ({"branch": "0.99"}, "branch is '0.99', which this search did not weigh"),
        ({"branch": "winner"}, "branch is 'winner', which this search did not weigh"),
        ({"played": "999"}, "In the link, played is 999; this text has the steps 0 to "),
        ({"played": "-1"}, "In the link, played is '-1'; it must be a whole number from 0"),
        ({"search": "deep"}, "In the link, search is 'deep'; it can be greedy, sample, beam"),
        ({"drawing": "0"}, "In the link, drawing is '0'; it must be a number from 0.1 to 5"),
        ({"pooled": "yes"}, "In the link, pooled is 'yes'; it can be on, off"),
    ],
)
def test_what_a_link_cannot_have_is_said(visit: Visit, link: dict[str, str], sentence: str) -> None:
    app = visit("play", **link)
    assert sentence in told(app)
    assert play(app)[0]["chosen"] == play(app)[0]["best"][0]


def test_another_sentence_begins_at_its_first_word(visit: Visit) -> None:
    app = visit("play", played="3", branch="1.2")
    app.text_input(key="text").set_value("A dog saw the cat.").run()
    header, _ = play(app)
    assert header["played"] == 0 and header["chosen"] == header["best"][0]
    assert "branch" not in address(app) and not app.warning


def test_another_search_of_it_keeps_the_step(visit: Visit) -> None:
    app = visit("play", played="2")
    app.button_group(key="search").set_value("greedy")
    app.run()
    assert play(app)[0]["played"] == 2


def test_a_changed_run_plays_what_the_changed_model_writes(visit: Visit, shelf: Any) -> None:
    app = visit("play", edits=OFF.to_json(), search="greedy")
    model = load(str(shelf / "tiny"), device="cpu")
    clean, changed = (translate(model, TEXT, intervention=i)[0].text for i in (None, OFF))
    header, _ = play(app)
    assert header["written"] == [changed] and header["before"] == clean
    app.button_group(key="run").set_value("before")
    app.run()
    header, _ = play(app)
    assert header["written"] == [clean] and address(app)["compare"] == "before"
    assert play(go(go(app, "norms"), "play"))[0]["written"] == [clean]


def test_padding_stands_among_the_words(visit: Visit) -> None:
    pad = Intervention((Pad(count=2, masked=False),))
    clean = play(visit("play"))[0]["words"]
    header, arrays = play(visit("play", edits=pad.to_json()))
    assert len(header["words"]) == len(clean) + 2 == arrays["rows"].shape[-1]


def test_the_row_is_that_of_the_opened_head(visit: Visit) -> None:
    app = visit("play", layer="1", head="1", pooled="off")
    header, arrays = play(app)
    assert (header["layer"], header["head"], header["pooled"]) == (1, 1, False)
    assert arrays["rows"].shape[1] == 2


def test_a_typed_target_is_not_played(visit: Visit) -> None:
    app = visit("play", target="the cat", search="greedy")
    assert "A target was typed" in told(app)
    assert play(app)[0]["written"] == play(visit("play", search="greedy"))[0]["written"]


def test_a_text_that_is_too_long_to_play_says_so(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 texts x 19 steps x 2 layers x 2 heads x 8 tokens x 4 bytes, or a byte less."""
    tokens = len(play(visit("play"))[0]["words"])
    size = 4 * 3 * (int(1.4 * tokens) + 8) * 2 * 2 * tokens
    monkeypatch.setattr("transformer_viz.app.engine.search_jobs.MAX_ROWS_BYTES", size)
    play(visit("play", beam="3"))
    monkeypatch.setattr("transformer_viz.app.engine.search_jobs.MAX_ROWS_BYTES", size - 1)
    app = visit("play", beam="3", text="The cat sat!")
    assert f"This text has {tokens} tokens: with 3 texts kept" in told(app)


def test_a_language_model_goes_on(meet: Visit) -> None:
    app = meet("lm", "play", text="The cat", beam="2")
    header, arrays = play(app)
    assert header["block"] == "decoder" and header["start"] == "The cat"
    assert "How does the model go on with the text?" in html(app)
    keys = arrays["keys"][arrays["owners"] == -1][0]
    assert len(header["words"]) == keys


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("mlm", "reads a whole sentence at once and writes nothing by itself"),
        ("vit", "names a class and writes no words"),
        ("core", "gives vectors and no words"),
    ],
)
def test_a_model_that_writes_nothing_says_why(meet: Visit, model: str, why: str) -> None:
    app = meet(model, "play")
    assert not app.exception and not app.error
    assert why in told(app) and "Choose a translation model" in told(app)


def test_a_model_that_judges_is_said_to_do_what_it_does() -> None:
    shelf = {"m": SimpleNamespace(called="M")}
    for gives, task, words in (
        ("classes", "single_label", "names a class and"),
        ("classes", "multi_label", "names labels, none, one or several"),
        ("classes", "regression", "gives a score and"),
        ("tags", "single_label", "names a class for each token"),
        ("tags", "regression", "gives a score for each token"),
        ("spans", "", "marks an answer"),
    ):
        scene: Any = SimpleNamespace(
            kind=Kind("encoder-only", gives=gives, task=task),
            engine=SimpleNamespace(shelf=shelf),
            question=SimpleNamespace(model="m"),
        )
        assert words in _silent(scene), (gives, task)


def test_it_speaks_chinese(visit: Visit) -> None:
    app = visit("play", lang="zh", search="sample")
    header, _ = play(app)
    words = catalogue("zh")
    assert words["How does the model write its translation?"] in html(app)
    assert header["texts"]["play"] == words["play"]
