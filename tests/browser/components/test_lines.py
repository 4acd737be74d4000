"""The lines view in a real Chromium: what is drawn, by numpy's count and by its pixels."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.metrics.alignment.test_alignment import across, looking
from transformer_viz.components.lines import lines_data
from transformer_viz.components.map_look import MapLook
from transformer_viz.components.word_links import word_links_data
from transformer_viz.core.palette import DARK, LIGHT, OKABE_ITO
from transformer_viz.core.trace import Trace

from ...support import component_stage as stages
from ...support.lines_stage import hard, made, ramp_weights
from ...support.scripts import script

COLOURS = script("canvas_colours")
FAINT = np.float32(0.001)
WEIGHTS = ramp_weights(3, 7, 7).astype(np.float32)
HEADS = [(0, 0), (0, 1), (0, 2)]


def show(page: Page, trace: Trace, block: str = "encoder", **words: Any) -> None:
    """Show heads of a run; ``dark`` and ``width`` are the stage's, the others the look's,
    but for those that `lines_data` itself takes: ``heads``, ``before`` and ``top``."""
    place = {name: words.pop(name) for name in ("dark", "width") if name in words}
    own = {name: words.pop(name) for name in ("before", "top") if name in words}
    heads = words.pop("heads", [(0, 0)])
    data = lines_data(trace, block, heads, MapLook(**words), **own)
    stages.show(page, "lines/lines.js", "Lines", data, css="lines/lines.css", **place)


def links(page: Page, which: str = "links") -> list[tuple[int, int, int]]:
    """Head, query and key of the links that are drawn, or in focus."""
    found = stages.describe(page)[which]
    return sorted((link["head"], link["query"], link["key"]) for link in found)


def chosen(weights: np.ndarray, top: int, threshold: float) -> list[tuple[int, int, int]]:
    """The same by numpy: of each row the strongest ``top``, and none that is too weak."""
    size = np.abs(weights.astype(np.float32))
    order = np.argsort(-size, axis=2, kind="stable")
    rank = np.argsort(order, axis=2, kind="stable")
    kept = (size >= max(np.float32(threshold), FAINT)) & (rank < (top or size.shape[2]))
    return [tuple(place) for place in np.argwhere(kept).tolist()]


def word(page: Page, side: int, place: int) -> tuple[float, float]:
    """Where a word's lines end on the page, a little towards its label."""
    layout, outward = stages.describe(page)["layout"], 6 if side else -6
    left, top, words = layout["left"], layout["top"], layout["sides"][side]
    along, lane = words["places"][place], words["lane"]
    if layout["across"]:
        return left + along, top + lane - outward
    return left + lane + outward, top + along


def pixel(page: Page, canvas: str, x: float, y: float) -> str:
    """The colour of a canvas at a point of what is seen of it, as ``#RRGGBB AA``."""
    ((r, g, b, a),) = page.locator(f"canvas.{canvas}").evaluate(COLOURS, [[float(x), float(y)]])
    return f"#{r:02X}{g:02X}{b:02X} {a:02X}"


def lane(page: Page, side: int) -> dict[str, Any]:
    """How a side's words stand: `lane`, `places` and `angle`."""
    found: dict[str, Any] = stages.describe(page)["layout"]["sides"][side]
    return found


def opacity(page: Page) -> str:
    """How much of the lines that are not in focus is seen."""
    found: str = page.locator("canvas.all").evaluate("canvas => canvas.style.opacity")
    return found


