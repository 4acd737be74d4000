"""What is chosen about the pictures: views, further heads, zoom, colours, and one chosen word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.core.interventions import Intervention, Temperature

from ...support.component_events import trigger
from ...support.page_content import address, drawn, go, part, told, weights

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
HEAD = "head-view"


def view(app: AppTest, name: str) -> AppTest:
    app.button_group(key="view").set_value(name)
    return app.run()


def test_a_head_is_shown_as_map_as_lines_and_as_numbers(visit: Visit) -> None:
    app = visit(layer="1", head="1", token="2", key="3")
    assert part(app, "head")[0]["view"] == "map"
    lines, arrays = part(view(app, "lines"), "head")
    assert lines["view"] == "lines" and arrays["weights"].shape[0] == 1
    assert (lines["token"], lines["key"]) == (2, 3) and address(app)["view"] == "lines"
    chain, _ = part(view(app, "qk"), "head")
    assert chain["view"] == "qk" and not app.exception and not app.error
    assert view(app, "map") and "view" not in address(app)


def test_the_chain_of_numbers_ends_at_the_weight_of_the_map(visit: Visit) -> None:
    link = {"layer": "1", "head": "1", "token": "2", "key": "3"}
    weight = weights(visit(**link))[2, 3]
    chain, _ = part(visit(**link, view="qk", words="on", special="off"), "head")
    assert f"{weight:.4f}" in str(chain)


def test_further_heads_are_added_and_taken_away(visit: Visit) -> None:
    app = trigger(visit(), "atlas", "overlaid", [[1, 0]])
    assert address(app)["overlay"] == "1.0" and address(app)["view"] == "lines"
    app = trigger(app, "atlas", "overlaid", [[1, 0], [1, 1]])
    both = [(at["layer"], at["head"]) for at in part(app, "head")[0]["heads"]]
    assert both == [(0, 0), (1, 0), (1, 1)]
    assert part(app, "atlas")[0]["overlaid"] == [[1, 0], [1, 1]]
    assert list(app.multiselect(key="also").value) == [(1, 0), (1, 1)]
    app.multiselect(key="also").set_value([(1, 1)]).run()
    assert address(app)["overlay"] == "1.1" and part(app, "head")[1]["weights"].shape[0] == 2
    assert "overlay" not in address(trigger(app, "atlas", "overlaid", []))


def test_the_atlas_knows_of_heads_that_the_map_hides(visit: Visit) -> None:
    app = visit(overlay="1.0")
    assert part(app, "atlas")[0]["overlaid"] == [[1, 0]]
    app = trigger(app, "atlas", "overlaid", [[1, 0], [1, 1]])
    assert address(app)["overlay"] == "1.0,1.1" and address(app)["view"] == "lines"


def test_a_tile_of_any_block_opens_its_head(visit: Visit) -> None:
    app = visit(blocks="all", key="1", overlay="0.1")
    assert [block["name"] for block in part(app, "atlas")[0]["blocks"]] == [
        "encoder", "decoder", "cross",
    ]  # fmt: skip
    app = trigger(app, "atlas", "opened", ["encoder", 2, 1])
    link = address(app)
    assert (link["block"], link["layer"], link["head"]) == ("encoder", "2", "1")
    assert part(app, "head")[0]["title"] == "encoder L2 H1"
    assert "key" not in link and "overlay" not in link  # they were of the other block


def test_a_place_in_the_map_is_chosen_and_let_go(visit: Visit) -> None:
    app = trigger(visit(), HEAD, "picked", {"row": 3, "column": 2})
    assert (address(app)["token"], address(app)["key"]) == ("3", "2")
    assert app.selectbox(key="token").value == 3 and app.selectbox(key="key").value == 2
    assert (part(app, "head")[0]["token"], part(app, "head")[0]["key"]) == (3, 2)
    app.selectbox(key="key").set_value(1).run()
    assert address(app)["key"] == "1"
    app = trigger(app, HEAD, "picked", {"row": 3, "column": None})
    assert "key" not in address(app) and not app.exception
    for page in ("positions", "norms", ""):
        assert address(go(app, page))["token"] == "3", page


def test_what_is_enlarged_stands_in_the_link_until_another_sentence_comes(visit: Visit) -> None:
    app = trigger(visit(), HEAD, "zoomed", {"rows": [1, 3], "columns": [0, 2]})
    assert address(app)["zoom"] == "1-3,0-2"
    assert part(app, "head")[0]["zoom"] == [[1, 3], [0, 2]]
    again = visit(**address(app))
    assert drawn(again) == drawn(app)
    app.text_input(key="text").set_value("A dog sat.").run()
    assert "zoom" not in address(app) and not app.warning
    app = trigger(app, HEAD, "zoomed", {"rows": [0, 2], "columns": [0, 2]})
    assert "zoom" in address(app) and "zoom" not in address(trigger(app, HEAD, "zoomed", None))


def test_how_pictures_are_drawn_stands_in_the_link(visit: Visit) -> None:
    how = {"sort": "entropy", "scale": "common", "ramp": "grey", "gamma": 0.5, "threshold": 0.25}
    app = trigger(visit(), "atlas", "drawn", how)
    wanted = {name: str(value) for name, value in how.items()}
    assert wanted.items() <= address(app).items()
    assert part(app, "atlas")[0]["how"] == how
    head, _ = part(app, "head")
    assert (head["ramp"], head["gamma"], head["threshold"]) == ("grey", 0.5, 0.25)
    app = trigger(view(app, "lines"), HEAD, "drawn", {"top": 3, "threshold": 0})
    assert address(app)["top"] == "3" and "threshold" not in address(app)


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [
        ("atlas", "opened", ["sideways", 0, 0]),
        ("atlas", "opened", ["cross", -1, 0]),
        ("atlas", "opened", "cross"),
        ("atlas", "overlaid", [0]),
        ("atlas", "overlaid", [[0, 1], [0]]),
        ("atlas", "overlaid", [0, 1]),
        ("atlas", "drawn", {"gamma": "x", "ramp": None, "threshold": 9, "sort": [1]}),
        ("atlas", "drawn", 7),
        (HEAD, "picked", {"row": "3", "column": True}),
        (HEAD, "picked", [1, 2]),
        (HEAD, "zoomed", {"rows": [3, 1], "columns": [0, 99]}),
        (HEAD, "zoomed", {"rows": 4}),
        ("outcome", "picked", {"row": "produced:²"}),
        ("outcome", "picked", {"row": 4}),
        ("outcome", "picked", None),
    ],
)
def test_anything_may_come_from_a_browser(visit: Visit, key: str, name: str, value: Any) -> None:
    app = visit()
    before = address(app)
    app = trigger(app, key, name, value)
    assert not app.exception and not app.error and not app.warning, told(app)
    assert address(app) == before


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("key", "99", "There is no column 99 here"),
        ("overlay", "0.1,7.0", "heads that are not in this block"),
        ("zoom", "3-1,0-2", "no part of a map"),
        ("zoom", "0-2,0-500", "no part of a map"),
    ],
)
def test_what_a_link_names_in_vain_is_told(visit: Visit, key: str, text: str, says: str) -> None:
    app = visit(**{key: text})
    assert not app.exception and not app.error and says in told(app)
    assert address(app).get(key) in (None, "0.1")


def test_a_row_is_the_chosen_word_on_norms_and_back(visit: Visit) -> None:
    app = visit(block="encoder")
    app.selectbox(key="token").set_value(2).run()
    assert (address(app)["word"], app.session_state["stack"]) == ("2", "encoder")
    assert go(app, "norms").selectbox(key="word").value == 2
    app.selectbox(key="word").set_value(4).run()
    assert go(app, "").selectbox(key="token").value == 4


def test_a_decoders_row_is_the_word_that_it_produces(visit: Visit) -> None:
    app = visit()
    app.selectbox(key="token").set_value(2).run()
    said = part(app, "head")[0]["rows"]["labels"][2]
    assert app.session_state["stack"] == "decoder" and app.selectbox(key="answer").value == 2
    go(app, "norms")
    word = app.selectbox(key="word")
    assert word.value == 3 and word.options[3] == f"3 {said}"
    word.set_value(2).run()
    assert go(app, "").selectbox(key="token").value == 1


def test_a_source_word_chosen_on_norms_is_the_column_of_the_cross_map(visit: Visit) -> None:
    app = go(visit(token="1"), "norms")
    app.selectbox(key="word").set_value(3).run()
    go(app, "")
    assert app.selectbox(key="key").value == 3 and app.selectbox(key="token").value == 1


def test_a_bar_of_the_outcome_chooses_its_row(visit: Visit) -> None:
    app = trigger(visit(), "outcome", "picked", {"row": "produced:3", "column": None})
    assert app.selectbox(key="token").value == 3 and app.selectbox(key="answer").value == 3
    app.button_group(key="block").set_value("encoder")
    app.run()
    app = trigger(app, "outcome", "picked", {"row": "produced:1", "column": None})
    assert app.selectbox(key="answer").value == 1  # but no row of the encoder
    assert app.selectbox(key="token").value == 3


def test_a_click_on_a_source_word_pins_its_column(visit: Visit) -> None:
    app = trigger(visit(), "tokens", "picked", {"side": "source", "token": 2})
    assert address(app)["key"] == "2"
    row = int(np.argmax(weights(app)[:, 2]))
    assert app.selectbox(key="token").value == row


def test_the_difference_is_sorted_by_it_and_the_clean_run_by_layer(visit: Visit) -> None:
    warm = Intervention((Temperature(value=4.0),)).to_json()
    app = visit(edits=warm, compare="difference", sort="change")
    assert part(app, "atlas")[0]["how"]["sort"] == "change"
    app.button_group(key="compare").set_value("now")
    assert part(app.run(), "atlas")[0]["how"]["sort"] == "layer"
    assert address(app)["sort"] == "change"
