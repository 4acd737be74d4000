"""The atlas in a real browser: the colours of its cells, its order, its size, its frames."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from tests.support import component_stage as stages
from tests.support.browser import visit
from tests.support.component_stage import decoded, describe, update
from tests.support.many_heads import blocks_max, many, repeated
from tests.support.scripts import script
from tests.views.conftest import make_trace
from transformer_viz.components.atlas import HeadNumber, atlas_data
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.head_metrics import shown_metrics
from transformer_viz.core.palette import DARK, LIGHT, OKABE_ITO, Ramp, ramps
from transformer_viz.core.trace import Trace

COLOURS = script("canvas_colours")


def show(page: Page, data: bytes, **words: Any) -> dict[str, float]:
    """The atlas alone on its page."""
    return stages.show(page, "atlas/atlas.js", "Atlas", data, css="atlas/atlas.css", **words)


def pixels(
    page: Page, place: tuple[int, int, int], where: list[Any], canvas: str = "cells"
) -> np.ndarray:
    """Colours ``[place, rgba]`` at parts of a tile (block, layer, head), right and down."""
    tile, layer = tile_of(page, place), page.locator(f".tv-{canvas}")
    box = layer.bounding_box()
    assert box is not None
    left, top = tile["left"] - box["x"], tile["top"] - box["y"]
    points = [[left + x * tile["width"], top + y * tile["height"]] for x, y in where]
    return np.array(layer.evaluate(COLOURS, points))


def tile_of(page: Page, place: tuple[int, int, int]) -> dict[str, float]:
    """Where a tile (block, layer, head) is on the page: left, top, width, height."""
    return next(
        tile
        for tile in describe(page)["tiles"]
        if (tile["block"], tile["layer"], tile["head"]) == place
    )


def order(page: Page) -> list[list[int]]:
    """Block, layer, head, row and column of each tile, in their order."""
    names = ("block", "layer", "head", "row", "column")
    return [[tile[name] for name in names] for tile in describe(page)["tiles"]]


def off(page: Page, place: tuple[int, int, int], wanted: np.ndarray) -> float:
    """How far the middles of a tile's cells are from these colours; all must be opaque."""
    rows, columns = wanted.shape[:2]
    middles = [((c + 0.5) / columns, (r + 0.5) / rows) for r in range(rows) for c in range(columns)]
    found = pixels(page, place, middles).reshape(rows, columns, 4)
    assert (found[..., 3] == 255).all()
    return float(np.abs(found[..., :3] - wanted).max())


def shaded(parts: np.ndarray, ramp: Ramp, least: float = 0.0) -> np.ndarray:
    """Colours along a ramp of numbers from ``least`` to 1, ``[..., rgb]``; not the component's."""
    stops = np.array([[int(colour[n : n + 2], 16) for n in (1, 3, 5)] for colour in ramp])
    places = np.linspace(least, 1, len(stops))
    return np.stack([np.interp(parts, places, stops[:, n]) for n in range(3)], axis=-1)


def colours(amounts: np.ndarray, ramp: Ramp) -> np.ndarray:
    """Colours of 0...1 along a ramp in 256 steps."""
    return shaded(np.floor(amounts * 255 + 0.5) / 255, ramp)


def own(trace: Trace, block: str, layer: int, head: int, ramp: Ramp = LIGHT.amounts) -> np.ndarray:
    """Colours of a tile on its own scale."""
    tile = trace.thumbnail(block)[layer, head].astype(float)
    return colours(tile / tile.max(), ramp)