def test_as_many_lines_as_numpy_counts(stage: Page) -> None:
    # as many lines as numpy counts
    trace = made(WEIGHTS)
    show(stage, trace, heads=HEADS)
    for top, threshold in itertools.product([0, 1, 3], [0.0, 0.05, 0.3]):
        data = lines_data(trace, "encoder", HEADS, MapLook(threshold=threshold), top=top)
        stages.update(stage, data)
        expected = chosen(WEIGHTS, top, threshold)
        assert links(stage) == expected
        kept = sum(float(WEIGHTS[place]) for place in expected)
        part = min(99.9, 100 * kept / float(WEIGHTS.sum(dtype=np.float64)))
        said = stage.locator("p.quiet").first.inner_text()
        assert said.startswith(
            f"{len(expected)} of {WEIGHTS.size} lines are drawn, {part:.1f} % of all weight"
        )
        assert f"below {max(threshold, 0.001):g}" in said
        assert (f"all but the {top} strongest" in said) == bool(top)
    # equal links are taken in the order of the words
    show(stage, made(np.full((1, 3, 5), 0.2), "cross"), "cross", top=2)
    assert links(stage) == [(0, row, column) for row in range(3) for column in range(2)]
    # long sentences draw what was sent and say so
    weights = ramp_weights(1, 257, 257).astype(np.float32)
    show(stage, made(weights), top=5)
    assert links(stage) == chosen(weights, 5, 0)
    text = stage.locator("p.quiet").first.inner_text()
    assert text.startswith("1\u202f285 of 66\u202f049 lines are drawn")
    assert "too weak to be sent" in text


def test_pointing_at_a_word_leaves_its_lines(stage: Page) -> None:
    # pointing at a word leaves its lines only
    show(stage, made(WEIGHTS), heads=HEADS, threshold=0.05)
    expected = chosen(WEIGHTS, 0, 0.05)
    stage.mouse.move(*word(stage, 0, 4))
    assert links(stage, "focus") == [link for link in expected if link[1] == 4]
    assert opacity(stage) == "0.1"
    stage.mouse.move(*word(stage, 1, 2))
    assert links(stage, "focus") == [link for link in expected if link[2] == 2]
    stage.mouse.move(2, 2)
    assert links(stage, "focus") == []
    assert opacity(stage) == "1"
    # the sentence has exact weights
    show(stage, made(WEIGHTS), top=3)
    stage.mouse.move(*word(stage, 0, 4))
    row = WEIGHTS[0, 4]
    named = ", ".join(f"“s{key}” {row[key]:.4f}" for key in np.argsort(-row)[:3])
    assert stage.locator(".said").inner_text() == f"“s4” looks at {named}."
    assert stage.locator(".said").get_attribute("aria-live") == "polite"
    show(stage, made(WEIGHTS), heads=HEADS[:2], top=1)
    stage.mouse.move(*word(stage, 1, 6))
    text = stage.locator(".said").inner_text()
    looking = [(h, q) for h, q, k in chosen(WEIGHTS[:2], 1, 0) if k == 6]
    assert text.startswith("“s6” is looked at by") and text.count("“s") == 1 + len(looking)
    for head, query in looking:
        assert f"“s{query}” {WEIGHTS[head, query, 6]:.4f}" in text
    # light goes both ways
    show(stage, made(WEIGHTS[:, :5], "cross"), "cross")
    stage.mouse.move(*word(stage, 0, 3))
    stage.mouse.move(*word(stage, 1, 1))
    stage.mouse.move(2, 2)
    assert stage.evaluate("lights") == [
        {"row": {"sentence": "target", "tokens": [3]}, "column": None},
        {"row": None, "column": {"sentence": "source", "tokens": [1]}},
        {"row": None, "column": None},
    ]
    stages.shine(stage, {"sentence": "target", "tokens": [2]}, None)
    assert {query for _, query, _ in links(stage, "focus")} == {2}
    stages.shine(stage, {"sentence": "source", "tokens": [2]}, None)
    assert links(stage, "focus") == []
    stages.shine(stage, None, None)
    # a chosen word stands out before the others
    show(stage, made(WEIGHTS), token=2)
    assert {query for _, query, _ in links(stage, "focus")} == {2}
    assert opacity(stage) == "0.35"
    assert stage.locator(".said").inner_text().startswith("“s2” looks at")
    accent = stage.locator(".tv-lines").evaluate(
        "place => getComputedStyle(place).getPropertyValue('--accent')"
    )
    assert accent == LIGHT.accent
    # a click chooses and lets go
    show(stage, made(WEIGHTS[:, :5], "cross"), "cross", token=2, key=4)
    stage.mouse.click(*word(stage, 0, 1))
    stage.mouse.click(*word(stage, 0, 2))
    stage.mouse.click(*word(stage, 1, 6))
    stage.mouse.click(*word(stage, 1, 4))
    assert stages.said(stage) == [
        ("picked", {"row": 1, "column": 4}),
        ("picked", {"row": None, "column": 4}),
        ("picked", {"row": 2, "column": 6}),
        ("picked", {"row": 2, "column": None}),
    ]


