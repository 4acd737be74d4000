"""The components on a page, without a browser: what is sent, and in any number of visits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.components import heads_height

from .test_data import decoded

pytestmark = pytest.mark.app
PAGE = Path(__file__).with_name("page.py")


@pytest.mark.parametrize("visit", [1, 2])
def test_every_visit_gets_both_components(visit: int) -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=60).run()
    assert not app.exception
    tokens, heads = (element.proto for element in app.get("bidi_component"))
    header, tiles = decoded(heads.bytes)
    assert header["selected"] == [1, 2] and tiles.shape == (2, 3, 4, 5)
    assert header["height"] == heads_height(2)
    rows = json.loads(tokens.json)["rows"]
    assert [chip["text"] for chip in rows[1]["chips"]] == ["<s>", "die", "Ka", "tze"]
    assert [chip["row"] for chip in rows[1]["chips"]] == [None, 0, 1, 2]


def test_the_chosen_head_travels_to_the_tiles() -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=60)
    app.session_state["place"] = (0, 1)
    app.query_params["change"] = "1"
    app.run()
    header, _ = decoded(app.get("bidi_component")[1].proto.bytes)
    assert header["selected"] == [0, 1] and header["change"]
