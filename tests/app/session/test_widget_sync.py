"""What a browser sends that has not heard yet: the old value of a list, beside the visitor's move.

A whole page stands behind each case; the browser's part is played by writing the old values back.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.page_content import address

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]


def head_in(app: AppTest) -> tuple[str, str]:
    return address(app).get("layer", "0"), address(app).get("head", "0")


def not_heard(app: AppTest, layer: int, head: int) -> None:
    """The lists say what they said before, in the message that is about to be sent."""
    app.selectbox(key="layer").set_value(layer)
    app.selectbox(key="head").set_value(head)


def test_a_quick_second_step_goes_on_from_the_head_that_is_shown(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1", present="on")
    app.button(key="step-on").click().run()
    assert head_in(app) == ("2", "0")
    not_heard(app, 1, 1)
    app.button(key="step-back").click().run()
    assert head_in(app) == ("1", "1")
    not_heard(app, 2, 0)
    app.button(key="step-back").click().run()
    assert head_in(app) == ("1", "0")


def test_what_was_chosen_stays_when_something_else_is_moved_at_once(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1", present="on")
    app.button(key="step-on").click().run()
    not_heard(app, 1, 1)
    app.toggle(key="words").set_value(True).run()
    assert head_in(app) == ("2", "0") and address(app)["words"] == "on"


def test_who_goes_back_by_hand_means_it(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1", present="on")
    app.button(key="step-on").click().run()
    app.selectbox(key="layer").set_value(1).run()
    assert head_in(app) == ("1", "0")
    app.toggle(key="words").set_value(True).run()
    assert head_in(app) == ("1", "0")


def test_once_the_hand_has_chosen_no_value_is_stale_any_more(visit: Visit) -> None:
    app = visit(block="encoder", layer="1", head="1", present="on")
    app.button(key="step-on").click().run()
    app.selectbox(key="layer").set_value(0).run()
    app.selectbox(key="layer").set_value(1)
    app.toggle(key="special").set_value(not app.toggle(key="special").value).run()
    assert head_in(app)[0] == "1"


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_slider_that_was_just_moved_is_not_written_back(visit: Visit, interrupted: bool) -> None:
    """Writing a value sends it to the browser, where it would undo a key pressed meanwhile."""
    key = "try-far-head-en"
    app = visit("labs", lab="far", tried="guess=0")
    assert app.selectbox(key=key).proto.set_value  # a new control begins with the link's value
    if interrupted:
        app.session_state["_seen"], app.session_state["_ended"] = frozenset(), False
    app.selectbox(key=key).set_value("L2H1").run()
    assert address(app)["tried"] == "guess=0;head=L2H1"
    assert not app.selectbox(key=key).proto.set_value