@pytest.fixture(scope="module")
def clean() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def test_tiles_have_the_colours_of_their_weights(stage: Page, clean: Trace) -> None:
    # a first mount colours the tiles once
    stage.evaluate(script("count_paints"))
    show(stage, atlas_data(clean, ["encoder"]))
    stage.wait_for_timeout(300)  # a frame of another size would be drawn anew by now
    assert stage.evaluate("window.painted") == 1  # one sheet holds all tiles of the block
    # each head is drawn on its own scale
    for dark in (False, True):
        show(stage, atlas_data(clean, ["decoder", "cross"]), dark=dark)
        ramp = (DARK if dark else LIGHT).amounts
        for (number, block), (layer, head) in product(
            enumerate(("decoder", "cross")), ((0, 0), (1, 2))
        ):
            wanted = own(clean, block, layer, head, ramp)
            assert off(stage, (number, layer, head), wanted) <= 1, (dark, block)
    # all heads share a scale when asked
    for ramp in ("viridis", "cividis", "grey"):
        show(stage, atlas_data(clean, ["encoder", "cross"], MapLook(ramp=ramp), scale="common"))
        most = max(clean.thumbnail(block).max() for block in ("encoder", "cross"))
        for layer, head in np.ndindex(2, 3):
            tile = clean.thumbnail("cross")[layer, head].astype(float)
            assert off(stage, (1, layer, head), colours(tile / most, ramps()[ramp])) <= 1, ramp
    # gamma and threshold change what is seen
    show(stage, atlas_data(clean, ["cross"], MapLook(gamma=0.5, threshold=0.2)))
    tile = clean.thumbnail("cross")[1, 0].astype(float)
    amounts = np.where(tile / 255 < 0.2, 0, np.floor(tile / tile.max() * 255 + 0.5) / 255)
    assert 5 < (amounts == 0).sum() < 18  # some are blank, some are not
    assert off(stage, (0, 1, 0), shaded(amounts**0.5, LIGHT.amounts)) <= 1
    assert "below 0.2 left blank" in stage.locator(".tv-legend").inner_text()
    # tiles have the colour of a number when asked
    for dark in (False, True):
        values = np.array([[0.2, -0.3, np.nan], [0.7, 0.45, 0.1]])
        given = [HeadNumber("diagonality", "diagonal", {"cross": values})]
        words = {"sort": "diagonality", "scale": "diagonality", "numbers": given}
        show(stage, atlas_data(clean, ["cross"], **words), dark=dark)
        ramp = (DARK if dark else LIGHT).amounts
        for layer, head in np.argwhere(np.isfinite(values)).tolist():
            part = np.array((values[layer, head] + 0.3) / 1.0)
            drawn = pixels(stage, (0, layer, head), [(0.05, 0.05), (0.95, 0.95)])[:, :3]
            assert np.abs(drawn - shaded(part, ramp)).max() <= 1, (dark, layer, head)
        ranked = [[1, 0], [1, 1], [0, 0], [1, 2], [0, 1], [0, 2]]
        assert [tile[1:3] for tile in order(stage)] == ranked, dark
        legend = stage.locator(".tv-legend").inner_text()
        assert "-0.30" in legend.replace("\u2212", "-") and "0.70" in legend, dark
        assert "colour: diagonal" in legend, dark
        menu = stage.get_by_role("combobox", name="colour")
        assert menu.locator("option").all_inner_texts() == ["per head", "common", "diagonal"], dark
        menu.select_option("head")
        assert off(stage, (0, 1, 2), own(clean, "cross", 1, 2, ramp)) <= 1, dark


