"""Positions in Streamlit's own test runner: every switch, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.core.interventions import BlockKeys, Intervention, ScalePositions, Temperature

from ...support.page_content import address, chart, charts, heatmap, html, said, told, weights

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]


@pytest.fixture
def app(visit: Visit) -> AppTest:
    return visit("positions")


def edits(app: AppTest) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(app.session_state["edits"])["edits"]
    return found


def test_the_page_shows_table_waves_similarity_and_shift(app: AppTest) -> None:
    assert not app.exception and not app.error and not app.warning
    assert list(charts(app)) == [
        "position-table", "wavelengths", "position-similarity", "position-waves",
        "position-shift",
    ]  # fmt: skip
    for question in ("How does the model know", "How long is the wave", "Which places look alike"):
        assert question in html(app)
    assert "6.28" in html(app)  # the shortest wave: 2 pi positions


def test_each_switch_writes_its_edit_and_shows_it(app: AppTest) -> None:
    app.select_slider(key="position_scale").set_value(0.5).run()
    assert edits(app) == [{"kind": "scale_positions", "value": 0.5}]
    app.toggle(key="position_drop").set_value(True).run()
    assert edits(app) == [{"kind": "scale_positions", "value": 0.0}]
    assert app.select_slider(key="position_scale").value == 0
    app.toggle(key="position_drop").set_value(False).run()
    assert edits(app) == []
    app.toggle(key="position_shuffle").set_value(True).run()
    assert edits(app) == [{"kind": "shuffle_positions", "seed": 0}]
    assert "shuffles the places" in told(app)
    app.button(key="reshuffle").click().run()
    assert edits(app) == [{"kind": "shuffle_positions", "seed": 1}]
    assert not app.exception and not app.error
    app.button(key="undo").click().run()
    assert edits(app) == [{"kind": "shuffle_positions", "seed": 0}]
    app.button(key="redo").click().run()
    assert edits(app) == [{"kind": "shuffle_positions", "seed": 1}]
    app.button(key="clean").click().run()
    assert edits(app) == [] and not app.toggle(key="position_shuffle").value
    app.button(key="undo").click().run()
    assert edits(app) == [{"kind": "shuffle_positions", "seed": 1}]
    app.button(key="edit-0").click().run()  # its chip
    assert edits(app) == []


@pytest.mark.parametrize("reach", ["encoder", "decoder"])
def test_positions_of_one_sentence_alone(visit: Visit, reach: str) -> None:
    app = visit("positions", reach=reach, stack=reach)
    clean = heatmap(chart(app, "position-table"))
    app.toggle(key="position_drop").set_value(True).run()
    assert edits(app) == [{"kind": "scale_positions", "value": 0.0, "stack": reach}]
    assert not heatmap(chart(app, "position-table")).any() and clean.any()
    other = "decoder" if reach == "encoder" else "encoder"
    app.button_group(key="stack").set_value(other)
    app.run()
    assert heatmap(chart(app, "position-table")).any()


def test_choosing_sentence_place_pair_and_shift(app: AppTest) -> None:
    app.button_group(key="stack").set_value("decoder")
    app.selectbox(key="place").set_value(2)
    app.number_input(key="pair").set_value(4)
    app.slider(key="shift").set_value(2)
    app.run()
    assert not app.exception and not app.error
    link = address(app)
    assert [link[key] for key in ("stack", "place", "pair", "shift")] == ["decoder", "2", "4", "2"]
    assert "pair 4" in html(app)


def test_dropped_positions_make_a_bag_of_words(app: AppTest) -> None:
    assert "order-words" in html(app) and "bag of words" not in said(app, "verdict")
    app.toggle(key="position_drop").set_value(True).run()
    assert "bag of words" in said(app, "verdict")
    first = said(app, "order-words")
    app.button(key="reorder").click().run()
    assert said(app, "order-words") != first and "bag of words" in said(app, "verdict")
    assert address(app)["order"] == "1"


def test_a_table_that_is_gone_has_no_waves_and_says_so(visit: Visit) -> None:
    gone = Intervention((ScalePositions(value=0.0),)).to_json()
    app = visit("positions", edits=gone)
    assert not app.exception and not app.error
    assert "wavelengths" not in charts(app) and told(app)


def test_places_that_another_sentence_lacks_are_fitted(visit: Visit) -> None:
    app = visit("positions", text="Go.", place="90", shift="90", pair="999")
    assert not app.exception and not app.error
    assert app.session_state["place"] < 10 and app.session_state["pair"] < 12


def test_edits_of_explore_come_along(visit: Visit) -> None:
    warm = Intervention((Temperature(value=4.0),)).to_json()
    app = visit("positions", edits=warm)
    assert [b.label for b in app.button if b.key == "edit-0"]
    assert not np.allclose(weights(app), weights(visit("positions")))


def test_edits_that_go_by_number_get_no_verdict(visit: Visit) -> None:
    hide = BlockKeys(keys=(1,), stack="encoder", block="self")
    gone = Intervention((ScalePositions(value=0.0), hide)).to_json()
    app = visit("positions", edits=gone)
    assert "another word" in said(app, "verdict") and "bag of words" not in said(app, "verdict")


def test_a_single_word_has_no_other_order(visit: Visit) -> None:
    app = visit("positions", text="the")
    assert "no other order" in said(app, "verdict")


def test_sentences_that_are_changed_differently_are_said_to_be(visit: Visit) -> None:
    one = Intervention((ScalePositions(value=0.0, stack="decoder"),)).to_json()
    app = visit("positions", edits=one)
    assert "changed differently" in told(app)
    app.button_group(key="reach").set_value("decoder")
    app.run()
    assert "changed differently" not in told(app)
    assert app.toggle(key="position_drop").value
