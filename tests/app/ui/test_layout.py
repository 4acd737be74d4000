"""Rows, headings and quiet words are the elements that pages once wrote themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.proto.Block_pb2 import Block
from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.app


def drawn(script: Callable[[], None]) -> AppTest:
    app = AppTest.from_function(script).run()
    assert not app.exception
    return app


def boxes(script: Callable[[], None]) -> list[Block]:
    return [block.proto for block in drawn(script).main.children.values()]


def test_a_row_is_a_horizontal_container() -> None:
    def ours() -> None:
        from transformer_viz.app.ui import layout

        layout.row().write("x")
        layout.row("bottom", gap="medium", key="one").write("x")
        layout.row("center", spread=True, fit=True).write("x")

    def plain() -> None:
        import streamlit as st

        st.container(horizontal=True).write("x")
        st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="one").write(
            "x"
        )
        st.container(
            horizontal=True,
            vertical_alignment="center",
            horizontal_alignment="distribute",
            width="content",
        ).write("x")

    found, wanted = boxes(ours), boxes(plain)
    assert len(found) == 3
    for one, other in zip(found, wanted, strict=True):
        one.id = other.id = ""  # names the script
        assert one == other


def test_headings_and_quiet_words() -> None:
    def ours() -> None:
        from transformer_viz.app.ui import layout

        layout.heading("<b>Who?</b>")
        layout.heading("What?", 3, fit=True, what="checkpoint")
        layout.quiet("aside", fit=True)

    found = [one.proto for one in drawn(ours).main.children.values()]
    assert [one.body for one in found] == [
        '<h2 class="tv-question"><b>Who?</b></h2>',
        '<h3 class="tv-question" data-what="checkpoint">What?</h3>',
        '<span class="tv-quiet">aside</span>',
    ]
