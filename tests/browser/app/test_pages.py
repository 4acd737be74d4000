"""Positions and Norms in Chromium: clicks into pictures, and the file of numbers.

What each choice sends is held by tests/app/pages: test_positions.py, test_norms.py.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.first_run import CONFIG, SOURCE
from tests.support.page_actions import (
    address,
    after,
    click,
    click_plot,
    differing,
    go,
    press,
    query,
)
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature

TABLE, MAP = "charts.position-table", "charts.head-view"
SIMILARITY, SHIFT = "charts.position-similarity", "charts.position-shift"
WAVES = ("charts.wavelengths", "charts.position-waves")
CHANGED = Intervention(
    (
        Temperature(value=2.5, stack="encoder", block="self", layer=0),
        BlockKeys(keys=(8,), stack="encoder", block="self"),
    )
)
NORM_SITES = 2 * CONFIG["encoder_layers"] + 1  # two a layer, and the last one
NORM, STREAM, GAINS = "charts.norm-map", "charts.stream", "charts.gains"


def test_positions_by_pointer(page: Page, url: str) -> None:
    now = go(page, f"{url}/positions?block=encoder&layer=0&head=1")
    assert "tells the two orders apart" in now["said"]["verdict"]
    point = page.locator(".st-key-wavelengths .scatterlayer .point").nth(64)
    _, now = after(page, lambda p: p.mouse.click(*_middle(point)), "query", *WAVES)
    assert abs(int(query(page)["pair"]) - 64) <= 2  # neighbouring points touch
    assert now["controls"]["pair"][0][-1] == query(page)["pair"]
    rows = len(SOURCE)
    steps = (
        (
            lambda p: click_plot(p, "position-similarity", 0.5, 3.5 / rows),
            {"place": "3"},
            (TABLE, SIMILARITY, "controls.place"),
        ),
        (
            lambda p: click_plot(p, "position-table", 100.5 / 256, 8.5 / rows),
            {"place": "8", "pair": "50"},
            (TABLE, *WAVES, "controls.pair"),
        ),
        (
            lambda p: press(p, "k: how many words further", "ArrowRight", 2),
            {"shift": "3"},
            (SHIFT,),
        ),
    )
    for act, keys, seen in steps:
        _, clean = after(page, act, "query", *seen)
        assert query(page) | keys == query(page), keys
        assert clean["alerts"] == [], keys
    assert differing(clean, go(page, page.url)) == set(), "the link brings it back"


def _middle(point: Locator) -> tuple[float, float]:
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.shipped
def test_norms_by_pointer_and_their_file(page: Page, url: str, tmp_path: Path) -> None:
    go(page, address(url, "norms", edits=CHANGED.to_json()))
    with page.expect_download() as waiting:
        click(page, "CSV")
    waiting.value.save_as(tmp_path / "norms.csv")
    with (tmp_path / "norms.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == NORM_SITES * len(SOURCE) and f"{list(rows[0])[-1]}".endswith("_clean")
    _table_shows(page, rows)

    last = len(SOURCE) - 1  # the line of the end mark ends far above the others
    lines = page.locator(".st-key-stream .scatterlayer .trace")
    end = lines.nth(last - 1).locator(".point").last
    after(page, lambda p: p.mouse.click(*_middle(end)), "query", STREAM, NORM, "said.norm")
    assert query(page)["word"] == str(last)
    cell = 11.5 / len(SOURCE), 4.5 / NORM_SITES
    seen = (NORM, STREAM, GAINS, "said.norm", "controls.word", "controls.site")
    _, now = after(page, lambda p: click_plot(p, "norm-map", *cell), "query", *seen)
    keys = {"word": "11", "site": "encoder.layers.2.self_norm"}
    assert query(page) | keys == query(page) and now["alerts"] == []
    assert "→" in now["said"]["norm"]


def _table_shows(page: Page, rows: list[dict[str, str]]) -> None:
    """The rows and columns of the table that are in view hold what the file holds."""
    grid = page.get_by_test_id("stDataFrame").locator("table")
    expect(grid.locator("td").first).not_to_be_empty()
    names = grid.locator("thead th").all_inner_texts()
    shown = [row.locator("td").all_inner_texts() for row in grid.locator("tbody tr").all()]
    assert len(shown) >= 5
    assert list(rows[0])[: len(names)] == names
    for row, cells in zip(rows, shown, strict=False):
        for name, cell in zip(names, cells, strict=True):
            number = re.fullmatch(r"-?[\d.]+(e-?\d+)?", row[name])
            same = float(cell) == pytest.approx(float(row[name])) if number else cell == row[name]
            assert same, (name, cell, row)
