"""The pages Step inside and Play: every choice, what follows from it, and the link."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.support.widgets import click, fine, ok, put, runs
from transformer_viz import load
from transformer_viz.app.engine.model_kind import Kind
from transformer_viz.app.pages.play import _silent
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature
from transformer_viz.core.search_tree import LEFT_OUT
from transformer_viz.i18n import catalogue
from transformer_viz.inference.generation import translate

from ...support.component_events import trigger
from ...support.model_kinds import NAMES
from ...support.page_content import address, go, html, part, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
Part = tuple[dict[str, Any], dict[str, np.ndarray]]
TEXT = "The cat sat."
WARM = Intervention((Temperature(value=4.0),)).to_json()
OFF = Intervention((ScaleHead(value=0.0, stack="decoder", layer=0, head=1),))


# ---- Step inside


def opened(app: AppTest) -> str:
    """The name of the open station."""
    header, _ = part(app, "inside")
    return str(header["stations"][header["step"]]["name"])


def test_the_chain_of_the_chosen_head_and_word_is_shown(visit: Visit) -> None:
    app = fine(visit("step-inside"))
    header, arrays = part(app, "inside")
    assert header["step"] == 0 and header["sum"] is None and header["problem"] == ""
    names = [station["name"] for station in header["stations"]]
    assert names[:2] == ["embedding.embedding", "position.embedding"]
    assert arrays["weights"].sum() == pytest.approx(1, abs=1e-5)
    for block in ("encoder", "decoder", "cross"):
        app = put(visit("step-inside"), {"block": block})
        fine(put(app, {"layer": 1, "head": 1, "token": 2}), block)
        header, _ = part(app, "inside")
        assert header["label"].endswith("L1 H1") and header["token"] == 2, block
        assert header["row"] == header["rows"]["labels"][2], block
        link = address(app)
        assert (link["layer"], link["head"], link["token"]) == ("1", "1", "2"), block
    assert part(fine(visit("step-inside", present="on")), "inside")[0]["present"]
    chinese = part(fine(visit("step-inside", lang="zh")), "inside")[0]
    assert chinese["stations"][0]["title"] == "词变成数"


def test_station_and_number_come_from_the_link_and_survive_every_page(visit: Visit) -> None:
    app = fine(visit("step-inside", block="encoder", step="4", number="score.self/out/2"))
    header, arrays = part(app, "inside")
    assert opened(app) == "score.self" and header["sum"]["address"] == "score.self/out/2"
    total = float(arrays["sum_a"].astype(np.float64) @ arrays["sum_b"])
    assert total == pytest.approx(arrays["score.self/out"][2], rel=1e-5, abs=1e-6)
    before = address(app)
    assert (before["step"], before["number"]) == ("4", "score.self/out/2")
    for page in ("positions", "norms", "about", "step-inside"):
        runs(go(app, page), page)
    assert before.items() <= address(app).items() and opened(app) == "score.self"


def test_a_change_and_another_block_keep_the_station(visit: Visit) -> None:
    app = visit("step-inside", block="encoder", step="8")
    clean = part(app, "inside")[1]
    assert opened(app) == "softmax.self"
    fine(put(app, {"head_state": "uniform"}))
    header, arrays = part(app, "inside")
    assert opened(app) == "softmax.self"
    assert header["stations"][header["step"]]["title"] == "All alike"
    alike = 1 / len(clean["weights"])
    assert np.allclose(arrays["weights"], alike) and not np.allclose(clean["weights"], alike)
    click(app, "clean")
    assert np.array_equal(part(app, "inside")[1]["weights"], clean["weights"])
    for block, name in (("cross", "softmax.cross"), ("decoder", "softmax.self")):
        fine(put(app, {"block": block}), block)
        assert opened(app) == name
        assert address(app)["step"] == str(part(app, "inside")[0]["step"]), block
    warm = part(visit("step-inside", block="encoder", edits=WARM), "inside")[1]
    scores = "temperature.self/out"
    np.testing.assert_allclose(warm[scores], clean[scores] / 4, rtol=1e-5, atol=1e-7)


def test_every_station_stays_when_the_page_runs_again(visit: Visit) -> None:
    """Twice at a third of the stations of each block, by turns."""
    for turn, block in enumerate(("encoder", "decoder", "cross")):
        app = visit("step-inside", block=block, layer="1")
        for step, station in enumerate(part(app, "inside")[0]["stations"]):
            app.session_state["step"] = step
            for _ in range(1 + (step % 3 == turn)):
                assert opened(app.run()) == station["name"], (block, step)


def test_every_kind_of_model_has_its_chain_or_says_why(meet: Visit) -> None:
    links = {"lm": {"text": TEXT}, "mlm": {"text": TEXT}, "ids": {"text": "2 5 3"}}
    for model in NAMES:
        app = ok(meet(model, "step-inside", token="1", **links.get(model, {})), model)
        header, arrays = part(app, "inside")
        first = header["stations"][0]
        assert bool(header["problem"]) == (model == "vit")
        assert first["name"] == ("score.self" if model == "vit" else "embedding.embedding")
        assert arrays["weights"].sum() == pytest.approx(1, abs=1e-5), model
        assert (first["title"] == "The numbers that were given") == (model == "core")


# ---- Play


def play(app: AppTest) -> Part:
    """Return what the browser receives."""
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
    assert header["written"][0] in translation and header["words"][-1] == "</s>"
    assert "How does the model write its translation?" in html(app)
    assert "do not say why" in told(app)
    put(app, {"wide": 2})  # the width of the beam is that of the frame
    header, _ = play(app)
    assert header["beam"] == 2 and len(header["best"]) == 2 and address(app)["beam"] == "2"
    assert app.selectbox(key="beam").value == 2
    put(app, {"beam": 5})
    assert play(app)[0]["beam"] == 5 and app.selectbox(key="wide").value == 5
    app = visit("play", lang="zh", search="sample")
    words = catalogue("zh")
    assert words["How does the model write its translation?"] in html(app)
    assert play(app)[0]["texts"]["play"] == words["play"]


def test_each_way_and_a_changed_run_are_those_of_translate(visit: Visit, shelf: Any) -> None:
    model = load(str(shelf / "tiny"), device="cpu")
    ways: dict[str, dict[str, Any]] = {
        "greedy": {}, "sample": {"sample": 1.7, "seed": 5}, "beam": {"beam": 3},
    }  # fmt: skip
    for way, words in ways.items():
        found = translate(model, TEXT, **words)
        header, arrays = play(visit("play", search=way, drawing="1.7", seed="5", beam="3"))
        assert header["written"] == [one.text for one in found], way
        scores = [float(arrays["scores"][n]) for n in header["best"]]
        assert scores == pytest.approx([one.score for one in found], rel=1e-5), way
    app = visit("play", edits=OFF.to_json(), search="greedy")
    clean, changed = (translate(model, TEXT, intervention=i)[0].text for i in (None, OFF))
    header, _ = play(app)
    assert header["written"] == [changed] and header["before"] == clean
    put(app, {"run": "before"})
    assert play(app)[0]["written"] == [clean] and address(app)["compare"] == "before"
    assert play(go(go(app, "norms"), "play"))[0]["written"] == [clean]


def test_every_choice_is_in_the_link(visit: Visit) -> None:
    app = put(visit("play"), {"search": "sample"})
    before = ids(app)
    put(app, {"drawing": 3.0})
    assert address(app)["search"] == "sample" and address(app)["drawing"] == "3"
    hot = ids(app)
    assert hot != before
    click(app, "redraw")
    assert address(app)["seed"] == "1" and ids(app) != hot
    again = visit("play", **address(app))
    assert ids(again) == ids(app) and address(again) == address(app)


def test_a_step_and_a_text_come_from_the_link_and_the_hand(visit: Visit) -> None:
    _, arrays = play(visit("play"))
    out = int(np.flatnonzero(arrays["fates"] == LEFT_OUT)[0])
    step = int(arrays["steps"][out])
    branch = f"{step}.{out - int(np.flatnonzero(arrays['steps'] == step)[0])}"
    app = visit("play", played=str(step), branch=branch)
    header, _ = play(app)
    assert header["chosen"] == out and header["played"] == step and not app.warning
    there = go(go(app, "norms"), "play")
    assert play(there)[0]["chosen"] == out and address(there)["branch"] == branch
    place = int(np.flatnonzero(arrays["steps"] == 0)[-1])
    moved = {"played": 0, "branch": f"0.{place}"}
    app = trigger(visit("play"), "play", "moved", moved)
    assert play(app)[0]["chosen"] == place and address(app)["branch"] == f"0.{place}"
    assert not app.warning


def test_another_sentence_begins_anew_and_another_search_keeps_the_step(visit: Visit) -> None:
    app = put(visit("play", played="3", branch="1.2"), {"text": "A dog saw the cat."})
    header, _ = play(app)
    assert header["played"] == 0 and header["chosen"] == header["best"][0]
    assert "branch" not in address(app) and not app.warning
    app = put(visit("play", played="2"), {"search": "greedy"})
    assert play(app)[0]["played"] == 2


def test_padding_the_opened_head_and_a_typed_target(visit: Visit) -> None:
    pad = Intervention((Pad(count=2, masked=False),))
    clean = play(visit("play"))[0]["words"]
    header, arrays = play(visit("play", edits=pad.to_json()))
    assert len(header["words"]) == len(clean) + 2 == arrays["rows"].shape[-1]
    header, arrays = play(visit("play", layer="1", head="1", pooled="off"))
    assert (header["layer"], header["head"], header["pooled"]) == (1, 1, False)
    assert arrays["rows"].shape[1] == 2
    app = visit("play", target="the cat", search="greedy")  # a typed target is not played
    assert "A target was typed" in told(app)
    assert play(app)[0]["written"] == play(visit("play", search="greedy"))[0]["written"]


def test_a_text_that_is_too_long_to_play_says_so(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 texts x 19 steps x 2 layers x 2 heads x 8 tokens x 4 bytes, or a byte less."""
    limit = "transformer_viz.app.engine.search_jobs.MAX_ROWS_BYTES"
    tokens = len(play(visit("play"))[0]["words"])
    size = 4 * 3 * (int(1.4 * tokens) + 8) * 2 * 2 * tokens
    monkeypatch.setattr(limit, size)
    play(visit("play", beam="3"))
    monkeypatch.setattr(limit, size - 1)
    app = visit("play", beam="3", text="The cat sat!")
    assert f"This text has {tokens} tokens: with 3 texts kept" in told(app)


def test_other_kinds_go_on_or_say_why_not(meet: Visit) -> None:
    app = meet("lm", "play", text="The cat", beam="2")
    header, arrays = play(app)
    assert header["block"] == "decoder" and header["start"] == "The cat"
    assert "How does the model go on with the text?" in html(app)
    assert len(header["words"]) == arrays["keys"][arrays["owners"] == -1][0]
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