def test_changes_are_drawn_around_zero_and_ranked(stage: Page, clean: Trace, warm: Trace) -> None:
    # a change is drawn around zero
    data = atlas_data(warm, ["encoder", "cross"], MapLook(threshold=0.1), before=clean)
    show(stage, data)
    _, arrays = decoded(data)
    limit = max(
        np.abs(warm.thumbnail(block).astype(float) - clean.thumbnail(block)).max() / 255
        for block in ("encoder", "cross")
    )
    parts = (arrays["tiles1"][1, 2].astype(float) - 128) / 127
    parts[np.abs(parts) * limit < 0.1] = 0
    assert off(stage, (1, 1, 2), shaded(parts, LIGHT.changes, -1)) <= 1
    legend = stage.locator(".tv-legend").inner_text()
    assert f"−{limit:.2f}" in legend and f"+{limit:.2f}" in legend and "one scale" in legend
    assert stage.get_by_role("combobox", name="colour").is_disabled()
    # rows that were not there stay empty
    data = bytearray(atlas_data(warm, ["cross"], before=clean))
    _, arrays = decoded(bytes(data))
    place = bytes(data).index(arrays["tiles0"].tobytes())
    data[place : place + 5] = bytes(5)  # the first row of L0 H0
    show(stage, bytes(data))
    found = pixels(stage, (0, 0, 0), [(0.1, 0.1), (0.9, 0.1), (0.5, 0.4)])
    assert found[:, 3].tolist() == [0, 0, 255]
    # heads are ranked by the size of their change
    show(stage, atlas_data(warm, ["cross"], before=clean, sort="change"))
    steps = warm.thumbnail("cross").astype(float) - clean.thumbnail("cross")
    sizes = np.abs(steps).max(axis=(2, 3)).reshape(-1)
    expected = np.argsort(-sizes, kind="stable")
    assert [3 * layer + head for _, layer, head, *_ in order(stage)] == list(expected)
    update(stage, atlas_data(warm, ["cross"], sort="change"))  # no change to rank by
    assert [place[3:] for place in order(stage)] == [list(divmod(n, 3)) for n in range(6)]


