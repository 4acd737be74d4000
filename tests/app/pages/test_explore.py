"""Explore in Streamlit's own test runner: what a visitor does, and what becomes of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.support.component_stage import decoded
from transformer_viz.app import page_template
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.session.url_edits import PACK_FROM_CHARS
from transformer_viz.app.ui.text_format import JOINER
from transformer_viz.checkpoints.common.bundled import EXAMPLE, WEIGHTS
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
from ..conftest import APP, TIMEOUT

pytestmark = pytest.mark.app

Visit = Callable[..., AppTest]
WARM = Intervention((Temperature(value=4.0),)).to_json()


@pytest.mark.parametrize("compare", ["now", "difference"])
def test_padding_from_a_link_is_shown_and_too_much_of_it_refused(
    visit: Visit, compare: str
) -> None:
    def padded(count: int) -> AppTest:
        return visit(edits=Intervention((Pad(count=count),)).to_json(), compare=compare)

    assert "its padding 1,100; the app takes at most 1,024" in told(padded(1100))
    few = padded(3)
    assert not few.exception and not few.error
    assert [chip["text"] for chip in chips(few)[0]["chips"]][-1] == "<pad> (3)"


@pytest.mark.shipped
def test_a_link_that_names_but_a_language_opens_the_head_of_an_empty_one() -> None:
    def opened(**link: str) -> tuple[AppTest, tuple[int, int]]:
        app = AppTest.from_file(str(APP), default_timeout=TIMEOUT)
        for name, text in link.items():
            app.query_params[name] = text
        app.run()
        assert not app.exception
        return app, (app.session_state["layer"], app.session_state["head"])

    (_, first), (german, same) = opened(), opened(lang="de")
    assert first == same != (0, 0) and address(german)["lang"] == "de"
    corner, place = opened(lang="de", layer="0", head="0")
    assert place == (0, 0) and address(corner) == {"lang": "de", "layer": "0", "head": "0"}


def test_a_sentence_gives_a_translation_two_pictures_and_probabilities(visit: Visit) -> None:
    app = visit()
    assert not app.exception and not told_errors(app) and not app.info
    page = html(app)
    assert 'data-what="translation"' in page and "rank" in page
    assert "looks" in part(app, "head")[0]["said"]
    assert "attention weights are not explanations" in page
    assert "sha256" in page and "cpu" in page and "ms on the server" in page
    head, arrays = part(app, "head")
    source, target = (row["chips"] for row in chips(app))
    assert len(head["columns"]["labels"]) == len(source)
    assert len(head["rows"]["labels"]) == len(target)
    assert arrays["weights"].shape == (len(target), len(source))
    assert tiles(app).shape == (2, 2, len(target), len(source))


def test_choosing_block_layer_and_head(visit: Visit) -> None:
    app = visit()
    before = component(app, "head").bytes
    app.button_group(key="block").set_value("encoder")
    app.run()
    app.selectbox(key="layer").set_value(2)
    app.selectbox(key="head").set_value(1)
    app.run()
    assert not app.exception
    assert component(app, "head").bytes != before
    assert "L2 H1" in html(app)
    link = address(app)
    assert (link["block"], link["layer"], link["head"]) == ("encoder", "2", "1")


def test_temperature_changes_map_and_probabilities_and_holds_the_words(visit: Visit) -> None:
    app = visit()
    clean, weights = part(app, "head")
    slide(app, "temperature", "5")
    assert not app.exception and not app.error
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
    assert [b.label.replace("\\", "") for b in app.button if b.key == "edit-0"] == [
        "cross L0 H0: temperature 5 ✕"
    ]
    app.button(key="clean").click().run()
    assert "edits" not in address(app)
    assert np.array_equal(part(app, "head")[1]["weights"], weights["weights"])
    assert shown(app, "temperature") == "1"


def test_each_control_writes_its_edit(visit: Visit) -> None:
    app = visit(block="decoder", scope="block")
    app.button_group(key="causal").set_value("off")
    app.run()
    assert "flatter" in told(app)
    slide(app, "window", "1")
    app.multiselect(key="hide").set_value([1]).run()
    app.button_group(key="head_state").set_value("scale")
    app.run()
    app.number_input(key="factor").set_value(0.25).run()
    app.multiselect(key="edge").set_value([0]).run()
    assert not app.exception and not app.error
    edits = json.loads(_plain_edits(app))["edits"]
    assert [edit["kind"] for edit in edits] == [
        "causal", "window", "block_keys", "scale_head", "block_edges",
    ]  # fmt: skip
    assert {(e["stack"], e["block"]) for e in edits} == {("decoder", "self")}
    assert edits[3]["value"] == 0.25 and edits[4]["edges"] == [[0, 0]]
    while app.session_state["edits"] != Intervention().to_json():
        app.button(key="edit-0").click().run()  # chips go one by one
    assert "edits" not in address(app)


def _plain_edits(app: AppTest) -> str:
    return str(app.session_state["edits"])


def test_compare_shows_now_before_and_the_difference(visit: Visit) -> None:
    app = visit(edits=WARM)
    drawn = {}
    for word in ("now", "before", "difference"):
        app.button_group(key="compare").set_value(word)
        app.run()
        drawn[word] = part(app, "head")[1]["weights"].tobytes()
    assert len(set(drawn.values())) == 3
    assert drawn["before"] == part(visit(), "head")[1]["weights"].tobytes()


def test_the_link_brings_everything_back(visit: Visit) -> None:
    first = visit(
        block="encoder", layer="2", head="1", token="3", scope="layer", compare="difference",
        edits=WARM, words="on", special="off", beam="2", target="A dog sat.",
    )  # fmt: skip
    assert not first.exception and not told_errors(first)
    link = address(first)
    again = visit(**link)
    assert address(again) == link
    for name in ("atlas", "head"):
        sent = [unnumbered(component(app, name).bytes) for app in (first, again)]
        assert sent[0] == sent[1]
    for key in ("outcome", "guesses"):
        assert panel(again, key) == panel(first, key)
    assert chips(again) == chips(first)
    for key in ("block", "layer", "head", "scope", "compare", "edits", "words", "special", "beam"):
        assert again.session_state[key] == first.session_state[key], key


def shown(app: AppTest, slider: str) -> str:
    """The label at which a slider stands."""
    found = [one.proto for one in app.get("bidi_component")]
    data = next(proto.bytes for proto in found if proto.id.endswith(f"-{slider}"))
    header, _ = decoded(data)
    return str(header["labels"][header["chosen"]])


def pictures(app: AppTest) -> list[str]:
    """Which of our pictures are on the page."""
    parts = [shown_part(one.proto) for one in app.get("bidi_component")]
    return [part for part in parts if part in ("atlas", "head")]


def told_errors(app: AppTest) -> list[str]:
    return [str(box.value) for box in (*app.error, *app.warning)]


def test_long_edits_are_compressed_in_the_link(visit: Visit) -> None:
    heads = Intervention(
        tuple(
            ScaleHead(value=0, stack="encoder", block="self", layer=n, head=h)
            for n in range(3)
            for h in range(2)
        )
    )
    app = visit(edits=heads.to_json())
    assert len(heads.to_json()) > PACK_FROM_CHARS
    assert address(app)["edits"].startswith("z.")
    assert visit(edits=address(app)["edits"]).session_state["edits"] == heads.to_json()


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("layer", "99", 0), ("head", "7", 0), ("block", "sideways", "cross"), ("beam", "x", 4),
     ("model", "../../etc", "tiny"), ("token", "500", 0), ("edits", "{", '{"edits":[]}')],
)  # fmt: skip
def test_bad_values_in_a_link_fall_back_and_say_so(
    visit: Visit, name: str, value: str, shown: object
) -> None:
    app = visit(**{name: value})
    assert not app.exception and not app.error
    assert app.session_state[name] == shown
    assert len(app.warning) == 1 and str(app.warning[0].value)
    assert name not in address(app)
    slide(app, "temperature", "2")
    assert not app.warning  # it was said; after the next change it goes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Type an English sentence"),
        ("   \t ", "Type an English sentence"),
        ("\x00\x01\x1b\x7f", "Type an English sentence"),
        ("\x1b[31mred\x07 alert\x00", ""),
        ("a", ""),
        ("🙂🙃 👩‍👩‍👧", ""),
        ("مرحبا بالعالم", ""),
        ("\u202eabc\u202c", ""),
        ("<script>alert(1)</script> **bold** $x$", ""),
        ("word " * 3000, "tokens and the app takes at most 1,024"),
    ],
    ids=[
        "empty",
        "blank",
        "control",
        "escape",
        "one",
        "emoji",
        "rtl",
        "bidi",
        "markup",
        "3000 words",
    ],
)
def test_strange_sentences_get_a_sentence_and_never_a_traceback(
    visit: Visit, text: str, says: str
) -> None:
    app = visit()
    app.text_input(key="text").set_value(text).run()
    assert not app.exception
    if says:
        assert says in told(app)
        assert not pictures(app)
    else:
        assert not app.error and pictures(app) == ["atlas", "head"]
    assert app.text_input(key="text").value == text  # the sentence is not lost
    assert "<script>" not in html(app)


def test_a_text_that_is_too_long_is_kept_as_far_as_it_may_be(visit: Visit) -> None:
    """One click on what is offered below the sentence: the pictures stand, of a beginning that the
    next word would make too long."""
    app = visit()
    text = "the cat sat on the mat . " * 400
    app.text_input(key="text").set_value(text).run()
    offered = app.button(key="keep-beginning")
    assert "the app takes at most 1,024" in told(app) and not pictures(app)
    assert offered.label == "Keep its first 700 tokens"  # this model has no positions for more
    offered.click().run()
    kept = app.text_input(key="text").value
    assert not app.exception and not app.error, told(app)
    assert pictures(app) == ["atlas", "head"]
    assert text.startswith(kept) and text[len(kept)] == " " and len(kept.split()) > 200
    assert "keep-beginning" not in [one.key for one in app.button]
    more = " ".join(text.split()[: len(kept.split()) + 1])
    app.text_input(key="text").set_value(more).run()
    assert "this model reads at most 700" in told(app)
    assert app.button(key="keep-beginning").label == offered.label


def test_an_edit_that_fits_nowhere_is_explained_and_can_be_taken_back(visit: Visit) -> None:
    app = visit(edits=Intervention((Temperature(value=2.0, layer=77),)).to_json())
    assert not app.exception and len(app.error) == 1
    assert "matches no place" in told(app)
    assert app.text_input(key="text").value == "The cat sat."
    app.button(key="clean-after-error").click().run()
    assert not app.error and pictures(app) == ["atlas", "head"]


def test_a_panic_of_native_code_is_explained(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no Exception: the run would die without a word, below the old picture."""
    panic = type("PanicException", (BaseException,), {})

    def broken(*words: object, **named: object) -> None:
        raise panic("no entry found for key")

    monkeypatch.setattr(page_template, "scene_of", broken)
    app = visit()
    assert not app.exception and len(app.error) == 1
    assert "PanicException: no entry found for key" in told(app)
    assert app.text_input(key="text").value == "The cat sat."


