"""What holds on every page: the link, the shared state, undo, and the way a page says no."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.app.session.url_state import (
    BLOCKS,
    DEFAULTS,
    KEYS,
    SCALES,
    SEARCHES,
    SORTS,
    VERSUS,
    VIEWS,
    read,
    write,
)
from transformer_viz.core.editing.edit_controls import REACHES, SCOPES
from transformer_viz.core.interventions import (
    BlockKeys,
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.palette import RAMPS
from transformer_viz.i18n import languages
from transformer_viz.metrics.residual.norm_statistics import STATISTICS

from ...support.component_events import slide
from ...support.map_pages import MAP_PAGES
from ...support.page_content import address, chips, drawn, go, part, said, told
from ..conftest import APP, TIMEOUT

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]


def random_state(seed: int) -> dict[str, Any]:
    """Some state that a visitor of the tiny model may be in; every key is drawn."""
    draw = random.Random(seed)
    block = draw.choice(("encoder", "decoder", "cross"))
    kinds = (
        Temperature(value=draw.choice((0.0, 0.5, 3.0))),
        Window(radius=draw.randrange(4), stack="encoder"),
        Causal(on=False, stack="decoder", block="self"),
        BlockKeys(keys=(1,), stack="encoder"),
        ScaleHead(value=draw.choice((0.0, 0.5)), stack="decoder", block="cross", layer=0, head=1),
        UniformHead(stack="decoder", layer=1, head=0),
        Pad(count=draw.randint(1, 3), masked=draw.random() < 0.5),
        ScalePositions(value=draw.choice((0.0, 0.5))),
    )
    edits = Intervention(tuple(draw.sample(kinds, draw.randrange(len(kinds)))))
    return {
        "model": "tiny",
        "text": draw.choice(("The cat sat.", "A dog sat on the mat.")),
        "target": draw.choice(("", "The dog.")),
        "beam": draw.randint(1, 4),
        "edits": edits.to_json(),
        "block": block,
        "layer": draw.randrange(3 if block == "encoder" else 2),
        "head": draw.randrange(2),
        "token": draw.choice((0, 2)),  # the first token of a word, whole words or not
        "compare": draw.choice(("now", "before", "difference")),
        "words": draw.random() < 0.3,
        "special": draw.random() < 0.7,
        "scope": draw.choice(list(SCOPES)),
        "answer": draw.randrange(2),
        "stack": draw.choice(("encoder", "decoder")),
        "place": draw.randrange(3),
        "shift": draw.randrange(3),
        "pair": draw.randrange(8),
        "word": draw.randrange(3),
        "site": "",
        "statistic": draw.choice(STATISTICS).name,
        "reach": draw.choice(list(REACHES)),
        "order": draw.randrange(3),
        "second": draw.choice(("", "A dog.")),
        "masked": draw.choice(((), (1,), (0, 2))),
        "picture": draw.choice(("", "seven")),
        "seed": draw.randrange(3),
        "over": draw.choice(("weights", "gradients")),
        "chosen": draw.choice((None, 3)),
        "checkpoint": "",
        "view": draw.choice(VIEWS),
        "key": draw.choice((None, 1)),
        "blocks": draw.choice(BLOCKS),
        "sort": draw.choice(SORTS),
        "scale": draw.choice(SCALES),
        "ramp": draw.choice(RAMPS),
        "gamma": draw.choice((1.0, 0.5)),
        "threshold": draw.choice((0.0, 0.1)),
        "top": draw.choice((0, 3)),
        "overlay": draw.choice(((), ((0, 1), (1, 0)))),
        "zoom": draw.choice((None, ((0, 2), (1, 3)))),
        "lang": draw.choice(list(languages())),
        "present": draw.random() < 0.3,
        "station": 0,
        "predicted": draw.choice(((), ((1, 0), (2, 3)))),
        "step": draw.randrange(5),
        "number": "",
        "search": draw.choice(SEARCHES),
        "drawing": draw.choice((1.0, 0.5)),
        "played": draw.randrange(3),
        "branch": "",
        "pooled": draw.random() < 0.5,
        "heads_on": draw.choice(("stored", "sentence", "file")),
        "heads_by": draw.choice(("layer", "effect", "previous")),
        "removal": draw.choice(("mean", "zero")),
        "aligned": draw.choice(("", "1", "0.1")),
        "aligned_row": draw.choice(("out", "in")),
        "gold": draw.choice(("", "0-0 1p1")),
        "gold_from_one": draw.random() < 0.5,
        "other": draw.choice(("", "The dog sat.")),
        "between": draw.choice(("", "a, b")),
        "swapped": draw.choice(("heads", "patterns", "stream")),
        "corpus": draw.choice(("", "path:runs/nowhere")),
        "corpus_by": draw.choice(("previous", "entropy")),
        "versus": draw.choice(VERSUS),
        "weighed": draw.choice(("raw", "content")),
        "opposite": draw.choice(("place", "match")),
        "beside": "",
        "moments": draw.choice(((), (4, 64))),
        "seen": "",
        "lab": draw.choice(("", "scale")),
        "tried": draw.choice(("", "guess=0")),
    }


def test_a_thousand_random_states_are_what_their_links_say() -> None:
    for state in map(random_state, range(1000)):
        assert read(write(state, DEFAULTS), DEFAULTS) == (state, [])


@pytest.mark.parametrize(
    "seed",
    [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))],
)
def test_a_random_state_comes_back_from_its_link_on_every_page(visit: Visit, seed: int) -> None:
    state = random_state(seed)
    assert set(state) == {key.name for key in KEYS}
    said = {name: value for name, value in state.items() if value not in ("", None)}
    link = {key.name: key.write(said[key.name]) for key in KEYS if key.name in said}
    for page in MAP_PAGES:
        first = go(visit(**link), page)
        assert not first.exception and not first.error, told(first)
        again = go(visit(**address(first)), page)
        assert address(again) == address(first)
        assert drawn(again) == drawn(first)
        for name in DEFAULTS:
            if name not in ("token", "key", "site"):  # fitted to what this page shows
                assert again.session_state[name] == state[name], name


def test_every_page_shares_sentence_model_and_edits(visit: Visit) -> None:
    link = {"text": "A dog sat.", "layer": "1", "head": "1", "block": "encoder", "words": "on"}
    app = visit(**link, edits=Intervention((Temperature(value=2.0),)).to_json())
    there = address(app)
    for page in ("positions", "norms", "about", "positions", "about", "norms", ""):
        go(app, page)
        assert not app.exception
        assert there.items() <= address(app).items(), page
    assert app.text_input(key="text").value == "A dog sat."


def test_a_change_on_one_page_stands_on_the_others(visit: Visit) -> None:
    app = go(visit(), "positions")
    app.toggle(key="position_drop").set_value(True).run()
    assert [b.key for b in go(app, "norms").button if b.key.startswith("edit-")] == ["edit-0"]
    slide(go(app, ""), "temperature", "2")
    go(app, "norms").button(key="undo").click().run()
    assert app.session_state["edits"] == Intervention((ScalePositions(value=0.0),)).to_json()


@pytest.mark.parametrize("page", MAP_PAGES)
def test_an_empty_sentence_says_what_to_do(visit: Visit, page: str) -> None:
    app = go(visit(text=" "), page)
    assert not app.exception and "Type an English sentence" in told(app)


@pytest.mark.parametrize("page", MAP_PAGES)
def test_what_cannot_be_done_is_explained_on_every_page(visit: Visit, page: str) -> None:
    app = go(visit(edits=Intervention((Temperature(value=2.0, layer=77),)).to_json()), page)
    assert not app.exception and len(app.error) == 1 and "matches no place" in told(app)
    app.button(key="clean-after-error").click().run()
    assert not app.error and drawn(app)


def test_every_control_can_be_undone(visit: Visit) -> None:
    app = visit(block="decoder")
    moves = {
        "temperature": lambda: slide(app, "temperature", "0.5"),
        "causal": lambda: app.button_group(key="causal").set_value("off"),
        "window": lambda: slide(app, "window", "1"),
        "head_state": lambda: app.button_group(key="head_state").set_value("uniform"),
        "hide": lambda: app.multiselect(key="hide").set_value([1]),
        "edge": lambda: app.multiselect(key="edge").set_value([0]),
        "pad": lambda: app.number_input(key="pad").set_value(2),
        "pad_masked": lambda: app.toggle(key="pad_masked").set_value(False),
    }
    states = [app.session_state["edits"]]
    for name, move in moves.items():
        move()
        app.run()
        assert not app.exception and not app.error, name
        assert app.session_state["edits"] != states[-1], name
        states.append(app.session_state["edits"])
    for state in reversed(states[:-1]):
        app.button(key="undo").click().run()
        assert app.session_state["edits"] == state
    assert app.button(key="undo").disabled
    for state in states[1:]:
        app.button(key="redo").click().run()
        assert app.session_state["edits"] == state
    assert app.button(key="redo").disabled


def test_chips_show_what_is_chosen_hidden_and_where_it_stands(visit: Visit) -> None:
    edits = Intervention((BlockKeys(keys=(1,), stack="decoder", block="cross"),)).to_json()
    app = visit(edits=edits, token="2")
    source, target = (row["chips"] for row in chips(app))
    assert [n for n, chip in enumerate(source) if chip["gone"]] == [1]
    assert [n for n, chip in enumerate(target) if chip["on"]] == [3]  # row 2 produces token 3
    assert [chip["column"] for chip in source] == [f"source:{n}" for n in range(len(source))]
    rows = [f"produced:{n}" for n in range(len(target) - 1)]
    assert [chip["row"] for chip in target] == [None, *rows]
    assert part(app, "head")[0]["said"].startswith(f"“{target[3]['text']}” looks")


@pytest.mark.parametrize(
    ("page", "name", "value", "says"),
    [
        ("norms", "site", "nowhere", "no norm 'nowhere'"),
        ("norms", "statistic", "weight", "statistic is 'weight'"),
        ("norms", "word", "99", "no word 99"),
        ("positions", "place", "99", "no position 99"),
        ("positions", "shift", "99", "no shift 99"),
        ("positions", "pair", "999", "no pair of dimensions 999"),
        ("positions", "reach", "all", "reach is 'all'"),
        ("", "answer", "77", "no word 77"),
    ],
)
def test_bad_values_in_a_link_fall_back_on_their_page_and_say_so(
    visit: Visit, page: str, name: str, value: str, says: str
) -> None:
    app = visit(page, **{name: value})
    assert not app.exception and not app.error
    assert [says in str(box.value).replace("\\", "") for box in app.warning] == [True]


def test_choices_of_one_page_outlive_many_changes_on_another(visit: Visit) -> None:
    link = {"scope": "layer", "words": "on", "statistic": "std", "reach": "decoder", "pair": "3"}
    app = visit(**link, edits=Intervention((Temperature(value=2.0),)).to_json())
    for page in ("positions", "norms", "positions", ""):
        go(app, page)
        for run in ("before", "difference", "now"):
            app.button_group(key="compare").set_value(run)
            app.run()
            assert not app.exception and not app.error
        assert link.items() <= address(app).items(), page


def test_a_shorter_sentence_brings_no_complaint(visit: Visit) -> None:
    app = visit(text="The cat sat on the mat and the dog sat on the rug.", token="9", answer="9")
    app.text_input(key="text").set_value("Go.").run()
    assert not app.warning and not app.error and not app.exception
    produced = app.selectbox(key="answer")
    assert produced.value < len(produced.options)


def test_what_was_chosen_on_a_page_that_was_left_stays_chosen(visit: Visit) -> None:
    app = go(visit(), "norms")
    app.selectbox(key="statistic").set_value("std").run()
    app.button_group(key="stack").set_value("decoder")
    app.run()
    go(app, "")
    for block in ("encoder", "decoder", "cross"):  # several runs that draw none of these widgets
        app.button_group(key="block").set_value(block)
        app.run()
        assert address(app)["statistic"] == "std" and address(app)["stack"] == "decoder"
    assert go(app, "norms").selectbox(key="statistic").value == "std"


@pytest.mark.shipped
def test_the_first_head_comes_back_from_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit without a link opens the most decided head, so that the first one must be named."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")
    app = AppTest.from_file(str(APP), default_timeout=TIMEOUT).run()
    opened = (app.session_state["layer"], app.session_state["head"])
    assert opened != (0, 0)
    app.selectbox(key="layer").set_value(0)
    app.selectbox(key="head").set_value(0)
    app.run()
    again = AppTest.from_file(str(APP), default_timeout=TIMEOUT)
    for name, text in address(app).items():
        again.query_params[name] = text
    again.run()
    assert (again.session_state["layer"], again.session_state["head"]) == (0, 0)


@pytest.mark.parametrize("page", MAP_PAGES)
def test_a_difference_without_changes_is_the_run_itself(visit: Visit, page: str) -> None:
    warm = Intervention((Temperature(value=4.0),)).to_json()
    app = visit(page, edits=warm, compare="difference")
    app.button(key="clean").click().run()
    assert drawn(app) == drawn(visit(page, compare="now"))


def test_long_sentences_with_padding_keep_the_page(visit: Visit) -> None:
    padded = Intervention((Pad(count=2),)).to_json()
    app = visit(text="the cat " * 35, edits=padded, compare="difference", beam="1", block="encoder")
    assert not app.exception and not app.error
    assert "too many to compare at a glance" in told(app) and "head-view" in drawn(app)
    assert app.number_input(key="pad").value == 2


def test_a_change_that_comes_together_with_another_page_is_kept(visit: Visit) -> None:
    app = visit()
    app.text_input(key="text").set_value("A dog sat.")
    slide(app, "temperature", "2")
    go(app, "norms")
    assert app.session_state["text"] == "A dog sat." and "temperature" in app.session_state["edits"]
    assert address(app)["text"] == "A dog sat."


def test_a_long_target_is_refused_in_words(visit: Visit) -> None:
    app = visit(target="the cat " * 600)
    assert not app.exception and "This target has" in told(app)
    assert app.text_input(key="text").value == "The cat sat."


def test_a_held_target_is_called_so_and_the_models_own_words_stand_beside(visit: Visit) -> None:
    free = said(visit(), "now")
    app = visit(target="The dog.")
    assert ">held</span>" in said(app, "translation") and "The dog." in said(app, "translation")
    words = re.compile(r'data-what="now">(.*?)</span>')
    assert words.findall(said(app, "now")) == words.findall(free)


def test_a_factor_beyond_the_box_is_shown_as_it_is(visit: Visit) -> None:
    ten = ScaleHead(value=10.0, stack="decoder", block="cross", layer=0, head=0)
    app = visit(edits=Intervention((ten,)).to_json())
    assert app.number_input(key="factor").value == 10.0
    assert json.loads(app.session_state["edits"])["edits"][0]["value"] == 10.0


def test_an_edit_of_both_sentences_names_no_word(visit: Visit) -> None:
    app = visit(edits=Intervention((BlockKeys(keys=(1,)),)).to_json())
    (chip,) = [b.label for b in app.button if b.key == "edit-0"]
    assert "word 1" in chip
