"""The components on a page, without a browser: what is sent, and in any number of visits."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.component_events import trigger
from tests.support.paths import ROOT

pytestmark = pytest.mark.app
PAGE = ROOT / "tests" / "support" / "chips_app.py"


@pytest.mark.parametrize("visit", [1, 2])
def test_every_visit_gets_both_components(visit: int) -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=60).run()
    assert not app.exception
    tokens, panel = (element.proto for element in app.get("bidi_component"))
    rows = json.loads(tokens.json)["rows"]
    assert [chip["text"] for chip in rows[1]["chips"]] == ["<s>", "die", "Ka", "tze"]
    assert [chip["row"] for chip in rows[1]["chips"]] == [
        None,
        *(f"produced:{n}" for n in (0, 1, 2)),
    ]
    assert [chip["dead"] for chip in rows[1]["chips"]] == [True, False, False, False]
    chart = json.loads(tokens.json)["chart"]
    assert chart["key"] == "map" and chart["rows"]["sentence"] == "produced"
    assert chart["columns"] | {"labels": 0} == {
        "sentence": "source",
        "labels": 0,
        "groups": [[n] for n in range(5)],
    }
    assert json.loads(panel.json)["seq"] == 3


def test_what_is_said_again_after_a_lost_connection_is_done_once() -> None:
    def page() -> None:
        import streamlit as st

        from transformer_viz.app.ui import components
        from transformer_viz.components.blob import pack

        def heard(value: object) -> None:
            st.session_state.done = [*st.session_state.get("done", []), value]

        data = pack({"part": "panel", "seq": 0, "html": ""})
        components.panel(data, key="panel", picked=heard)

    app = AppTest.from_function(page, default_timeout=60).run()
    for number, value in (("a", 1), ("a", 1), ("b", 1), ("c", 2), ("a", 1)):
        trigger(app, "panel", "picked", {"id": number, "value": value})
    trigger(app, "panel", "picked", 3)  # without a number each counts
    trigger(app, "panel", "picked", 3)
    assert not app.exception and app.session_state["done"] == [1, 1, 2, 3, 3]
