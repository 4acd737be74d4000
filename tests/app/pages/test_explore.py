"""The page Explore: what a visitor does, and what becomes of it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.component_stage import decoded
from tests.support.widgets import click, fine, keys, ok, put, runs
from transformer_viz.app import page_template
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.session.url_edits import PACK_FROM_CHARS
from transformer_viz.app.ui.text_format import JOINER
from transformer_viz.checkpoints.common.bundled import CONFIG, EXAMPLE, WEIGHTS
from transformer_viz.core.interventions import Intervention, Pad, ScaleHead, Temperature

from ...support.component_events import slide
from ...support.page_content import (
    address,
    chips,
    component,
    html,
    panel,
    part,
    shown_part,
    tiles,
    told,
    unnumbered,
)
from ..conftest import new_visit

pytestmark = pytest.mark.app

Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=4.0),)).to_json()


def pictures(app: AppTest) -> list[str]:
    """Return which of our pictures are on the page."""
    parts = [shown_part(one.proto) for one in app.get("bidi_component")]
    return [part for part in parts if part in ("atlas", "head")]


def shown(app: AppTest, slider: str) -> str:
    """The label at which a slider stands."""
    found = [one.proto for one in app.get("bidi_component")]
    data = next(proto.bytes for proto in found if proto.id.endswith(f"-{slider}"))
    header, _ = decoded(data)
    return str(header["labels"][header["chosen"]])


@pytest.mark.shipped
def test_a_link_that_names_but_a_language_opens_the_head_of_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is the most decided head, so the first one must be named."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")

    def opened(**link: str) -> tuple[AppTest, tuple[int, int]]:
        app = runs(new_visit(link=link).run())
        return app, (app.session_state["layer"], app.session_state["head"])

    (english, first), (german, same) = opened(), opened(lang="de")
    assert first == same != (0, 0) and address(german)["lang"] == "de"
    assert opened(**address(put(english, {"layer": 0, "head": 0})))[1] == (0, 0)
    corner, place = opened(lang="de", layer="0", head="0")
    assert place == (0, 0) and address(corner) == {"lang": "de", "layer": "0", "head": "0"}


def test_a_sentence_gives_a_translation_two_pictures_and_probabilities(visit: Visit) -> None:
    app = fine(visit())
    assert not app.info
    page = html(app)
    for words in (
        *('data-what="translation"', "rank", "attention weights are not explanations"),
        *("sha256", "cpu", "ms on the server"),
    ):
        assert words in page, words
    head, arrays = part(app, "head")
    assert "looks" in head["said"]
    source, target = (row["chips"] for row in chips(app))
    assert len(head["columns"]["labels"]) == len(source)
    assert len(head["rows"]["labels"]) == len(target)
    assert arrays["weights"].shape == (len(target), len(source))
    assert tiles(app).shape == (2, 2, len(target), len(source))

    before = component(app, "head").bytes
    put(put(app, {"block": "encoder"}), {"layer": 2, "head": 1})
    assert not app.exception and component(app, "head").bytes != before
    assert "L2 H1" in html(app)
    link = address(app)
    assert (link["block"], link["layer"], link["head"]) == ("encoder", "2", "1")


def test_temperature_changes_map_and_probabilities_and_holds_the_words(visit: Visit) -> None:
    app = visit()
    clean, weights = part(app, "head")
    ok(slide(app, "temperature", "5"))
    changed, warm = part(app, "head")
    assert not np.array_equal(warm["weights"], weights["weights"])
    assert changed["rows"] == clean["rows"]  # the same target words
    page = html(app)
    assert 'data-what="before"' in page and 'data-what="after"' in page
    (edit,) = json.loads(address(app)["edits"])["edits"]
    assert edit == {
        "kind": "temperature", "value": 5.0,
        "stack": "decoder", "block": "cross", "layer": 0, "head": 0,
    }  # fmt: skip
    label = app.button(key="edit-0").label.replace("\\", "")
    assert label == "cross L0 H0: temperature 5 ✕"
    click(app, "clean")
    assert "edits" not in address(app)
    assert np.array_equal(part(app, "head")[1]["weights"], weights["weights"])
    assert shown(app, "temperature") == "1"


def test_compare_shows_now_before_and_the_difference(visit: Visit) -> None:
    app = visit(edits=WARM)
    drawn = {}
    for word in ("now", "before", "difference"):
        put(app, {"compare": word})
        drawn[word] = part(app, "head")[1]["weights"].tobytes()
    assert len(set(drawn.values())) == 3
    assert drawn["before"] == part(visit(), "head")[1]["weights"].tobytes()
    for compare in ("now", "difference"):
        few, many = (
            visit(edits=Intervention((Pad(count=count),)).to_json(), compare=compare)
            for count in (3, 1100)
        )
        assert "its padding 1,100; the app takes at most 1,024" in told(many), compare
        assert not few.exception and not few.error, compare
        assert [chip["text"] for chip in chips(few)[0]["chips"]][-1] == "<pad> (3)", compare


def test_the_link_brings_everything_back(visit: Visit) -> None:
    first = fine(visit(
        block="encoder", layer="2", head="1", token="3", scope="layer", compare="difference",
        edits=WARM, words="on", special="off", beam="2", target="A dog sat.",
    ))  # fmt: skip
    link = address(first)
    again = visit(**link)
    assert address(again) == link and chips(again) == chips(first)
    for name in ("atlas", "head"):
        sent = [unnumbered(component(app, name).bytes) for app in (first, again)]
        assert sent[0] == sent[1], name
    for key in ("outcome", "guesses"):
        assert panel(again, key) == panel(first, key), key
    for key in ("block", "layer", "head", "scope", "compare", "edits", "words", "special", "beam"):
        assert again.session_state[key] == first.session_state[key], key
    places = [(layer, head) for layer in range(3) for head in range(2)]
    heads = Intervention(
        tuple(
            ScaleHead(value=0, stack="encoder", block="self", layer=layer, head=head)
            for layer, head in places
        )
    ).to_json()
    packed = address(visit(edits=heads))["edits"]  # long edits are compressed
    assert len(heads) > PACK_FROM_CHARS and packed.startswith("z.")
    assert visit(edits=packed).session_state["edits"] == heads


def test_bad_values_in_a_link_fall_back_and_say_so(visit: Visit) -> None:
    for name, value, taken in (
        *(("layer", "99", 0), ("head", "7", 0), ("block", "sideways", "cross"), ("beam", "x", 4)),
        *(("model", "../../etc", "tiny"), ("token", "500", 0), ("edits", "{", '{"edits":[]}')),
    ):
        app = visit(**{name: value})
        assert not app.exception and not app.error and app.session_state[name] == taken, name
        (warning,) = app.warning
        assert str(warning.value) and name not in address(app), name
        if name == "layer":
            slide(app, "temperature", "2")
            assert not app.warning  # it was said; after the next change it goes
    picture = "![x](http://127.0.0.1:9/x.png)"  # shown, not rendered
    app = visit(beam=picture, text=f"The cat {picture} <img src=x>")
    (warning,) = app.warning
    assert picture not in str(warning.value)
    assert picture.replace("http:", f"http:{JOINER}") in told(app)  # an address is no link
    assert "<img" not in html(app)


def test_strange_sentences_get_a_sentence_and_never_a_traceback(visit: Visit) -> None:
    app = visit()
    for name, text, says in (
        ("empty", "", "Type an English sentence"),
        ("blank", "   \t ", "Type an English sentence"),
        ("control", "\x00\x01\x1b\x7f", "Type an English sentence"),
        ("escape", "\x1b[31mred\x07 alert\x00", ""),
        ("one", "a", ""),
        ("emoji", "🙂🙃 👩‍👩‍👧", ""),
        ("right to left", "مرحبا بالعالم", ""),
        ("bidi", "\u202eabc\u202c", ""),
        ("markup", "<script>alert(1)</script> **bold** $x$", ""),
        ("3000 words", "word " * 3000, "tokens and the app takes at most 1,024"),
    ):
        runs(put(app, {"text": text}), name)
        if says:
            assert says in told(app) and not pictures(app), name
        else:
            assert not app.error and pictures(app) == ["atlas", "head"], name
        assert app.text_input(key="text").value == text, name  # the sentence is not lost
        assert "<script>" not in html(app), name


def test_a_text_that_is_too_long_is_kept_as_far_as_it_may_be(visit: Visit) -> None:
    """The beginning that one click keeps is the longest: its next word would make it too long."""
    text = "the cat sat on the mat . " * 400
    app = put(visit(), {"text": text})
    offered = app.button(key="keep-beginning").label
    assert "the app takes at most 1,024" in told(app) and not pictures(app)
    assert offered == "Keep its first 700 tokens"  # this model has no positions for more
    click(app, "keep-beginning")
    kept = app.text_input(key="text").value
    assert not app.exception and not app.error, told(app)
    assert pictures(app) == ["atlas", "head"]
    assert text.startswith(kept) and text[len(kept)] == " " and len(kept.split()) > 200
    assert "keep-beginning" not in keys(app)
    put(app, {"text": " ".join(text.split()[: len(kept.split()) + 1])})
    assert "this model reads at most 700" in told(app)
    assert app.button(key="keep-beginning").label == offered


def test_what_fails_is_explained_and_the_sentence_stays(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A panic of native code is no Exception: without care the run dies below the old picture."""
    panic = type("PanicException", (BaseException,), {})

    def broken(*words: object, **named: object) -> None:
        raise panic("no entry found for key")

    def failed(words: str) -> None:
        app = visit()
        assert not app.exception and len(app.error) == 1 and words in told(app), words
        assert app.text_input(key="text").value == "The cat sat."

    with monkeypatch.context() as patch:
        patch.setattr(page_template, "scene_of", broken)
        failed("PanicException: no entry found for key")
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "no-such-model")
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")
    failed("no-such-model")