def test_a_missing_model_is_explained(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    visit()
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "no-such-model")
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")
    app = visit()
    assert not app.exception and len(app.error) == 1
    assert "no-such-model" in told(app)
    assert app.text_input(key="text").value == "The cat sat."


def test_changing_the_sentence_keeps_the_edits(visit: Visit) -> None:
    app = visit(edits=WARM)
    app.text_input(key="text").set_value("A dog sat.").run()
    assert app.session_state["edits"] == WARM and not app.exception


def test_a_typed_target_is_held(visit: Visit) -> None:
    app = visit(target="The dog.")
    assert "The dog." in html(app)
    assert part(app, "head")[0]["rows"]["labels"][-2:-1] == ["."]
    slide(app, "temperature", "3")
    for what in ("held", "before", "after"):
        assert f'data-what="{what}"' in html(app)


def test_the_stored_example_answers_without_a_model(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stored"
    shutil.copytree(shelf / "tiny", folder)
    engine = Engine(str(folder))
    question = Question("stored", "The cat sat.")
    assert engine.example(question) is None
    answer = engine.clean(question, whole_layer("cross", 0))
    answer.trace.save(folder / EXAMPLE)

    fresh = Engine(str(folder))
    monkeypatch.setattr(fresh, "model", lambda name: pytest.fail("the model was asked for"))
    stored = fresh.clean(question, whole_layer("cross", 0))
    assert stored.trace.produced is not None and answer.trace.produced is not None
    assert stored.trace.produced.ids == answer.trace.produced.ids
    assert fresh.example(Question("stored", "The cat sat.", beam=1)) is None

    with (folder / WEIGHTS).open("r+b") as file:  # other weights: the picture would be a lie
        file.seek(-1, 2)
        file.write(b"\x01")
    assert Engine(str(folder)).example(question) is None


def test_visitors_share_runs_and_long_sentences_keep_one_layer(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(str(shelf / "tiny"))
    question, layer = Question("tiny", "The cat sat.", beam=1), whole_layer("cross", 0)
    first = engine.clean(question, layer)
    assert engine.clean(question, whole_layer("encoder", 2)).trace is first.trace
    warm = Intervention((Temperature(value=2.0),))
    assert engine.changed(question, first, warm, layer) is engine.changed(
        question, first, warm, layer
    )

    monkeypatch.setattr("transformer_viz.app.engine.engine.WHOLE", 1000)
    long = Question("tiny", "the cat " * 20, "The dog.", beam=1)
    kept = engine.clean(long, whole_layer("encoder", 2)).trace
    assert [str(one.site) for one in kept.attentions] == ["encoder L2"]
    assert len(kept.heads) == 2 * (3 + 2 + 2)


def test_a_model_that_failed_to_load_may_be_tried_again(tmp_path: Path, shelf: Path) -> None:
    engine = Engine(str(tmp_path / "later"))
    with pytest.raises(ValueError, match="later"):
        engine.model("later")
    shutil.copytree(shelf / "tiny", tmp_path / "later")
    assert engine.model("later").parameters > 0 and engine.ready("later")


def test_what_comes_from_a_link_is_shown_and_not_rendered(visit: Visit) -> None:
    picture = "![x](http://127.0.0.1:9/x.png)"
    app = visit(beam=picture, text=f"The cat {picture} <img src=x>")
    (warning,) = app.warning
    assert picture not in str(warning.value)
    assert picture.replace("http:", f"http:{JOINER}") in told(app)  # an address is no link
    assert "<img" not in html(app)


def test_after_an_empty_sentence_everything_is_as_it_was(visit: Visit) -> None:
    app = visit(edits=WARM, block="encoder", layer="2", special="off", words="on")
    there = address(app)
    app.text_input(key="text").set_value("").run()
    app.text_input(key="text").set_value("The cat sat.").run()
    assert not app.exception and not app.error
    assert address(app) == there and app.session_state["special"] is False


def test_a_number_that_comes_back_as_its_old_label_is_forgotten(visit: Visit) -> None:
    """The browser sends the label of an option that a new sentence took away: no row, no error."""
    app = visit(block="encoder", answer="2").run()
    assert not app.exception and not app.error
    box = app.selectbox(key="answer")
    box.options.append("Tier")
    box.set_value("Tier").run()
    assert not app.exception and not app.error
    assert app.session_state["answer"] == 0
