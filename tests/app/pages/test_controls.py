"""Each control on Explore writes its edit to the letter, the model runs with it, and undo works.

tests/browser/app moves some of them by hand and keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.support.widgets import click, edits, fine, keys, ok, put
from transformer_viz.core.interventions import Intervention

from ...support.component_events import slide
from ...support.model_kinds import NAMES
from ...support.page_content import address, go, html, part, told

pytestmark = pytest.mark.app

HEAD = {"stack": "encoder", "block": "self", "layer": 1, "head": 0}
CROSS = {"stack": "decoder", "block": "cross"}
Act = Callable[[AppTest], object]


def slid(key: str, value: str) -> Act:
    return lambda app: slide(app, key, value)


def chosen(**values: Any) -> Act:
    """Set one control after the other, with a run of the page behind each."""

    def act(app: AppTest) -> None:
        for key, value in values.items():
            put(app, {key: value})

    return act


@dataclass(frozen=True)
class Move:
    """A move of a control, and the edits that it must write."""

    name: str
    act: Act
    edits: tuple[dict[str, Any], ...]


def of_head(name: str, act: Act, **edit: Any) -> Move:
    return Move(name, act, ({**edit, **HEAD},))


#: For each place of the page: its link, and the moves there.
MOVES: tuple[tuple[dict[str, str], tuple[Move, ...]], ...] = (
    (
        {"block": "encoder", "layer": "1", "head": "0", "token": "1"},
        (
            of_head("hotter", slid("temperature", "5"), kind="temperature", value=5.0),
            of_head("hard", slid("temperature", "0"), kind="temperature", value=0.0),
            of_head("causal mask on", chosen(causal="on"), kind="causal", on=True),
            of_head("window", slid("window", "0"), kind="window", radius=0),
            of_head("hide a word", chosen(hide=[2]), kind="block_keys", keys=[2]),
            of_head("cut a link", chosen(edge=[1]), kind="block_edges", edges=[[1, 1]]),
            of_head("scale", chosen(head_state="scale", factor=2.0), kind="scale_head", value=2.0),
            of_head("uniform", chosen(head_state="uniform"), kind="uniform_head"),
            of_head("off", chosen(head_state="off"), kind="scale_head", value=0.0),
        ),
    ),
    (
        {"block": "decoder", "layer": "1", "head": "0", "scope": "block"},
        (
            Move(
                "causal mask off",
                chosen(causal="off"),
                ({"kind": "causal", "on": False, "stack": "decoder", "block": "self"},),
            ),
        ),
    ),
    (
        {"block": "cross", "layer": "1", "head": "0", "scope": "everything"},
        (
            Move("padding", chosen(pad=3), ({"kind": "pad", "count": 3, "masked": True},)),
            Move(
                "padding, looked at",
                chosen(pad=3, pad_masked=False),
                ({"kind": "pad", "count": 3, "masked": False},),
            ),
            Move(
                "hide a word everywhere",
                chosen(hide=[2]),
                (
                    {"kind": "block_keys", "keys": [2], "stack": "encoder", "block": "self"},
                    {"kind": "block_keys", "keys": [2], **CROSS},
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize(("place", "moves"), MOVES, ids=["head", "block", "everything"])
def test_each_control_writes_its_edit_and_runs_the_model(
    visit: Callable[..., AppTest], place: dict[str, str], moves: tuple[Move, ...]
) -> None:
    app = visit(**place)
    before = part(app, "head")[1]["weights"]
    for move in moves:
        move.act(app)
        fine(app, move.name)
        assert json.loads(address(app)["edits"])["edits"] == list(move.edits), move.name
        assert len(keys(app, "edit-")) == len(move.edits), move.name
        assert 'data-what="before"' in html(app), move.name
        assert not np.array_equal(part(app, "head")[1]["weights"], before), move.name
        click(app, "clean")
        assert "edits" not in address(app), move.name
        assert np.array_equal(part(app, "head")[1]["weights"], before), move.name


def test_every_control_can_be_undone_and_chips_go_one_by_one(visit: Callable[..., AppTest]) -> None:
    app = visit(block="decoder", scope="block")
    states = [app.session_state["edits"]]
    for name, move in (
        ("causal", chosen(causal="off")),
        ("temperature", slid("temperature", "0.5")),
        ("window", slid("window", "1")),
        ("hide", chosen(hide=[1])),
        ("uniform", chosen(head_state="uniform")),
        ("scale", chosen(head_state="scale")),
        ("factor", chosen(factor=0.25)),
        ("edge", chosen(edge=[0])),
        ("pad", chosen(pad=2)),
        ("pad_masked", chosen(pad_masked=False)),
    ):
        move(app)
        assert not app.exception and not app.error, name
        assert name != "causal" or "flatter" in told(app)
        assert app.session_state["edits"] != states[-1], name
        states.append(app.session_state["edits"])
    found = edits(app)
    assert [edit["kind"] for edit in found] == [
        "causal", "temperature", "window", "block_keys", "scale_head", "block_edges", "pad",
    ]  # fmt: skip
    assert {(edit["stack"], edit["block"]) for edit in found[:-1]} == {("decoder", "self")}
    assert found[4]["value"] == 0.25 and found[5]["edges"] == [[0, 0]]
    for state in reversed(states[:-1]):
        click(app, "undo")
        assert app.session_state["edits"] == state
    assert app.button(key="undo").disabled
    for state in states[1:]:
        click(app, "redo")
        assert app.session_state["edits"] == state
    assert app.button(key="redo").disabled
    for left in reversed(range(len(found))):
        click(app, "edit-0")
        assert len(edits(app)) == left
    assert "edits" not in address(app)


@pytest.mark.parametrize("names", [NAMES[:2], NAMES[2:]], ids=" ".join)
def test_each_control_of_each_kind_writes_an_edit_that_runs(
    meet: Callable[..., AppTest], names: tuple[str, ...]
) -> None:
    for name in names:
        texts = {"lm": "The cat sat on the mat.", "ids": "5 7 11 13"}
        link = {"text": texts["lm"], "masked": "1,3"} if name == "mlm" else {}
        if name in texts:
            link = {"text": texts[name]}
        app = meet(name, scope="everything", **link)
        slide(app, "temperature", "2")
        slide(app, "window", "2")
        causal = "off" if name in ("lm", "ids") else "on"
        for key, value in (
            ("hide", [1]), ("edge", [0]), ("causal", causal), ("head_state", "uniform")
        ):  # fmt: skip
            put(app, {key: value})
        kinds = ["temperature", "window", "block_keys", "block_edges", "causal", "uniform_head"]
        if name in ("vit", "core"):
            assert not [one for one in app.number_input if one.key == "pad"]
        else:
            put(app, {"pad": 2})
            kinds.append("pad")
        assert not app.exception and not app.error, told(app)
        assert [edit.kind for edit in Intervention.from_json(app.session_state["edits"])] == kinds
        for page in ("positions", "norms", ""):
            ok(go(app, page), page)
        click(app, "clean")
        assert "edits" not in address(app)