def test_colours_of_lines(stage: Page) -> None:
    # each head has its colour beside the others
    for dark in (False, True):
        show(stage, made(hard([[1, 0], [1, 0], [1, 0]], 2)), heads=HEADS, dark=dark)
        queries, lanes = lane(stage, 0), [lane(stage, n)["lane"] for n in (0, 1)]
        seen = []
        for x in np.linspace(lanes[0] + 1, lanes[0] + 9, 9):  # dashes begin at this end
            for head in range(3):
                seen.append(pixel(stage, "all", x, queries["places"][0] + 3 * (head - 1)))
        assert {f"{colour} FF" for colour in OKABE_ITO[:3]} <= set(seen), dark
        first = pixel(stage, "all", lanes[0] + 2, queries["places"][0] - 3)
        assert first == f"{OKABE_ITO[0]} FF", dark
        legend = stage.locator(".legend li")
        assert legend.all_inner_texts() == ["L0 H0", "L0 H1", "L0 H2"], dark
        strokes = legend.locator("path").evaluate_all(
            "all => all.map(one => ['stroke', 'stroke-dasharray'].map(at => one.getAttribute(at)))"
        )
        assert [stroke for stroke, _ in strokes] == list(OKABE_ITO[:3]), dark
        assert len({dashes for _, dashes in strokes}) == 3, dark
    # a faint line is pale
    show(stage, made(np.array([[[0.5, 0.5]]]), "cross"), "cross")
    side = lane(stage, 0)
    alpha = pixel(stage, "all", side["places"][0], side["lane"] - 2).split()[1]
    assert abs(int(alpha, 16) - 255 * 0.5**0.7) <= 255 / 64 + 2
    # in focus a line with a written weight is clearly seen
    show(stage, made(np.array([[[0.99, 0.01], [0.999, 0.001]]]), "cross"), "cross")
    for place, (least, most) in enumerate([(20, 60), (0, 9)]):
        stage.mouse.move(*word(stage, 0, place))
        side, key = lane(stage, 0), lane(stage, 1)
        middle = [(a["places"][n], a["lane"]) for a, n in ((side, place), (key, 1))]
        x, y = np.mean(middle, axis=0)
        near = [int(pixel(stage, "words", x + dx, y).split()[1], 16) for dx in (-1, 0, 1)]
        assert least <= max(near) <= most
    # written weights never lie on each other
    weights = ramp_weights(3, 19, 19)
    show(stage, made(weights), heads=HEADS, width=560)
    stage.evaluate(script("record_weights"))
    stage.mouse.move(*word(stage, 0, 9))
    stage.wait_for_function("written.length > 0")
    written = stage.evaluate("written")
    assert len(written) >= 6
    assert max(number for number, *_ in written) == pytest.approx(weights[:, 9].max(), abs=0.005)
    for (_, left, y, width), (_, x, down, wide) in itertools.combinations(written, 2):
        assert left + width <= x or x + wide <= left or abs(y - down) >= 14
    # more is warm and less is blue
    for dark in (False, True):
        now, before = made(hard([[1, 0]], 2)), made(hard([[0, 0]], 2))
        show(stage, now, before=before, dark=dark)
        ends, palette = lane(stage, 1), DARK if dark else LIGHT
        assert links(stage) == [(0, 0, 0), (0, 0, 1)], dark
        less = pixel(stage, "all", ends["lane"] - 2, ends["places"][0])
        more = pixel(stage, "all", ends["lane"] - 2, ends["places"][1])
        assert less == f"{palette.changes[0]} FF" and more == f"{palette.changes[-1]} FF", dark
        assert stage.locator(".legend li").all_inner_texts() == [
            "L0 H0",
            "more than before",
            "less",
            "full colour: ±1.00",
        ]
        stage.mouse.move(*word(stage, 0, 0))
        said = stage.locator(".said").inner_text()
        assert said == "“s0” looks at, more (+) or less (−), “s0” −1.0000, “s1” +1.0000.", dark
    # without any change nothing is drawn and that is said
    trace = made(WEIGHTS)
    show(stage, trace, before=trace)
    assert links(stage) == []
    expect(stage.locator("p.quiet").first).to_have_text("Nothing changed.")