def test_another_sentence_keeps_the_rest(visit: Visit) -> None:
    app = visit(edits=WARM, block="encoder", layer="2", special="off", words="on")
    there = address(app)
    for text in ("", "A dog sat.", "The cat sat."):
        put(app, {"text": text})
        assert app.session_state["edits"] == WARM and not app.exception, text
    assert not app.error and address(app) == there and app.session_state["special"] is False
    app = ok(visit(block="encoder", answer="2").run())
    box = app.selectbox(key="answer")
    box.options.append("Tier")  # the browser sends the label of an option that is gone
    box.set_value("Tier").run()
    assert not app.exception and not app.error and app.session_state["answer"] == 0


def test_a_typed_target_is_held(visit: Visit) -> None:
    app = visit(target="The dog.")
    assert "The dog." in html(app)
    assert part(app, "head")[0]["rows"]["labels"][-2:-1] == ["."]
    slide(app, "temperature", "3")
    for what in ("held", "before", "after"):
        assert f'data-what="{what}"' in html(app), what


def test_a_translation_below_the_measured_certainty_is_said_to_be_unsure(
    visit: Visit, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(shelf / "tiny", tmp_path / "tiny")
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(tmp_path))
    steps = tv.translate(tv.load(shelf / "tiny"), "The cat sat.", beam=4)[0].steps
    mean = math.exp(sum(steps) / len(steps))
    for limit, target, unsure in (
        *((mean + 1e-3, "", True), (mean - 1e-3, "", False)),
        *((value, "", False) for value in (None, "0.9", True, 1)),  # no limit was measured
        *((1.0, "", True), (1.0, "Der Hund.", False)),  # nobody doubts the visitor's own words
    ):
        case, place = (limit, target), tmp_path / f"{limit!r}"
        if not place.exists():
            shutil.copytree(folder, place / "tiny")
            text = json.dumps(config | {"sure_from": limit})
            (place / "tiny" / CONFIG).write_text(text, encoding="utf-8")
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(place / "tiny"))
        app = ok(visit(target=target) if target else visit(), case)
        assert ('class="tv-unsure"' in html(app)) == unsure, case
        if unsure and limit != 1.0:
            assert f"a probability of {mean:.0%} (geometric mean)" in html(app)
            assert f"everyday sentences it is {limit:.0%} or more" in html(app)


