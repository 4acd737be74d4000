"""The session: typed names of its state, and old values that a browser sends again."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from tests.support.page_content import address
from tests.support.paths import ROOT
from transformer_viz.app.session.keys import Private, Slot
from transformer_viz.app.session.state import Choice, State
from transformer_viz.app.session.url_state import KEYS

APP = ROOT / "transformer_viz" / "app"
#: What is asked before the state was taken from the link.
EARLY = ['lessons/navigation.py: session_state.get("station"']
Visit = Callable[..., AppTest]


def test_each_key_has_one_typed_name() -> None:
    keys = [key.name for key in KEYS]
    assert [name for name, one in vars(State).items() if isinstance(one, Choice)] == keys
    slots = {name: one.key for name, one in vars(Private).items() if isinstance(one, Slot)}
    assert slots == {name: f"_{name}" for name in slots}
    assert len(slots) > 10 and not {*slots.values()} & {*keys}

    def found(pattern: str) -> list[str]:
        """Where the app outside the session's folder spells a key."""
        spelled = re.compile(pattern, re.MULTILINE)
        paths = [path for path in sorted(APP.rglob("*.py")) if path.parent != APP / "session"]
        return [
            f"{path.relative_to(APP)}: {match[0]}"
            for path in paths
            for match in spelled.finditer(path.read_text("utf-8"))
        ]

    by_key = found(rf'session_state(\[|\.(get|pop)\()"({"|".join(keys)}|_({"|".join(slots)}))"')
    assert by_key == EARLY, "write state.token instead (transformer_viz/app/session/state.py)"
    below = ("ui/progress.py", "ui/components.py")  # they cannot import the session's keys
    own = [one for one in found(r'^[A-Z_, ]+ = .*"_[a-z]') if not one.startswith(below)]
    assert own == [], "give it a Slot in transformer_viz/app/session/keys.py"


def test_typed_names_read_and_write_the_session(visit: Visit) -> None:
    app = visit(layer="1", token="1", special="off")
    assert (app.session_state["layer"], app.session_state["special"]) == (1, False)

    def script() -> None:
        import streamlit as st

        from transformer_viz.app.session.keys import private
        from transformer_viz.app.session.state import state

        state.token = 3
        private.counts = {"token": 4}
        st.text(f"{st.session_state['token']} {state.token} {private.counts} {private.fresh}")
        del private.counts
        del private.counts  # what is at its default stays there
        st.text(f"{private.counts}")

    told = [one.value for one in AppTest.from_function(script).run().text]
    assert told == ["3 3 {'token': 4} False", "{}"]


# A browser may send the old value of a list together with the visitor's move. A whole page stands
# behind each case; the browser's part is played by writing the old values back.


def head_in(app: AppTest) -> tuple[str, str]:
    return address(app).get("layer", "0"), address(app).get("head", "0")


def stepped(visit: Visit) -> AppTest:
    """Return a page that went on from L1 H1 to L2 H0."""
    app = visit(block="encoder", layer="1", head="1", present="on")
    app.button(key="step-on").click().run()
    assert head_in(app) == ("2", "0")
    return app


def send_old(app: AppTest, layer: int, head: int) -> None:
    """Have the lists say what they said before, in the message that is about to be sent."""
    app.selectbox(key="layer").set_value(layer)
    app.selectbox(key="head").set_value(head)


def test_old_values_do_not_undo_a_move(visit: Visit) -> None:
    app = stepped(visit)
    send_old(app, 1, 1)
    app.button(key="step-back").click().run()
    assert head_in(app) == ("1", "1")
    send_old(app, 2, 0)
    app.button(key="step-back").click().run()
    assert head_in(app) == ("1", "0")
    # The head that was chosen stays when something else is moved at once.
    app = stepped(visit)
    send_old(app, 1, 1)
    app.toggle(key="words").set_value(True).run()
    assert head_in(app) == ("2", "0") and address(app)["words"] == "on"


def test_a_value_chosen_by_hand_is_never_taken_for_old(visit: Visit) -> None:
    app = stepped(visit)
    app.selectbox(key="layer").set_value(1).run()
    assert head_in(app) == ("1", "0")
    app.toggle(key="words").set_value(True).run()
    assert head_in(app) == ("1", "0")
    app = stepped(visit)
    app.selectbox(key="layer").set_value(0).run()
    app.selectbox(key="layer").set_value(1)
    app.toggle(key="special").set_value(not app.toggle(key="special").value).run()
    assert head_in(app)[0] == "1"


def test_a_slider_that_was_just_moved_is_not_written_back(visit: Visit) -> None:
    """Writing a value sends it to the browser, where it would undo a key pressed meanwhile."""
    key = "try-far-head-en"
    for interrupted in (False, True):
        app = visit("labs", lab="far", tried="guess=0")
        assert app.selectbox(key=key).proto.set_value  # a new control begins with the link's value
        if interrupted:
            app.session_state["_seen"], app.session_state["_ended"] = frozenset(), False
        app.selectbox(key=key).set_value("L2H1").run()
        assert address(app)["tried"] == "guess=0;head=L2H1", interrupted
        assert not app.selectbox(key=key).proto.set_value, interrupted
