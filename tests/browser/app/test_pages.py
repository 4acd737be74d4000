"""Positions and Norms in a real browser: every choice, every switch, and the file of numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import page_actions
from tests.support.first_run import CONFIG, SOURCE
from tests.support.page_actions import after, edits, go, query
from transformer_viz import Intervention, load, trace
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import BlockKeys, Temperature
from transformer_viz.metrics.residual.norm_statistics import norm_table

TABLE, MAP = "charts.position-table", "charts.head-view"
Step = tuple[Callable[[Page], object], dict[str, str], tuple[str, ...]]


# ---- Positions ----------------------------------------------------------------------------------

#: What one chooses on Positions, one after the other; the edits stay empty.
PLACES: list[Step] = [
    (
        lambda p: page_actions.choose(p, "position", f"5 {SOURCE[5]}"),
        {"place": "5"},
        (TABLE, "charts.position-similarity", "charts.position-shift"),
    ),
    (
        lambda p: page_actions.click_plot(p, "position-similarity", 0.5, 3.5 / len(SOURCE)),
        {"place": "3"},
        (TABLE, "charts.position-similarity", "controls.place"),
    ),
    (
        lambda p: page_actions.click_plot(p, "position-table", 100.5 / 256, 8.5 / len(SOURCE)),
        {"place": "8", "pair": "50"},
        (TABLE, "charts.wavelengths", "charts.position-waves", "controls.pair"),
    ),
    (
        lambda p: page_actions.enter(p, "pair of dimensions", "7"),
        {"pair": "7"},
        (TABLE, "charts.wavelengths", "charts.position-waves"),
    ),
    (
        lambda p: page_actions.press(p, "k: how many words further", "ArrowRight", 2),
        {"shift": "3"},
        ("charts.position-shift",),
    ),
    (
        lambda p: page_actions.pick(p, "sentence", "Target"),
        {"stack": "decoder"},
        (TABLE, "charts.position-similarity", "controls.place"),
    ),
    (
        lambda p: page_actions.click(p, "another order"),
        {"order": "1"},
        ("said.order-words", "said.order-trained"),
    ),
]


def test_every_choice_on_positions_is_seen_and_kept(page: Page, url: str) -> None:
    now = go(page, f"{url}/positions")
    assert "tells the two orders apart" in now["said"]["verdict"]
    _choose_a_pair_in_the_wavelengths(page)
    for act, keys, seen in PLACES:
        _, now = after(page, act, "query", *seen)
        assert query(page) | keys == query(page)
        assert now["alerts"] == []
    assert page_actions.differing(now, go(page, page.url)) == set()


def _choose_a_pair_in_the_wavelengths(page: Page) -> None:
    points = page.locator(".st-key-wavelengths .scatterlayer .point")
    seen = ("query", "charts.wavelengths", "charts.position-waves")
    _, now = after(page, lambda p: p.mouse.click(*_middle(points.nth(64))), *seen)
    assert abs(int(query(page)["pair"]) - 64) <= 2  # neighbouring points touch
    assert now["controls"]["pair"][0][-1] == query(page)["pair"]


def _middle(point: Locator) -> tuple[float, float]:
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_every_switch_of_positions_changes_what_the_model_does(page: Page, url: str) -> None:
    clean = go(page, f"{url}/positions?block=encoder&layer=0&head=1")
    seen = ("edits", MAP, TABLE, "chances", "said.numbers", "said.after")
    press = lambda p: page_actions.press(p, "scale", "ArrowLeft", 6)  # noqa: E731
    after(page, press, *(set(seen) - {TABLE}))  # the table's colours have their own scale
    assert edits(page) == [{"kind": "scale_positions", "value": 0.5}]

    _, now = after(page, lambda p: page_actions.switch(p, "drop"), *seen[:-1])
    assert edits(page) == [{"kind": "scale_positions", "value": 0.0}]
    assert "bag of words" in now["said"]["verdict"]
    assert now["said"]["order-changed"] == now["said"]["after"] != now["said"]["before"]
    after(page, lambda p: page_actions.pick(p, "compare", "Difference"), MAP, TABLE)
    page_actions.pick(page, "compare", "Now")
    _, now = after(page, lambda p: page_actions.switch(p, "drop"), *seen[:-2])
    assert edits(page) == []
    assert page_actions.differing(clean, now) == set()

    page_actions.pick(page, "the positions of", "the source")
    _, one = after(page, lambda p: page_actions.switch(p, "shuffle"), *seen[:-1])
    assert edits(page) == [{"kind": "shuffle_positions", "seed": 0, "stack": "encoder"}]
    _, two = after(page, lambda p: page_actions.click(p, "another shuffle"), "edits", MAP, TABLE)
    assert edits(page) == [{"kind": "shuffle_positions", "seed": 1, "stack": "encoder"}]
    _, now = after(page, lambda p: page_actions.click(p, "↶ undo"), "edits", MAP, TABLE)
    assert page_actions.differing(one, now) == set()
    assert page_actions.differing(one, go(page, page.url)) == set()
    assert two["charts"] != one["charts"]


# ---- Norms --------------------------------------------------------------------------------------

CHANGED = Intervention(
    (
        Temperature(value=2.5, stack="encoder", block="self", layer=0),
        BlockKeys(keys=(8,), stack="encoder", block="self"),
    )
)
NORM_SITES = 2 * CONFIG["encoder_layers"] + 1  # two a layer, and the last one
NORM, STREAM, GAINS = "charts.norm-map", "charts.stream", "charts.gains"
NORMS: list[Step] = [
    (
        lambda p: page_actions.choose(p, "number", "mean before"),
        {"statistic": "mean"},
        (NORM, "said.norm"),
    ),
    (
        lambda p: page_actions.choose(p, "norm", "L1 before feed-forward"),
        {"site": "encoder.layers.1.feed_forward_norm"},
        (NORM, GAINS, "said.norm"),
    ),
    (
        lambda p: page_actions.choose(p, "word", f"6 {SOURCE[6]}"),
        {"word": "6"},
        (NORM, STREAM, "said.norm"),
    ),
    (
        lambda p: page_actions.click_plot(p, "norm-map", 11.5 / len(SOURCE), 4.5 / NORM_SITES),
        {"word": "11", "site": "encoder.layers.2.self_norm"},
        (NORM, STREAM, GAINS, "said.norm", "controls.word", "controls.site"),
    ),
    (lambda p: page_actions.pick(p, "compare", "Before"), {"compare": "before"}, (NORM, STREAM)),
    (
        lambda p: page_actions.pick(p, "compare", "Difference"),
        {"compare": "difference"},
        (NORM, STREAM),
    ),
    (
        lambda p: page_actions.pick(p, "sentence", "Target"),
        {"stack": "decoder"},
        (NORM, STREAM, GAINS, "said.norm", "said.change"),
    ),
]


def test_every_choice_on_norms_is_seen_and_kept(page: Page, url: str) -> None:
    go(page, page_actions.address(url, "norms", edits=CHANGED.to_json()))
    # the line of the end mark ends far above the others
    last = len(SOURCE) - 1
    lines = page.locator(".st-key-stream .scatterlayer .trace")
    end = lines.nth(last - 1).locator(".point").last
    seen_there = ("query", STREAM, NORM, "said.norm")
    after(page, lambda p: p.mouse.click(*_middle(end)), *seen_there)
    assert query(page)["word"] == str(last)
    for act, keys, seen in NORMS:
        _, now = after(page, act, "query", *seen)
        assert query(page) | keys == query(page)
        assert now["alerts"] == []
    assert "→" in now["said"]["norm"]
    assert page_actions.differing(now, go(page, page.url)) == set()
    _, now = after(page, lambda p: page_actions.click(p, "back to clean"), "edits", NORM)
    assert "change" not in now["said"]


@pytest.mark.shipped
def test_the_file_of_numbers_holds_what_the_run_gave(page: Page, url: str, tmp_path: Path) -> None:
    """CSV against a run of our own, and against the table on the screen."""
    go(page, page_actions.address(url, "norms", edits=CHANGED.to_json()))
    with page.expect_download() as waiting:
        page_actions.click(page, "CSV")
    waiting.value.save_as(tmp_path / "norms.csv")
    with (tmp_path / "norms.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    model = load("en-de", device="cpu")
    clean = trace(model, FIRST_TEXT)
    ids = {"target": list(clean.target.ids), "produced": list(clean.produced.ids)}
    changed = trace(model, FIRST_TEXT, intervention=CHANGED, **ids)
    for run, ending in ((changed, ""), (clean, "_clean")):
        table = norm_table(run, "encoder")
        assert [(row["site"], int(row["token"])) for row in rows] == list(
            zip(table["site"], table["token"], strict=True)
        )
        numbers = [c for c in table.columns if c not in ("site", "place", "token", "word")]
        assert len(numbers) >= 8
        for column in numbers:
            given = np.array([float(row[column + ending]) for row in rows])
            assert given == pytest.approx(table[column].to_numpy(), rel=1e-5, abs=1e-6)
    _table_shows(page, rows)


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