def test_what_is_too_small_is_pooled(stage: Page) -> None:
    # a cell without a pixel gives way to the strongest
    trace = many(3, 12, 64, kept=False)
    show(stage, atlas_data(trace, ["encoder"]), width="340px")
    shown = describe(stage)
    width, height = (shown["tiles"][0][side] for side in ("width", "height"))
    ((down, across),) = shown["pooled"]
    assert (down, across) == (-(-64 // height), -(-64 // width)) and across > 1
    tile = trace.thumbnail("encoder")[2, 5].astype(float)
    rows, columns = -(-64 // down), -(-64 // across)
    padded = np.zeros((rows * down, columns * across))
    padded[:64, :64] = tile
    small = padded.reshape(rows, down, columns, across).max(axis=(1, 3))
    assert off(stage, (0, 2, 5), colours(small / tile.max(), LIGHT.amounts)) <= 1
    words = f"a cell holds up to {down} × {across} weights, the largest is shown"
    assert words in stage.locator(".tv-legend").inner_text()
    # what is pooled is said in tokens
    show(stage, atlas_data(many(1, 1, 129, kept=False), ["encoder"]), width="300px")
    assert "up to 3 × 3 weights" in stage.locator(".tv-legend").inner_text()
    update(stage, atlas_data(many(1, 1, 12, kept=False), ["encoder"]))
    assert "up to" not in stage.locator(".tv-legend").inner_text()
    # three thousand heads are few elements that scroll
    trace = repeated(many(1, 64, 64, kept=False), 48)
    show(stage, atlas_data(trace, ["encoder"]))
    assert stage.evaluate("host.shadowRoot.querySelectorAll('*').length") < 200
    frame = stage.locator(".tv-frame")
    scrolls = "frame => [frame.scrollWidth > frame.clientWidth, frame.scrollHeight > 500]"
    assert frame.evaluate(scrolls) == [True, True]
    frame.focus()
    for key in ("End", *["ArrowDown"] * 47):
        stage.keyboard.press(key)
    tile, window = tile_of(stage, (0, 47, 63)), frame.bounding_box()
    assert window is not None
    assert 0 < tile["left"] - window["x"] < window["width"]
    assert 0 < tile["top"] - window["y"] < window["height"]
    assert tile["width"] == 15  # of 16 cells: two by two they are drawn
    weights = blocks_max(trace.thumbnail("encoder")[47, 63].astype(float), 8, 8)
    assert off(stage, (0, 47, 63), colours(weights / weights.max(), LIGHT.amounts)) <= 1


def test_heads_are_ranked_as_pandas_ranks_them(stage: Page) -> None:
    # heads are ranked as pandas ranks them
    for sort in [metric.name for metric in shown_metrics()]:
        trace = many(3, 5, 11, blocks=("encoder", "decoder", "cross"))
        show(stage, atlas_data(trace, ["encoder", "decoder", "cross"], sort=sort))
        heads = trace.heads.assign(number=trace.heads[sort].astype(np.float32))
        ranked = heads.sort_values("number", ascending=False, kind="stable")
        kinds = {("encoder", "self"): 0, ("decoder", "self"): 1, ("decoder", "cross"): 2}
        expected = [[kinds[r.stack, r.block], r.layer, r.head] for r in ranked.itertuples()]
        found = order(stage)
        assert [place[:3] for place in found] == expected, sort
        columns = max(place[4] for place in found) + 1
        assert [place[3:] for place in found] == [list(divmod(n, columns)) for n in range(45)], sort
        assert "highest first" in stage.locator(".tv-legend").inner_text(), sort


def test_frames_themes_and_widths(stage: Page, clean: Trace) -> None:
    # opened and overlaid heads are framed
    opened, laid = ("cross", 1, 2), [(0, 1), (1, 0)]
    show(stage, atlas_data(clean, ["encoder", "cross"], opened=opened, overlaid=laid))
    frame = [(-0.01, 0.5)]
    expected = {(1, 2): LIGHT.accent, (0, 1): OKABE_ITO[1], (1, 0): OKABE_ITO[2]}
    for layer, head in np.ndindex(2, 3):
        (found,) = pixels(stage, (1, layer, head), frame)
        colour = expected.get((layer, head), LIGHT.line)
        assert [f"{value:02X}" for value in found[:3]] == [colour[n : n + 2] for n in (1, 3, 5)]
        (other,) = pixels(stage, (0, layer, head), frame)  # frames belong to the opened block
        assert f"{other[0]:02X}" == LIGHT.line[1:3], layer
    # a theme that changes is followed
    data = atlas_data(clean, ["cross"])
    show(stage, data)
    stage.evaluate("document.documentElement.style.setProperty('--st-background-color', '#14171C')")
    update(stage, data)
    assert off(stage, (0, 0, 1), own(clean, "cross", 0, 1, DARK.amounts)) <= 1
    # a narrow place keeps the tiles
    show(stage, atlas_data(clean, ["cross"]), width="230px")  # its controls take many lines
    assert stage.locator(".tv-frame").evaluate("frame => frame.clientHeight") >= 120
    assert off(stage, (0, 1, 1), own(clean, "cross", 1, 1)) <= 1
    frame, tools = (stage.locator(name).bounding_box() for name in (".tv-frame", ".tv-tools"))
    assert frame is not None and tools is not None
    assert tools["y"] >= frame["y"] + frame["height"]  # below, not above one another
    # another width places everything anew
    show(stage, atlas_data(clean, ["cross"]))
    wide = describe(stage)["tiles"][0]["width"]
    stage.evaluate("document.querySelector('#host').style.width = '200px'")
    stage.wait_for_function("wide => view.describe().tiles[0].width < wide", arg=wide)
    assert off(stage, (0, 1, 2), own(clean, "cross", 1, 2)) <= 1


def test_fine_screens_get_fine_pixels(browser: Browser, modules: str) -> None:
    trace = many(2, 6, 64, kept=False)
    with visit(browser, device_scale_factor=2) as page:
        page.goto(modules)
        show(page, atlas_data(trace, ["encoder"]), width="420px")
        shown = describe(page)
        assert shown["pooled"] == [[1, 1]] and 32 <= shown["tiles"][0]["width"] < 64
        sizes = "canvas => [canvas.width, 2 * parseInt(canvas.style.width)]"
        drawn, expected = page.locator(".tv-cells").evaluate(sizes)
        assert drawn == expected
        assert off(page, (0, 1, 4), own(trace, "encoder", 1, 4)) <= 1