def test_all_of_it_by_keyboard(stage: Page) -> None:
    # all of it by keyboard
    show(stage, made(WEIGHTS), top=1)
    queries, keys = (stage.get_by_role("listbox").nth(n) for n in (0, 1))
    for _ in range(4):  # the two choices, the table's button, then the words
        stage.keyboard.press("Tab")
    expect(queries).to_be_focused()
    expect(queries.get_by_role("option")).to_have_text("s0")
    for key in ("ArrowDown", "ArrowRight", "ArrowUp"):
        stage.keyboard.press(key)
    expect(queries.get_by_role("option")).to_have_text("s1")
    assert queries.get_by_role("option").get_attribute("aria-posinset") == "2"
    assert [query for _, query, _ in links(stage, "focus")] == [1]
    expect(stage.locator(".said")).to_contain_text("“s1” looks at")
    for key in ("End", "PageDown", "Enter"):
        stage.keyboard.press(key)
    stage.keyboard.press("Tab")
    expect(keys).to_be_focused()
    stage.keyboard.press("PageDown")
    stage.keyboard.press("Home")
    stage.keyboard.press(" ")
    said = [("picked", {"row": 6, "column": None}), ("picked", {"row": None, "column": 0})]
    assert stages.said(stage) == said
    keys.evaluate("side => side.blur()")
    assert links(stage, "focus") == []
    # the table has the drawn lines
    show(stage, made(WEIGHTS), heads=HEADS, top=1)
    button = stage.get_by_role("button", name="as a table")
    assert stage.get_by_role("table").count() == 0
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    rows = stage.get_by_role("row").all_inner_texts()
    strongest = sorted(chosen(WEIGHTS, 1, 0), key=lambda link: -WEIGHTS[link])
    assert rows[0].split("\t") == ["from", "to", "head", "weight"]
    assert [row.split("\t") for row in rows[1:]] == [
        [f"s{query}", f"s{key}", f"L0 H{head}", f"{WEIGHTS[head, query, key]:.4f}"]
        for head, query, key in strongest
    ]
    button.press("Enter")
    assert stage.get_by_role("table").count() == 0


def test_how_many_lines_is_chosen_here_and_told_once(stage: Page) -> None:
    # how many lines is chosen without python and told once
    show(stage, made(WEIGHTS), heads=HEADS)
    select = stage.get_by_label("lines of each word")
    assert select.evaluate("one => one.selectedOptions[0].text") == "all"
    select.select_option("strongest 2")
    assert links(stage) == chosen(WEIGHTS, 2, 0)
    stage.get_by_label("at least").focus()
    for _ in range(4):
        stage.keyboard.press("ArrowRight")
    assert links(stage) == chosen(WEIGHTS, 2, 0.1)
    assert stages.said(stage) == []
    stage.wait_for_function("said.length")
    assert stages.said(stage) == [("drawn", {"top": 2, "threshold": 0.1})]
    # an echo of an older choice does not undo a newer one
    trace = made(WEIGHTS)
    show(stage, trace, top=1)
    for n, choice in enumerate(("strongest 2", "strongest 3")):
        stage.get_by_label("lines of each word").select_option(choice)
        stage.wait_for_function("n => said.length > n", arg=n)
    for top, drawn in ((1, 3), (2, 3), (3, 3), (5, 5), (5, 5)):
        stages.update(stage, lines_data(trace, "encoder", [(0, 0)], top=top))
        assert links(stage) == chosen(WEIGHTS[:1], drawn, 0)
    # an open menu stays as it is when data arrive
    show(stage, made(WEIGHTS), top=2)
    menu = stage.get_by_role("combobox")
    menu.evaluate("menu => { window.options = [...menu.options]; }")
    stages.update(stage, lines_data(made(WEIGHTS), "encoder", HEADS[:1], MapLook(seq=1), top=3))
    expect(menu).to_have_value("3")
    assert menu.evaluate("menu => options.every((one, n) => menu.options[n] === one)")


