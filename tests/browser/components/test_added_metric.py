"""The metric of docs/add-a-metric.md on the screen: the scripts learn of it from the data alone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support import component_stage as stages
from tests.support.added_metric import followed
from transformer_viz.core.head_metrics import shown_metrics

pytestmark = pytest.mark.browser
RANKED = "ranked by weight on the word's own position, highest first"
DASH = "–"


@pytest.fixture(scope="module")
def added() -> dict[str, Any]:
    return followed()


def show(stage: Page, data: bytes) -> None:
    """The atlas alone, as its table."""
    stages.show(stage, "atlas/atlas.js", "Atlas", data, css="atlas/atlas.css")
    expect(stage.locator(".tv-legend")).to_contain_text(RANKED)
    stage.get_by_role("button", name="as a table").click()


def numbers(stage: Page) -> list[str]:
    """The new column, as the table shows it."""
    heading = stage.locator("thead th").all_inner_texts().index("on its own position")
    return stage.locator(f"tbody tr > :nth-child({heading + 1})").all_inner_texts()


def test_a_new_metric_in_menu_legend_and_table(stage: Page, added: dict[str, Any]) -> None:
    # a new metric stands in menu legend and table
    show(stage, added["atlas"])
    menu = stage.get_by_role("combobox", name="sort")
    titles = [metric.title for metric in shown_metrics()]
    assert menu.locator("option").all_inner_texts() == ["layer", *titles, "self"]
    expect(menu).to_have_value("self")
    shown = [float(text) for text in numbers(stage)]
    assert len(shown) == 14 and shown == sorted(shown, reverse=True) and shown[0] > shown[-1]
    # an unknown number is a dash and stands last
    show(stage, added["gaps"])
    *known, last = numbers(stage)
    assert last == DASH and DASH not in known and len(known) == 13
    assert [float(text) for text in known] == sorted(map(float, known), reverse=True)
    # a stored trace shows dashes
    show(stage, added["older"])
    assert numbers(stage) == [DASH] * 14
    names = stage.locator("tbody th").all_inner_texts()
    assert names[:3] == ["Encoder L0 H0", "Encoder L0 H1", "Encoder L1 H0"]  # none before another
