"""The components on a page, without a browser: what is sent, and in any number of visits."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

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
