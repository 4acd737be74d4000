"""The map of a head in a real browser: true pixels, pointing, choosing, zooming, keys, names."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.components.test_head_map import other_weights
from tests.support import component_stage as stages
from tests.support.browser import visit
from tests.support.long_text import long_trace
from tests.views.conftest import make_trace
from transformer_viz.components.blob import pack
from transformer_viz.components.head_map import map_data
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.palette import DARK, LIGHT, VIRIDIS

CLEAN, WARM = make_trace(), make_trace(temperature=3.0, probability=0.25)
TIP = ".tip"


def show(page: Page, data: bytes, **words: Any) -> None:
    stages.show(page, "head_map/map.js", "HeadMap", data, css="head_map/map.css", **words)


def crossed(most: float | None = None, numbers: str | None = None, **look: Any) -> bytes:
    """Four produced words looking at five source words."""
    return map_data(CLEAN, "cross", 1, 2, MapLook(**look), most=most, numbers=numbers)


def centre(page: Page, row: float, column: float) -> tuple[float, float]:
    """The middle of a cell, on the page."""
    shown = stages.describe(page)
    cells, (first, end), (left, right) = shown["cells"], shown["rows"], shown["columns"]
    across = (column + 0.5 - left) / (right - left)
    down = (row + 0.5 - first) / (end - first)
    return cells["left"] + across * cells["width"], cells["top"] + down * cells["height"]


def pixels(page: Page) -> np.ndarray:
    """What is on the screen, ``[down, right, colour]``."""
    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))


def map_pixels(page: Page) -> np.ndarray:
    """The part of the screen above the buttons, whose round corners the browser redraws freely."""
    cells = stages.describe(page)["cells"]
    return pixels(page)[: int(cells["top"] + cells["height"]) + 2]


def hover(page: Page, row: float, column: float) -> None:
    page.mouse.move(*centre(page, row, column))


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)])


def shade(ramp: tuple[str, ...], part: float) -> np.ndarray:
    """A place between 0 and 1 on a ramp, worked out in numpy."""
    stops = np.array([rgb(colour) for colour in ramp], float)
    places = np.linspace(0, 1, len(ramp))
    return np.array([np.interp(part, places, stops[:, n]) for n in range(3)])


def test_colours_of_cells(stage: Page) -> None:
    # cells have the colour of their weight
    for dark in (False, True):
        show(stage, crossed(), dark=dark)
        seen, weights = pixels(stage), CLEAN.attention("cross", 1)[2].astype(float)
        ramp = (DARK if dark else LIGHT).amounts
        for row, column in np.ndindex(4, 5):
            x, y = centre(stage, row, column)
            code = np.floor(weights[row, column] / weights.max() * 255 + 0.5)
            assert np.abs(seen[int(y), int(x)] - shade(ramp, code / 255)).max() <= 1, (row, column)
    # ramp gamma and threshold change the colours
    weights = CLEAN.attention("cross", 1)[2].astype(float)
    least = float(np.median(weights))
    show(stage, crossed(ramp="viridis", gamma=0.5, threshold=least, most=1.0))
    seen = pixels(stage)
    for row, column in np.ndindex(4, 5):
        weight = weights[row, column]
        code = 0.0 if weight < least else np.floor(weight * 255 + 0.5)
        x, y = centre(stage, row, column)
        expected = shade(VIRIDIS, (code / 255) ** 0.5)
        assert np.abs(seen[int(y), int(x)] - expected).max() <= 1, (row, column)
    expect(stage.locator(".legend")).to_contain_text(f"1.00 · blank below {round(least, 4)}")
    # a change is blue or orange around nothing
    show(stage, map_data(WARM, "cross", 1, 2, before=CLEAN))
    grown = WARM.attention("cross", 1)[2].astype(float) - CLEAN.attention("cross", 1)[2]
    limit, seen = np.abs(grown).max(), pixels(stage)
    for row, column in np.ndindex(4, 5):
        x, y = centre(stage, row, column)
        code = 128 + np.floor(grown[row, column] / limit * 127 + 0.5)
        expected = shade(LIGHT.changes, (1 + (code - 128) / 127) / 2)
        assert np.abs(seen[int(y), int(x)] - expected).max() <= 1, (row, column)
    hover(stage, 1, 2)
    sign = "+" if grown[1, 2] > 0 else "−"
    expect(stage.locator(TIP)).to_have_text(f"Ka → at: {sign}{abs(grown[1, 2]):.4f}")
    expect(stage.locator(".legend")).to_contain_text(f"−{limit:.2f}+{limit:.2f}")
    # masked cells are hatched and others are plain
    show(stage, map_data(CLEAN, "decoder", 1, 2))
    seen = pixels(stage)
    for row, column in np.ndindex(4, 4):
        x, y = map(int, centre(stage, row, column))
        around = seen[y - 10 : y + 10, x - 10 : x + 10].reshape(-1, 3)
        colours = len(np.unique(around, axis=0))
        assert colours > 1 if column > row else colours == 1, (row, column, colours)
    expect(stage.locator(".masked")).to_be_visible()
    show(stage, crossed())
    expect(stage.locator(".masked")).to_be_hidden()
    # the browser may point again where a cell comes to lie under a resting mouse
    stage.mouse.move(0, 0)
    # without an end the colours reach the largest weight
    for data in (crossed(), map_data(WARM, "cross", 1, 2, before=CLEAN)):
        show(stage, data)
        drawn = map_pixels(stage)
        header, arrays = stages.decoded(data)
        limit = header["most"]
        stages.update(stage, pack(header | {"most": None}, **arrays))
        assert stages.describe(stage)["limit"] == pytest.approx(limit, abs=1e-7)
        assert (map_pixels(stage) == drawn).all()
    # weights below a hundredth are not written as none
    flat = np.full_like(long_trace(300).block("encoder", 0).weights, 1 / 300)
    trace = other_weights(long_trace(300), "encoder", flat)
    show(stage, map_data(trace, "encoder", 0, 0))
    expect(stage.locator(".legend")).to_contain_text("0.0033")
    hover(stage, 10, 10)
    expect(stage.locator(TIP)).to_contain_text("0.0033, the largest of 2 × 2 weights")


def test_a_sharp_screen_gets_its_own_pixels(browser: Browser, modules: str) -> None:
    with visit(browser, device_scale_factor=2) as page:
        page.goto(modules)
        show(page, crossed())
        assert page.locator(".picture canvas").first.evaluate("cells => cells.width") == 2 * 700
        seen, weights = pixels(page), CLEAN.attention("cross", 1)[2].astype(float)
        for row, column in ((0, 0), (3, 4)):
            x, y = centre(page, row, column)
            code = np.floor(weights[row, column] / weights.max() * 255 + 0.5)
            found = seen[int(2 * y), int(2 * x)]
            assert np.abs(found - shade(LIGHT.amounts, code / 255)).max() <= 1


def test_pointing_tells_weights_and_lights_words(stage: Page) -> None:
    # pointing tells the exact weight
    show(stage, crossed())
    tip, weights = stage.locator(TIP), CLEAN.attention("cross", 1)[2]
    expect(tip).to_be_hidden()
    for row, column in ((0, 0), (1, 3), (3, 4)):
        hover(stage, row, column)
        names = [("die", "Ka", "tze", "</s>")[row], ("the", "c", "at", "the (2)", "</s>")[column]]
        expect(tip).to_have_text(f"{' → '.join(names)}: {weights[row, column]:.4f}")
    assert stages.said(stage) == []
    stage.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    # cells without a weight say why
    show(stage, map_data(CLEAN, "decoder", 1, 2))
    tip = stage.locator(TIP)
    hover(stage, 0, 3)
    expect(tip).to_have_text("die may not look at tze (masked)")
    weights = CLEAN.attention("cross", 0).copy()
    weights[0, 1, 1] = np.nan
    show(stage, map_data(other_weights(CLEAN, "cross", weights), "cross", 0, 0))
    hover(stage, 1, 1)
    expect(tip).to_have_text("Ka → c: not a number")
    # a masked cell may have a weight all the same
    old = CLEAN.block("cross", 0)
    weights, scores = old.weights.copy(), np.array(old.scores)
    weights[0, 1], scores[0, 1] = 0.2, -1e9
    new = dataclasses.replace(old, weights=weights, scores=scores)
    show(stage, map_data(dataclasses.replace(CLEAN, attentions=(new,)), "cross", 0, 0))
    hover(stage, 1, 1)
    expect(stage.locator(TIP)).to_have_text("Ka → c: 0.2000 (masked)")
    # rows that are new say so
    now, was = long_trace(6), long_trace(5)
    show(stage, map_data(now, "encoder", 0, 0, before=was))
    hover(stage, 5, 1)
    expect(stage.locator(TIP)).to_have_text("wordlik5 → wor1: this row was not there before")
    expect(stage.locator(".note")).to_contain_text("Its own rows are new, and left empty.")
    # pointing lights both words everywhere
    show(stage, crossed())
    hover(stage, 2, 3)
    hover(stage, 2.2, 3.2)  # still the same cell: nothing is said again
    stage.mouse.move(5, 5)
    assert stage.evaluate("lights") == [
        {
            "row": {"sentence": "produced", "tokens": [2]},
            "column": {"sentence": "source", "tokens": [3]},
        },
        {"row": None, "column": None},
    ]
    # words that are lit elsewhere are marked here
    show(stage, crossed())
    before = map_pixels(stage)
    spots = {
        "row": {"sentence": "produced", "tokens": [1]},
        "column": {"sentence": "source", "tokens": [2, 3]},
    }
    stages.shine(stage, **spots)
    after = map_pixels(stage)
    lit = np.abs(after.astype(int) - rgb(LIGHT.warm)).max(axis=2) <= 2
    x, y = map(int, centre(stage, 1, 2))
    assert lit[y - 60 : y + 60, x].sum() == 2 and lit[y, x - 60 : x + 60].sum() >= 2
    assert (before[y, x] == after[y, x]).all()  # the cell keeps its colour
    stages.shine(stage, {"sentence": "target", "tokens": [1]}, None)
    assert (map_pixels(stage) == before).all()


def test_choosing_by_clicks_and_the_table(stage: Page) -> None:
    # a click chooses row and column and again lets go
    show(stage, crossed(words=True))  # rows die, Katze; columns the, cat, the (2), </s>
    stage.mouse.click(*centre(stage, 1, 1))
    stage.mouse.move(5, 5)
    x, y = map(int, centre(stage, 1, 1))
    chosen = np.abs(pixels(stage).astype(int) - rgb(LIGHT.accent)).max(axis=2) <= 2
    assert chosen[y - 60 : y + 60, x].sum() >= 4  # the row: two lines of two pixels
    stage.mouse.click(*centre(stage, 1, 1))
    stage.mouse.click(*centre(stage, 0, 2))
    assert stages.said(stage) == [
        ("picked", {"row": 1, "column": 1}),
        ("picked", {"row": 1, "column": None}),
        ("picked", {"row": 0, "column": 3}),
    ]
    # the table tells the chosen row
    show(stage, map_data(CLEAN, "decoder", 1, 2, MapLook(token=1)))
    button = stage.get_by_role("button", name="the chosen row as a table")
    expect(stage.locator("table")).to_have_count(0)
    button.focus()
    stage.keyboard.press("Enter")
    weights = CLEAN.attention("decoder", 1)[2]
    expect(stage.get_by_role("table", name="“Ka” looks at")).to_be_visible()
    cells = [*(f"{weight:.4f}" for weight in weights[1, :2]), "masked", "masked"]
    expect(stage.locator("tbody td")).to_have_text(cells)
    expect(stage.locator("tbody th")).to_have_text(["<s>", "die", "Ka", "tze"])
    stage.mouse.click(*centre(stage, 0, 0))
    expect(stage.locator("tbody td").first).to_have_text(f"{weights[0, 0]:.4f}")
    button.click()
    expect(stage.locator("table")).to_have_count(0)
    # what stands below comes from the data
    show(stage, crossed(token=0, numbers="entropy 1.00 → 2.00 bits"))
    expect(stage.locator(".said")).to_contain_text("“die” looks most at")
    expect(stage.locator(".numbers")).to_have_text("entropy 1.00 → 2.00 bits")
    most = CLEAN.attention("cross", 1)[2].max()
    expect(stage.locator(".legend")).to_contain_text(f"0{most:.2f}")