# ---- The engine behind it


def test_the_stored_example_answers_without_a_model(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stored"
    shutil.copytree(shelf / "tiny", folder)
    engine, question = Engine(str(folder)), Question("stored", "The cat sat.")
    assert engine.example(question) is None
    answer = engine.clean(question, whole_layer("cross", 0))
    answer.trace.save(folder / EXAMPLE)

    fresh = Engine(str(folder))
    monkeypatch.setattr(fresh, "model", lambda name: pytest.fail("the model was asked for"))
    stored = fresh.clean(question, whole_layer("cross", 0))
    assert stored.trace.produced is not None and answer.trace.produced is not None
    assert stored.trace.produced.ids == answer.trace.produced.ids
    assert fresh.example(Question("stored", "The cat sat.", beam=1)) is None

    with (folder / WEIGHTS).open("r+b") as file:  # other weights: the picture would be wrong
        file.seek(-1, 2)
        file.write(b"\x01")
    assert Engine(str(folder)).example(question) is None


def test_visitors_share_runs_and_long_sentences_keep_one_layer(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(str(shelf / "tiny"))
    question, layer = Question("tiny", "The cat sat.", beam=1), whole_layer("cross", 0)
    first = engine.clean(question, layer)
    assert engine.clean(question, whole_layer("encoder", 2)).trace is first.trace
    warm = Intervention((Temperature(value=2.0),))
    twice = [engine.changed(question, first, warm, layer) for _ in range(2)]
    assert twice[0] is twice[1]

    monkeypatch.setattr("transformer_viz.app.engine.engine.WHOLE", 1000)
    long = Question("tiny", "the cat " * 20, "The dog.", beam=1)
    kept = engine.clean(long, whole_layer("encoder", 2)).trace
    assert [str(one.site) for one in kept.attentions] == ["encoder L2"]
    assert len(kept.heads) == 2 * (3 + 2 + 2)

    late = Engine(str(tmp_path / "later"))  # a model that failed to load may be tried again
    with pytest.raises(ValueError, match="later"):
        late.model("later")
    shutil.copytree(shelf / "tiny", tmp_path / "later")
    assert late.model("later").parameters > 0 and late.ready("later")
