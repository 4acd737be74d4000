"""Options of the pictures: views, further heads, zoom, colours, and the chosen word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

from tests.support.component_events import trigger
from tests.support.page_content import address, drawn, go, part, told, weights
from transformer_viz.core.interventions import Intervention, Temperature

Visit = Callable[..., AppTest]
HEAD = "head-view"


def view(app: AppTest, name: str) -> AppTest:
    app.button_group(key="view").set_value(name)
    return app.run()


def chosen(app: AppTest, *keys: str) -> list[Any]:
    return [app.selectbox(key=key).value for key in keys]


def test_a_head_is_shown_as_map_as_lines_and_as_numbers(visit: Visit) -> None:
    app = visit(layer="1", head="1", token="2", key="3")
    assert part(app, "head")[0]["view"] == "map"
    weight = weights(app)[2, 3]
    lines, arrays = part(view(app, "lines"), "head")
    assert lines["view"] == "lines" and arrays["weights"].shape[0] == 1
    assert (lines["token"], lines["key"]) == (2, 3) and address(app)["view"] == "lines"
    chain, _ = part(view(app, "qk"), "head")
    assert chain["view"] == "qk" and not app.exception and not app.error
    app.toggle(key="words").set_value(True)
    app.toggle(key="special").set_value(False).run()
    chain, _ = part(app, "head")
    assert f"{weight:.4f}" in str(chain)  # the chain ends at the weight of the map
    assert view(app, "map") and "view" not in address(app)


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
    # The atlas knows of heads that the map hides.
    view(app, "map")
    assert part(app, "atlas")[0]["overlaid"] == [[1, 1]]
    app = trigger(app, "atlas", "overlaid", [[1, 1], [1, 0]])
    assert address(app)["overlay"] == "1.1,1.0" and address(app)["view"] == "lines"
    assert "overlay" not in address(trigger(app, "atlas", "overlaid", []))


def test_a_tile_of_any_block_opens_its_head(visit: Visit) -> None:
    app = visit(blocks="all", key="1", overlay="0.1")
    blocks = [block["name"] for block in part(app, "atlas")[0]["blocks"]]
    assert blocks == ["encoder", "decoder", "cross"]
    app = trigger(app, "atlas", "opened", ["encoder", 2, 1])
    link = address(app)
    assert (link["block"], link["layer"], link["head"]) == ("encoder", "2", "1")
    assert part(app, "head")[0]["title"] == "encoder L2 H1"
    assert "key" not in link and "overlay" not in link  # they were of the other block


def test_a_cell_is_chosen_and_let_go(visit: Visit) -> None:
    app = trigger(visit(), HEAD, "picked", {"row": 3, "column": 2})
    assert (address(app)["token"], address(app)["key"]) == ("3", "2")
    assert chosen(app, "token", "key") == [3, 2]
    assert (part(app, "head")[0]["token"], part(app, "head")[0]["key"]) == (3, 2)
    app.selectbox(key="key").set_value(1).run()
    assert address(app)["key"] == "1"
    app = trigger(app, HEAD, "picked", {"row": 3, "column": None})
    assert "key" not in address(app) and not app.exception
    app = trigger(app, "tokens", "picked", {"side": "source", "token": 2})  # pins its column
    assert address(app)["key"] == "2"
    assert chosen(app, "token") == [int(np.argmax(weights(app)[:, 2]))]
    app = trigger(app, "outcome", "picked", {"row": "produced:3", "column": None})
    assert chosen(app, "token", "answer") == [3, 3]
    for page in ("positions", "norms", ""):
        assert address(go(app, page))["token"] == "3", page
    app.button_group(key="block").set_value("encoder")
    app.run()
    app = trigger(app, "outcome", "picked", {"row": "produced:1", "column": None})
    assert chosen(app, "answer", "token") == [1, 3]  # it is no row of the encoder


def test_an_enlarged_part_stays_until_another_sentence_comes(visit: Visit) -> None:
    app = trigger(visit(), HEAD, "zoomed", {"rows": [1, 3], "columns": [0, 2]})
    assert address(app)["zoom"] == "1-3,0-2"
    assert part(app, "head")[0]["zoom"] == [[1, 3], [0, 2]]
    assert drawn(visit(**address(app))) == drawn(app)
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
    # The difference is sorted by it, and the clean run by layer.
    warm = Intervention((Temperature(value=4.0),)).to_json()
    app = visit(edits=warm, compare="difference", sort="change")
    assert part(app, "atlas")[0]["how"]["sort"] == "change"
    app.button_group(key="compare").set_value("now")
    assert part(app.run(), "atlas")[0]["how"]["sort"] == "layer"
    assert address(app)["sort"] == "change"


def test_anything_may_come_from_a_browser(visit: Visit) -> None:
    app = visit()
    before = address(app)
    for key, name, value in (
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
    ):
        app = trigger(app, key, name, value)
        case = (key, name, value, told(app))
        assert not app.exception and not app.error and not app.warning, case
        assert address(app) == before, case


def test_a_link_to_what_is_not_there_is_reported(visit: Visit) -> None:
    for key, text, says in (
        ("key", "99", "There is no column 99 here"),
        ("overlay", "0.1,7.0", "heads that are not in this block"),
        ("zoom", "3-1,0-2", "no part of a map"),
        ("zoom", "0-2,0-500", "no part of a map"),
    ):
        app = visit(**{key: text})
        assert not app.exception and not app.error and says in told(app), (key, text)
        assert address(app).get(key) in (None, "0.1"), (key, text)


def test_a_row_is_the_chosen_word_on_norms_and_back(visit: Visit) -> None:
    app = visit(block="encoder")
    app.selectbox(key="token").set_value(2).run()
    assert (address(app)["word"], app.session_state["stack"]) == ("2", "encoder")
    assert chosen(go(app, "norms"), "word") == [2]
    app.selectbox(key="word").set_value(4).run()
    assert chosen(go(app, ""), "token") == [4]
    # A decoder's row is the word that it produces.
    app = visit()
    app.selectbox(key="token").set_value(2).run()
    said = part(app, "head")[0]["rows"]["labels"][2]
    assert app.session_state["stack"] == "decoder" and chosen(app, "answer") == [2]
    word = go(app, "norms").selectbox(key="word")
    assert word.value == 3 and word.options[3] == f"3 {said}"
    word.set_value(2).run()
    assert chosen(go(app, ""), "token") == [1]
    # A source word chosen on Norms is the column of the cross map.
    app = go(visit(token="1"), "norms")
    app.selectbox(key="word").set_value(3).run()
    assert chosen(go(app, ""), "key", "token") == [3, 1]
