"""Between Streamlit and a view: redrawing when the style comes late, chips that go while in use."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support import component_stage as stages
from tests.support.scripts import script
from transformer_viz.components import Chip, ChipRow, tokens_data


def test_a_picture_is_drawn_again_when_its_style_arrives(stage: Page) -> None:
    assert stage.evaluate(script("late_style")) == [1, 2]


def test_the_chip_in_use_may_go_with_its_sentence(stage: Page) -> None:
    """A button that is taken away loses the keyboard, which puts the light out meanwhile."""
    long, short = (
        tokens_data([ChipRow("source", [Chip(word, row=0) for word in words])], dark=False)
        for words in (("a", "b", "c"), ("a",))
    )
    stages.show(stage, "tokens/tokens.js", "Chips", long)
    stage.keyboard.press("Tab")
    stage.keyboard.press("End")
    expect(stage.get_by_role("button", name="c")).to_be_focused()
    stages.update(stage, short)
    expect(stage.get_by_role("button")).to_have_text(["a"])


def test_a_restarted_server_whose_clock_went_back_is_shown_all_the_same(stage: Page) -> None:
    """Numbers begin with the clock; what is behind by a few steps is late, by an hour is new."""
    began, hour = 1_800_000_000_000, 3_600_000
    came = [began, began + 40, began + 12, began - hour, began - hour + 1]
    shown = [began, began + 40, began + 40, began - hour, began - hour + 1]
    assert stage.evaluate(script("newest_of_visit"), came) == shown