def test_words_stand_as_they_are_read(stage: Page) -> None:
    # source stands above target
    show(stage, made(WEIGHTS[:, :5], "cross"), "cross")
    queries, keys = lane(stage, 0), lane(stage, 1)
    assert keys["lane"] < queries["lane"]
    assert len(queries["places"]) == 5 and len(keys["places"]) == 7
    assert queries["angle"] == 0  # so few words stand as one reads them
    # many words are slanted and scroll
    show(stage, made(ramp_weights(1, 31, 37), "cross"), "cross", width="560px")
    keys = lane(stage, 1)
    assert keys["angle"] != 0
    assert np.diff(keys["places"]).min() >= 24
    frame = stage.locator(".frame").evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert frame[0] > frame[1]
    x, y = word(stage, 1, 9)
    stage.mouse.move(x + 14, y - 14)  # on the slanted word itself
    assert {key for _, _, key in links(stage, "focus")} == {9}
    # long sentences scroll under a small canvas
    for count in (128, 300):
        show(stage, made(ramp_weights(1, count, count)), top=3)
        size = stage.locator("canvas.all").evaluate("canvas => [canvas.width, canvas.height]")
        assert size[0] <= 700 and size[1] <= 560, count
        stage.get_by_role("listbox").first.focus()
        stage.keyboard.press("End")
        frame = stage.locator(".frame").element_handle()
        stage.wait_for_function("frame => frame.scrollTop > 1000", arg=frame)
        expect(stage.get_by_role("listbox").first).to_have_text(f"s{count - 1}")
        _, y = word(stage, 0, count - 1)
        box = stage.locator(".frame").bounding_box()
        assert box is not None and box["y"] < y < box["y"] + box["height"], count
        x = lane(stage, 0)["lane"]
        stage.wait_for_function(  # the end of the word's lines is drawn where it is now
            "([canvas, x, y]) => canvas.getContext('2d').getImageData(x, y, 1, 1).data[3] > 0",
            arg=[stage.locator("canvas.words").element_handle(), x, y - box["y"]],
        )


def test_words_are_text_and_unread_ones_are_said(stage: Page) -> None:
    # a word is never markup
    data = lines_data(made(hard([[0, 1]], 2)), "encoder", [(0, 0)])
    header, arrays = stages.decoded(data)
    nasty = "<img src=x onerror=alert(1)>"
    header["rows"]["labels"][0] = nasty
    header["note"] = nasty
    header["arrays"] = {
        name: {"shape": list(array.shape), "data": array.ravel().tolist()}
        for name, array in arrays.items()
    }
    stages.show(
        stage, "lines/lines.js", "Lines", json.loads(json.dumps(header)), css="lines/lines.css"
    )
    stage.get_by_role("button", name="as a table").click()
    stage.mouse.move(*word(stage, 0, 0))
    expect(stage.locator(".said")).to_contain_text(nasty)
    expect(stage.get_by_role("rowheader")).to_have_text([nasty, "s1"])
    assert stage.locator("img").count() == 0
    # words that nobody reads are framed and said
    trace = across(looking([0, 0, 0, 4], keys=5))
    found = tv.align(trace)
    assert found.unread == (1, 2, 3)
    data = word_links_data(trace, found)
    stages.show(stage, "lines/lines.js", "Lines", data, css="lines/lines.css")
    expect(stage.locator(".tv-lines .legend")).to_contain_text("other weight")
    expect(stage.locator(".tv-lines")).to_contain_text("in a dashed frame: read by nobody")
    keys = stage.get_by_role("listbox").nth(1)
    keys.focus()
    stage.keyboard.press("ArrowRight")
    expect(keys.get_by_role("option")).to_have_text("w1, read by nobody")
    stage.keyboard.press("ArrowLeft")
    expect(keys.get_by_role("option")).to_have_text("w0")
    stage.mouse.move(*word(stage, 1, 0))
    expect(stage.locator(".tv-lines .said")).to_contain_text("“w0” 1.0000")
    # nothing stays behind
    show(stage, made(WEIGHTS))
    stage.mouse.move(*word(stage, 0, 1))
    stage.get_by_label("lines of each word").select_option("strongest 1")
    stage.evaluate("view.end()")
    assert stage.evaluate("lights.at(-1)") == {"row": None, "column": None}
    stage.wait_for_timeout(500)
    assert stages.said(stage) == []
