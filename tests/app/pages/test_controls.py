"""Each control on Explore writes its edit to the letter, and the model runs with it.

tests/browser/app/test_visit.py moves three of them by hand and keys, `make soak` all thirteen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from ...support.component_events import slide
from ...support.page_content import address, html, part, told

pytestmark = pytest.mark.app

ENCODER = {"block": "encoder", "layer": "1", "head": "0", "token": "1"}
DECODER = {"block": "decoder", "layer": "1", "head": "0", "scope": "block"}
ALL = {"block": "cross", "layer": "1", "head": "0", "scope": "everything"}
HEAD = {"stack": "encoder", "block": "self", "layer": 1, "head": 0}
CROSS = {"stack": "decoder", "block": "cross"}
Act = Callable[[AppTest], object]


def pick(key: str, *words: str) -> Act:
    """Choose one word after the other from choices side by side."""

    def act(app: AppTest) -> None:
        for word in words:
            app.button_group(key=key).set_value(word)
            app.run()

    return act


def scale(app: AppTest) -> None:
    pick("head_state", "scale")(app)
    app.number_input(key="factor").set_value(2.0).run()


def pad(app: AppTest) -> None:
    app.number_input(key="pad").set_value(3).run()


def pad_and_look(app: AppTest) -> None:
    pad(app)
    app.toggle(key="pad_masked").set_value(False).run()


def slid(key: str, value: str) -> Act:
    return lambda app: slide(app, key, value)


def chosen(key: str, *places: int) -> Act:
    return lambda app: app.multiselect(key=key).set_value(list(places)).run()


#: By the name of what is done: where, how, and the edits it must write.
MOVES: dict[str, tuple[dict[str, str], Act, list[dict[str, Any]]]] = {
    "hotter": (
        ENCODER,
        slid("temperature", "5"),
        [{"kind": "temperature", "value": 5.0, **HEAD}],
    ),
    "hard": (ENCODER, slid("temperature", "0"), [{"kind": "temperature", "value": 0.0, **HEAD}]),
    "causal mask on": (ENCODER, pick("causal", "on"), [{"kind": "causal", "on": True, **HEAD}]),
    "window": (ENCODER, slid("window", "0"), [{"kind": "window", "radius": 0, **HEAD}]),
    "hide a word": (ENCODER, chosen("hide", 2), [{"kind": "block_keys", "keys": [2], **HEAD}]),
    "cut a link": (
        ENCODER,
        chosen("edge", 1),
        [{"kind": "block_edges", "edges": [[1, 1]], **HEAD}],
    ),
    "scale": (ENCODER, scale, [{"kind": "scale_head", "value": 2.0, **HEAD}]),
    "uniform": (ENCODER, pick("head_state", "uniform"), [{"kind": "uniform_head", **HEAD}]),
    "off": (ENCODER, pick("head_state", "off"), [{"kind": "scale_head", "value": 0.0, **HEAD}]),
    "causal mask off": (
        DECODER,
        pick("causal", "off"),
        [{"kind": "causal", "on": False, "stack": "decoder", "block": "self"}],
    ),
    "padding, masked": (ALL, pad, [{"kind": "pad", "count": 3, "masked": True}]),
    "padding, looked at": (ALL, pad_and_look, [{"kind": "pad", "count": 3, "masked": False}]),
    "hide a word everywhere": (
        ALL,
        chosen("hide", 2),
        [
            {"kind": "block_keys", "keys": [2], "stack": "encoder", "block": "self"},
            {"kind": "block_keys", "keys": [2], **CROSS},
        ],
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_each_control_writes_its_edit_and_runs_the_model(
    visit: Callable[..., AppTest], name: str
) -> None:
    place, act, edits = MOVES[name]
    app = visit(**place)
    before = part(app, "head")[1]["weights"]
    act(app)
    assert not app.exception and not app.error and not app.warning, told(app)
    assert json.loads(address(app)["edits"])["edits"] == edits
    assert len([one for one in app.button if str(one.key).startswith("edit-")]) == len(edits)
    assert 'data-what="before"' in html(app)
    assert not np.array_equal(part(app, "head")[1]["weights"], before)
