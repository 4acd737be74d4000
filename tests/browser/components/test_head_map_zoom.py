"""The map of a head in Chromium: zooming, keys, names that fit, updates and ends."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect

from tests.support import component_stage as stages
from tests.support.long_text import long_trace
from transformer_viz.components.blob import pack
from transformer_viz.components.head_map import map_data, map_height
from transformer_viz.components.lines import lines_data
from transformer_viz.components.map_look import MapLook

from .test_head_map import CLEAN, TIP, WARM, centre, crossed, hover, show


def zoomed(page: Page) -> Any:
    """What the map said last about the part that is shown, once the hand rested."""
    page.wait_for_function("view.describe().resting")
    said = [value for name, value in stages.said(page) if name == "zoomed"]
    return said[-1] if said else "nothing"


def part(page: Page) -> dict[str, list[int]]:
    """The rows and the columns that are shown, each from the first to before the last."""
    shown = stages.describe(page)
    return {side: shown[side] for side in ("rows", "columns")}


def test_a_long_map_is_exact_where_it_is_enlarged(stage: Page) -> None:
    # a long map is exact where it is enlarged
    trace = long_trace(512)
    weights = trace.attention("encoder", 0)[0]
    show(stage, map_data(trace, "encoder", 0, 0))
    note, tip = stage.locator(".note"), stage.locator(TIP)
    expect(note).to_have_text(
        "Each cell holds up to 2 × 2 weights; the largest is shown. Zoom in for exact values."
    )
    hover(stage, 100, 200)
    largest = weights[100:102, 200:202].max()
    expect(tip).to_have_text(
        f"word100 … wordl101 → wordli200 … wordlik201: {largest:.2f}, the largest of 2 × 2 weights"
    )
    stage.keyboard.down("Control")
    for _ in range(4):
        stage.mouse.wheel(0, -100)
    stage.keyboard.up("Control")
    part = zoomed(stage)
    (top, bottom), (left, right) = part["rows"], part["columns"]
    assert top <= 100 < bottom and left <= 200 < right and bottom - top == right - left < 256
    expect(note).to_contain_text(f"Enlarged: rows {top + 1} to {bottom} of 512")
    expect(note).to_contain_text("Each cell holds up to 2 × 2")
    answer = map_data(trace, "encoder", 0, 0, MapLook(zoom=((top, bottom), (left, right))))
    stages.update(stage, answer)
    expect(note).to_contain_text("Every cell is one weight.")
    hover(stage, 101, 203)
    expect(tip).to_have_text(f"wordl101 → wo203: {weights[101, 203]:.4f}")
    stage.get_by_role("button", name="the chosen row as a table").click()
    stages.update(stage, map_data(trace, "encoder", 0, 0, MapLook(token=500)))
    expect(stage.locator("tbody td").nth(7)).to_have_text(f"{weights[500, 7]:.4f}")
    # a report can hold all weights or say that it does not
    trace = long_trace(300)
    weights = trace.attention("encoder", 0)[0]
    header, arrays = stages.decoded(map_data(trace, "encoder", 0, 0))
    show(stage, pack(header | {"fixed": True}, **arrays))
    note = stage.locator(".note")
    expect(note).to_have_text("Each cell holds up to 2 × 2 weights; the largest is shown.")
    stage.mouse.click(*centre(stage, 9, 9))
    stage.get_by_role("button", name="the chosen row as a table").click()
    expect(stage.locator(".rows")).to_have_text(
        "The exact weights of this row are not in this page."
    )
    whole = {"weights": weights, "masked": np.zeros((300, 300), np.uint8)}
    stages.update(stage, pack(header | {"region": [[0, 300], [0, 300]]}, **arrays, **whole))
    expect(note).to_contain_text("up to 2 × 2")
    stage.mouse.click(*centre(stage, 9, 9))
    expect(stage.locator("tbody td").nth(299)).to_have_text(f"{weights[9, 299]:.4f}")
    stage.get_by_role("button", name="enlarge the map").click()
    expect(note).to_contain_text("Every cell is one weight.")
    hover(stage, 151, 140)
    expect(stage.locator(TIP)).to_contain_text(f": {weights[151, 140]:.4f}")


def test_zooming_by_hand(stage: Page) -> None:
    # the wheel alone belongs to the page
    show(stage, crossed())
    hover(stage, 1, 1)
    stage.mouse.wheel(0, -100)
    assert zoomed(stage) == "nothing"
    # buttons and a double click zoom
    show(stage, map_data(long_trace(20), "encoder", 0, 0))
    larger, smaller, whole = (
        stage.get_by_role("button", name=name)
        for name in ("enlarge the map", "show more of the map", "show all of the map")
    )
    expect(whole).to_have_attribute("aria-disabled", "true")
    larger.click()
    assert zoomed(stage) == {"rows": [5, 15], "columns": [5, 15]}
    larger.click()
    larger.click()
    expect(larger).to_have_attribute("aria-disabled", "true")
    assert zoomed(stage) == {"rows": [9, 13], "columns": [9, 13]}
    smaller.click()
    assert zoomed(stage) == {"rows": [7, 15], "columns": [7, 15]}
    stage.mouse.dblclick(*centre(stage, 9, 9))
    assert zoomed(stage) is None
    assert [name for name, _ in stages.said(stage)].count("picked") == 1
    # dragging moves what is enlarged
    zoom = ((5, 15), (5, 15))
    show(stage, map_data(long_trace(20), "encoder", 0, 0, MapLook(zoom=zoom)))
    stage.mouse.move(*centre(stage, 10, 10))
    stage.mouse.down()
    stage.mouse.move(*centre(stage, 8, 10), steps=3)
    stage.mouse.up()
    assert zoomed(stage) == {"rows": [7, 17], "columns": [5, 15]}
    assert [name for name, _ in stages.said(stage)] == ["zoomed"]  # a drag is no click
    show(stage, map_data(long_trace(20), "encoder", 0, 0))
    stage.mouse.move(*centre(stage, 10, 10))
    stage.mouse.down()
    stage.mouse.move(*centre(stage, 4, 4), steps=3)
    stage.mouse.up()
    assert zoomed(stage) == "nothing"  # the whole map has nowhere to go
    # a press that ends outside does not hold on
    show(stage, map_data(long_trace(20), "encoder", 0, 0, MapLook(zoom=((5, 15), (5, 15)))))
    stage.mouse.move(*centre(stage, 14, 14))
    stage.mouse.down()
    box = stage.locator(".picture").bounding_box()
    assert box
    stage.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] + 60)  # in one leap
    stage.mouse.up()
    stage.mouse.move(*centre(stage, 8, 8), steps=3)  # with no button down
    assert zoomed(stage) == "nothing"
    # an old answer does not take the picture away
    trace = long_trace(20)
    show(stage, map_data(trace, "encoder", 0, 0))
    larger = stage.get_by_role("button", name="enlarge the map")
    larger.click()
    first = zoomed(stage)
    larger.click()
    spans = (tuple(first["rows"]), tuple(first["columns"]))
    late = map_data(trace, "encoder", 0, 0, MapLook(zoom=spans))  # type: ignore[arg-type]
    stages.update(stage, late)
    assert stages.describe(stage)["rows"] == [8, 13]
    second = zoomed(stage)
    stages.update(stage, late)  # a step of a slider that began before Python heard
    stages.update(stage, map_data(trace, "encoder", 0, 0, MapLook(zoom=((8, 13), (8, 13)))))
    assert stages.describe(stage)["rows"] == second["rows"] == [8, 13]
    stages.update(stage, map_data(trace, "encoder", 0, 0, MapLook(zoom=((0, 4), (2, 9)))))
    assert part(stage) == {"rows": [0, 4], "columns": [2, 9]}
    stages.update(stage, map_data(long_trace(7), "encoder", 0, 0))
    assert part(stage) == {"rows": [0, 7], "columns": [0, 7]}


def test_the_keyboard_reads_chooses_and_zooms(stage: Page) -> None:
    # the keyboard reads chooses and zooms
    trace = long_trace(23)
    weights = trace.attention("encoder", 0)[0]
    show(stage, map_data(trace, "encoder", 0, 0, MapLook(token=2, key=3)))
    live = stage.locator(".live")

    def heard(row: int, column: int) -> None:
        labels = trace.source.labels
        words = f"{labels[row]} → {labels[column]}: {weights[row, column]:.4f}"
        expect(live).to_have_text(words)

    stage.keyboard.press("Tab")
    expect(stage.get_by_role("application")).to_be_focused()
    expect(stage.get_by_role("application")).to_have_attribute(
        "aria-label",
        "Attention, encoder L0 H0: 23 rows look at 23 columns. Arrow keys move, Enter chooses, "
        "plus and minus zoom, 0 shows all.",
    )
    heard(2, 3)
    keys = ("ArrowDown", "ArrowRight", "End", "PageDown", "PageDown", "Home", "PageUp", "ArrowUp")
    places = [(3, 3), (3, 4), (3, 22), (13, 22), (22, 22), (22, 0), (12, 0), (11, 0)]
    for key, place in zip(keys, places, strict=True):
        stage.keyboard.press(key)
        heard(*place)
    stage.keyboard.press("ArrowLeft")
    heard(11, 0)
    stage.keyboard.press("Enter")
    assert stages.said(stage) == [("picked", {"row": 11, "column": 0})]
    expect(live).to_have_text("Chosen: wordli11 → wo0")
    stage.keyboard.press("+")
    assert zoomed(stage) == {"rows": [6, 18], "columns": [0, 12]}
    stage.keyboard.press("End")
    heard(11, 22)
    assert zoomed(stage) == {"rows": [6, 18], "columns": [11, 23]}
    stage.keyboard.press("-")
    stage.keyboard.press("0")
    assert zoomed(stage) is None
    stage.keyboard.press("Tab")  # a single stop: the next is the first button
    expect(stage.get_by_role("button", name="show more of the map")).to_be_focused()
    expect(stage.locator(TIP)).to_be_hidden()
    # the keyboard passes a pooled cell in one step
    show(stage, map_data(long_trace(512), "encoder", 0, 0))
    stage.keyboard.press("Tab")
    stage.keyboard.press("ArrowDown")
    expect(stage.locator(".live")).to_contain_text("word2 … wordl3 → wo0 … wor1: ")


def crossing(one: list[list[float]], other: list[list[float]]) -> bool:
    """Whether two convex shapes touch: no line stands between them (separating axis theorem)."""
    shapes = np.array(one), np.array(other)
    for shape in shapes:
        for edge in np.roll(shape, -1, axis=0) - shape:
            across = np.array([-edge[1], edge[0]])
            first, second = (part @ across for part in shapes)
            if first.max() <= second.min() or second.max() <= first.min():
                return False
    return True


def test_names_never_touch_each_other(stage: Page) -> None:
    # names never touch each other
    for count, width in product((20, 60, 128, 512), ("700px", "320px")):
        data = map_data(long_trace(count), "encoder", 0, 0, MapLook(token=11, key=12))
        show(stage, data, width=width)
        for place in (None, (10, 13), (count - 1, count - 1)):
            if place:
                hover(stage, *place)
            names = stages.describe(stage)["names"]
            least = 10 if width == "700px" else 5
            assert len(names) >= 2 * least, [name["text"] for name in names]
            touching = [
                (a["text"], b["text"])
                for a, b in combinations(names, 2)
                if crossing(a["corners"], b["corners"])
            ]
            assert touching == []
            corners = np.array([name["corners"] for name in names])
            room = stage.locator(".picture").evaluate("one => [one.clientWidth, one.clientHeight]")
            assert corners.min() >= 0 and (corners.max(axis=(0, 1)) <= room).all()
    # a chosen and a pointed name is there however dense
    show(stage, map_data(long_trace(128), "encoder", 0, 0, MapLook(token=51, key=77)))
    hover(stage, 91, 13)
    names = {name["text"] for name in stages.describe(stage)["names"]}
    assert {"word51", "wo77", "wo91", "wordlike13"} <= names


def test_updates_and_ends(stage: Page) -> None:
    # an update keeps size tip and table
    show(stage, crossed(token=0))
    hover(stage, 2, 1)
    stage.get_by_role("button", name="the chosen row as a table").dispatch_event("click")
    heights = "all => all.map(one => one.offsetHeight)"
    both = stage.locator(".tv-map, .tv-map .picture")
    before = both.evaluate_all(heights)
    assert before[1] == map_height(4)
    stages.update(stage, map_data(WARM, "cross", 1, 2, MapLook(token=0)))
    weight = WARM.attention("cross", 1)[2]
    expect(stage.locator(TIP)).to_have_text(f"tze → c: {weight[2, 1]:.4f}")
    expect(stage.locator("tbody td").first).to_have_text(f"{weight[0, 0]:.4f}")
    assert both.evaluate_all(heights) == before
    # a narrower place is filled anew
    show(stage, crossed())
    stage.evaluate("document.querySelector('#host').style.width = '330px'")
    expect(stage.locator(".picture canvas").first).to_have_css("width", "330px")
    hover(stage, 3, 4)
    expect(stage.locator(TIP)).to_contain_text("</s> → </s>: ")
    assert stage.locator(".tv-map").evaluate("one => one.scrollWidth") <= 330
    # one class shows every view of a head
    stages.show(stage, "head_map/head.js", "Head", crossed(), css="head.css")
    expect(stage.locator(".tv-map .picture")).to_be_visible()
    stages.update(stage, lines_data(CLEAN, "cross", [(1, 2)]))
    expect(stage.locator(".tv-map")).to_have_count(0)
    expect(stage.locator(".tv-lines canvas").first).to_be_visible()
    stages.update(stage, crossed())
    expect(stage.locator(".tv-lines")).to_have_count(0)
    expect(stage.locator(".tv-map .picture")).to_be_visible()
    # escape puts the tip away until another cell is pointed at
    show(stage, crossed())
    tip = stage.locator(TIP)
    hover(stage, 1, 2)
    expect(tip).to_be_visible()
    stage.evaluate("addEventListener('keydown', one => { window.taken = one.defaultPrevented; })")
    stage.keyboard.press("Escape")  # the keyboard is nowhere in the picture
    expect(tip).to_be_hidden()
    assert stage.evaluate("taken")  # so that the same press does not leave presenter mode too
    stages.update(stage, crossed(seq=1))
    expect(tip).to_be_hidden()
    hover(stage, 1, 3)
    expect(tip).to_be_visible()
    stage.mouse.move(5, 5)
    stage.keyboard.press("Escape")
    assert not stage.evaluate("taken")
    # a view that ended does nothing
    show(stage, map_data(long_trace(20), "encoder", 0, 0))
    stage.get_by_role("button", name="enlarge the map").click()
    stage.evaluate("view.end()")
    stage.mouse.click(*centre(stage, 9, 9))
    stage.wait_for_timeout(350)
    assert stages.said(stage) == []
