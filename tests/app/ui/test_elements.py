"""Elements of pages: rows, headings, marked words, and the components as they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.support.component_events import trigger
from tests.support.paths import ROOT
from transformer_viz.app.cards import dock
from transformer_viz.app.ui.components import _act_once
from transformer_viz.app.ui.text_format import changed_words, ending, first_few, spelled_in_bytes
from transformer_viz.core.trace_parts import Tokens

PAGE = ROOT / "tests" / "support" / "chips_app.py"


def elements(script: Callable[[], None]) -> list[object]:
    app = AppTest.from_function(script).run()
    assert not app.exception
    return [one.proto for one in app.main.children.values()]


def test_a_row_is_a_horizontal_container_and_headings_are_html() -> None:
    def ours() -> None:
        from transformer_viz.app.ui import layout

        layout.row().write("x")
        layout.row("bottom", gap="medium", key="one").write("x")
        layout.row("center", spread=True, fit=True).write("x")

    def plain() -> None:
        import streamlit as st

        bottom = {"vertical_alignment": "bottom", "gap": "medium", "key": "one"}
        center = {"vertical_alignment": "center", "horizontal_alignment": "distribute"}
        for words in ({}, bottom, center | {"width": "content"}):
            st.container(horizontal=True, **words).write("x")

    found, wanted = elements(ours), elements(plain)
    assert len(found) == 3
    for one, other in zip(found, wanted, strict=True):
        one.id = other.id = ""  # names the script
        assert one == other

    def headings() -> None:
        from transformer_viz.app.ui import layout

        layout.heading("<b>Who?</b>")
        layout.heading("What?", 3, fit=True, what="checkpoint")
        layout.quiet("aside", fit=True)

    assert [one.body for one in elements(headings)] == [
        '<h2 class="tv-question"><b>Who?</b></h2>',
        '<h3 class="tv-question" data-what="checkpoint">What?</h3>',
        '<span class="tv-quiet">aside</span>',
    ]


def test_every_visit_gets_both_components() -> None:
    for visit in (1, 2):
        app = AppTest.from_file(str(PAGE), default_timeout=60).run()
        assert not app.exception, visit
        tokens, panel = (json.loads(one.proto.json) for one in app.get("bidi_component"))
        chips = [(chip["text"], chip["row"], chip["dead"]) for chip in tokens["rows"][1]["chips"]]
        assert chips == [
            ("<s>", None, True),
            ("die", "produced:0", False),
            ("Ka", "produced:1", False),
            ("tze", "produced:2", False),
        ], visit
        chart, groups = tokens["chart"], [[n] for n in range(5)]
        assert chart["key"] == "map" and chart["rows"]["sentence"] == "produced"
        columns = {name: chart["columns"][name] for name in ("sentence", "groups")}
        assert columns == {"sentence": "source", "groups": groups}
        assert {*chart["columns"]} == {*columns, "labels"} and panel["seq"] == 3


def test_an_event_repeated_after_a_lost_connection_counts_once() -> None:
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
    for _ in range(2):
        trigger(app, "panel", "picked", 3)  # without a number each counts
    assert not app.exception and app.session_state["done"] == [1, 1, 2, 3, 3]


def test_new_words_are_marked_and_escaped() -> None:
    def new(text: str) -> str:
        return f'<span class="tv-new">{text}</span>'

    left_out = '<span class="tv-new" title="words left out here">…</span>'
    for before, after, shown in (
        ("Das ist gut.", "Das ist gut.", "Das ist gut."),
        ("Das ist gut.", "Das war gut.", f"Das {new('war')} gut."),
        ("Das ist gut.", "Das ist sehr gut.", f"Das ist {new('sehr')} gut."),
        ("a b c", "a c", f"a {left_out} c"),
        ("", "x <y>", new("x &lt;y&gt;")),
        ("x", "", left_out),
    ):
        assert changed_words(before, after) == shown, (before, after)


def test_long_texts_and_spelled_characters_are_shortened() -> None:
    pieces = ("▁", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "▁a", "<0xC3>", "<0xB8>", "<0xF0>")
    labels = ("␣", "🙂 1/4", "🙂 2/4", "🙂 3/4", "🙂 4/4", "a", "ø 1/2", "ø 2/2", "🙂 1/4 (2)")
    count = len(pieces)
    tokens = Tokens((), pieces, labels, tuple(range(count)), (False,) * count)
    assert spelled_in_bytes(tokens) == ("🙂", "ø")
    assert first_few(("*a*", "b"), 1) == "\\*a\\* and 1 more"
    # Of a long text the end is shown, from the beginning of a word on.
    assert ending("short enough", 12) == "short enough"
    for room, shown in ((11, "… three four"), (10, "… four")):
        assert ending("one two three four", room) == shown


def test_a_message_of_a_control_that_is_gone_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a lost connection the browser sends again what a slow server has not drawn yet."""
    monkeypatch.setattr(st, "session_state", {})
    acted: list[str] = []
    _act_once("panel", "picked", lambda: acted.append("picked"))
    for name in ("head_state", "causal", "hide", "edge"):
        dock._write(name)
    assert not acted
