"""What a hand, a keyboard and a screen reader find in the atlas; and its light."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.components.test_atlas import order, pixels, show, tile_of
from tests.support.component_stage import said, shine, update
from tests.support.many_heads import many
from tests.views.conftest import make_trace
from transformer_viz.components.atlas import atlas_data
from transformer_viz.components.map_look import MapLook
from transformer_viz.core.head_metrics import shown_metrics
from transformer_viz.core.palette import LIGHT
from transformer_viz.core.trace import Trace

#: Whether nothing stands on a canvas.
EMPTY = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.every(n => n === 0)"
BLOCKS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def clean() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def warm() -> Trace:
    return make_trace(temperature=3.0, probability=0.25)


def point(page: Page, block: int, layer: int, head: int, right: float, down: float) -> None:
    """Move to a place within a tile, in parts of it."""
    tile = tile_of(page, (block, layer, head))
    page.mouse.move(
        tile["left"] + right * tile["width"],
        tile["top"] + down * tile["height"],
    )


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def live(page: Page) -> str:
    """What a screen reader was told last."""
    return page.locator("[aria-live]").inner_text()


def head_row(trace: Trace, stack: str, kind: str, layer: int, head: int) -> Any:
    heads = trace.heads
    chosen = (heads["stack"] == stack) & (heads["block"] == kind)
    return heads[chosen & (heads["layer"] == layer) & (heads["head"] == head)].iloc[0]


def test_pointing_tells_numbers_and_lights_words(stage: Page, clean: Trace, warm: Trace) -> None:
    # pointing at a cell tells its numbers and lights its words
    show(stage, atlas_data(clean, BLOCKS))
    tip = stage.locator(".tv-tip")
    expect(tip).to_be_hidden()
    point(stage, 2, 1, 0, 0.7, 0.6)  # row 2 of 4, column 3 of 5
    row = head_row(clean, "decoder", "cross", 1, 0)
    weights = clean.attention("cross", layer=1)[0]
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    words, sources = ("die", "Ka", "tze", "</s>"), clean.source.labels
    assert tip.inner_text().split("\n") == [
        "Cross L1 H0",
        f"entropy {row['entropy']:.2f} bits",
        f"distance {row['distance']:.2f} tokens",
        f"strongest {words[query]} → {sources[key]} {weights.max():.2f}",
        f"here tze → the (2) about {round(float(weights[2, 3]) * 255) / 255:.2f}",
    ]
    lights = stage.evaluate("window.lights")
    assert lights[-1] == {
        "row": {"sentence": "produced", "tokens": [2]},
        "column": {"sentence": "source", "tokens": [3]},
    }
    stage.mouse.move(2, 2)
    expect(tip).to_be_hidden()
    assert stage.evaluate("window.lights")[-1] == {"row": None, "column": None}
    assert said(stage) == []
    # pointing at a pooled cell names all of its words
    trace = many(1, 2, 130)
    show(stage, atlas_data(trace, ["encoder"]))
    point(stage, 0, 0, 1, 0.999, 1.5 / 44)  # the last cell holds one column, the row three
    weights = trace.attention("encoder", layer=0)[1]
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    lines = stage.locator(".tv-tip").inner_text().split("\n")
    assert lines[3] == f"strongest s{query} → s{key} {weights.max():.2f}"  # exact: it was kept
    assert lines[4] == f"here s3 … s5 → s129 up to about {weights[3:6, 129].max():.2f}"
    assert stage.evaluate("window.lights")[-1]["row"]["tokens"] == [3, 4, 5]
    update(stage, atlas_data(many(1, 2, 130, kept=False), ["encoder"]))
    first, last, left, right = (
        *(3 * (query // 3) + n for n in (0, 2)),
        *(3 * (key // 3) + n for n in (0, 2)),
    )
    words = f"strongest s{first} … s{last} → s{left} … s{min(right, 129)} "
    assert stage.locator(".tv-tip").inner_text().split("\n")[3].startswith(words)
    # a change is told with its sign
    show(stage, atlas_data(warm, ["cross"], before=clean))
    point(stage, 0, 0, 2, 0.1, 0.1)
    was, now = (head_row(run, "decoder", "cross", 0, 2)["entropy"] for run in (clean, warm))
    steps = warm.thumbnail("cross")[0, 2].astype(float) - clean.thumbnail("cross")[0, 2]
    most = steps.flat[np.abs(steps).argmax()] / 255
    sign = "+" if most > 0 else "−"
    lines = stage.locator(".tv-tip").inner_text().split("\n")
    assert lines[1] == f"entropy {was:.2f} → {now:.2f} bits"
    assert lines[3].startswith("largest change ") and lines[3].endswith(
        f" about {sign}{abs(most):.2f}"
    )
    # escape puts the tip away while the pointer rests
    show(stage, atlas_data(clean, BLOCKS))
    tip = stage.locator(".tv-tip")
    point(stage, 2, 1, 0, 0.7, 0.6)
    expect(tip).to_be_visible()
    press(stage, "Escape")  # nothing here has the focus
    expect(tip).to_be_hidden()
    update(stage, atlas_data(clean, BLOCKS, MapLook(seq=1)))
    expect(tip).to_be_hidden()  # other data do not bring it back
    point(stage, 2, 1, 0, 0.1, 0.1)
    expect(tip).to_be_visible()


#: Whether a word of the target is a row, and one of the source a column, of each block.
LIT = ((False, True), (True, False), (True, True))


def test_a_word_lit_elsewhere_lights_every_tile_of_its_sentence(stage: Page) -> None:
    # a word lit elsewhere lights every tile of its sentence
    for pooled in (False, True):
        trace = many(2, 2, 130, 70, blocks=BLOCKS) if pooled else many(2, 2, 7, 5, blocks=BLOCKS)
        show(stage, atlas_data(trace, BLOCKS))
        rows, columns = (44, 35) if pooled else (7, 5)
        row, column = (6, 5) if pooled else (2, 1)
        word = {"sentence": "target", "tokens": [20 if pooled else 2]}
        source = {"sentence": "source", "tokens": [11 if pooled else 1]}
        shine(stage, word, source)
        warm = [int(LIGHT.warm[n : n + 2], 16) for n in (1, 3, 5)]
        for layer, head in np.ndindex(2, 2):
            for block, (lit_row, lit_column) in enumerate(LIT):
                tile = tile_of(stage, (block, layer, head))
                across = columns if block != 1 else rows
                down = columns if block == 0 else rows  # the encoder's rows are source words
                beside = (-2.5 / tile["width"], (row + 0.5) / down)
                above = ((column + 0.5) / across, -2.5 / tile["height"])
                marks = pixels(stage, (block, layer, head), [beside, above], "lights")
                assert [mark[3] == 255 for mark in marks] == [lit_row, lit_column], pooled
                for mark, lit in zip(marks, (lit_row, lit_column), strict=True):
                    assert not lit or mark[:3].tolist() == warm, pooled
        shine(stage, None, None)
        assert stage.locator("canvas.tv-lights").evaluate(EMPTY), pooled


def test_clicks_open_and_lay_over(stage: Page, clean: Trace) -> None:
    # a click opens a head
    show(stage, atlas_data(clean, BLOCKS, opened=("cross", 0, 0)))
    point(stage, 1, 1, 2, 0.5, 0.5)
    stage.mouse.down()
    stage.mouse.up()
    assert said(stage) == [("opened", ["decoder", 1, 2])]
    (found,) = pixels(stage, (1, 1, 2), [(-0.01, 0.5)])
    accent = [int(LIGHT.accent[n : n + 2], 16) for n in (1, 3, 5)]
    assert found[:3].tolist() == accent  # at once, before anybody answers
    update(stage, atlas_data(clean, BLOCKS, MapLook(seq=1), opened=("cross", 0, 0)))  # a live frame
    assert pixels(stage, (1, 1, 2), [(-0.01, 0.5)])[0][:3].tolist() == accent
    update(stage, atlas_data(clean, BLOCKS, MapLook(seq=2), opened=("encoder", 0, 0)))
    assert pixels(stage, (1, 1, 2), [(-0.01, 0.5)])[0][:3].tolist() != accent
    # shift and a click lays a head over the opened one
    show(stage, atlas_data(clean, BLOCKS, opened=("cross", 0, 0)))
    stage.keyboard.down("Shift")
    for place in ((2, 1, 1), (2, 0, 0), (0, 1, 1), (2, 1, 1)):
        point(stage, *place, 0.5, 0.5)
        stage.mouse.down()
        stage.mouse.up()
        if place == (2, 0, 0):
            assert live(stage) == "This head is the opened one."
        if place == (0, 1, 1):
            assert live(stage) == "Only heads of the opened block can be laid over it."
    assert said(stage) == [("overlaid", [[1, 1]]), ("overlaid", [])]
    assert stage.evaluate("view.overlaid") == []
    # eight heads are as many as can be told apart
    laid = [(0, head) for head in range(1, 8)]
    show(stage, atlas_data(many(1, 9, 5), ["encoder"], opened=("encoder", 0, 0), overlaid=laid))
    stage.locator(".tv-frame").focus()
    press(stage, "End", "o")
    assert said(stage) == [] and "Eight heads" in live(stage)


def test_the_keyboard_walks_and_opens(stage: Page, clean: Trace) -> None:
    # the keyboard walks over blocks and opens
    show(stage, atlas_data(clean, BLOCKS, opened=("encoder", 1, 2)))
    grid = stage.get_by_role("grid")
    assert "Encoder, Decoder, Cross" in (grid.get_attribute("aria-label") or "")
    press(stage, "Tab")
    expect(grid).to_be_focused()
    cell = stage.get_by_role("gridcell")
    assert grid.get_attribute("aria-activedescendant") == cell.get_attribute("id")
    assert cell.inner_text().startswith("Encoder L1 H2, entropy ")
    assert cell.get_attribute("aria-selected") == "true"
    press(stage, "ArrowRight")
    row = head_row(clean, "decoder", "self", 1, 0)
    assert live(stage).startswith(f"Decoder L1 H0, entropy {row['entropy']:.2f} bits, distance")
    assert f"{row['max']:.2f}" in live(stage) and cell.get_attribute("aria-selected") == "false"
    expect(stage.locator(".tv-tip")).to_contain_text("Decoder L1 H0")
    press(stage, "ArrowUp", "ArrowUp", "End")  # it stops at the border
    assert live(stage).startswith("Cross L0 H2, ")
    press(stage, "Enter", "Home", "ArrowLeft", "ArrowDown", " ")
    assert said(stage) == [("opened", ["cross", 0, 2]), ("opened", ["encoder", 1, 0])]
    press(stage, "o", "ArrowRight", "o")
    assert said(stage)[2:] == [("overlaid", [[1, 1]])]
    assert live(stage) == "L1 H1 added to the lines"
    update(stage, atlas_data(clean, BLOCKS, MapLook(seq=4), opened=("encoder", 1, 0)))
    expect(grid).to_be_focused()
    assert cell.inner_text().startswith("Encoder L1 H1, ")  # the keyboard keeps its place
    press(stage, "Escape")
    expect(stage.locator(".tv-tip")).to_be_hidden()
    press(stage, "ArrowRight")
    expect(stage.locator(".tv-tip")).to_be_visible()
    # the keyboard walks in ranked order
    show(stage, atlas_data(many(3, 5, 9), ["encoder"], sort="entropy"))
    tiles = order(stage)
    names = [f"L{layer} H{head}" for _, layer, head, *_ in tiles]
    columns = max(column for *_, column in tiles) + 1
    stage.locator(".tv-frame").focus()
    press(stage, "ArrowUp", "Home", "ArrowRight", "ArrowDown")
    start = names.index("L0 H0") // columns * columns  # where the keyboard was put, at its row
    above = max(0, start - columns)
    assert live(stage).split(",")[0] == names[above + 1 + columns]


def test_quick_presses_all_arrive(stage: Page) -> None:
    # of two quick presses both heads arrive
    trace = many(1, 5, 6)
    show(stage, atlas_data(trace, ["encoder"], opened=("encoder", 0, 0)))
    stage.locator(".tv-frame").focus()
    press(stage, "ArrowRight", "o", "ArrowRight", "o")
    one, two = [(0, 1)], [(0, 1), (0, 2)]
    assert said(stage)[-1] == ("overlaid", [list(place) for place in two])
    words = {"opened": ("encoder", 0, 0)}
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=1), overlaid=one, **words))
    press(stage, "ArrowRight", "o")  # while Python has answered the first press only
    assert said(stage)[-1] == ("overlaid", [[0, 1], [0, 2], [0, 3]])
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=2), overlaid=two, **words))
    assert stage.evaluate("view.overlaid") == [[0, 1], [0, 2], [0, 3]]
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=3), overlaid=[*two, (0, 3)], **words))
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=4), overlaid=one, **words))
    assert stage.evaluate("view.overlaid") == [[0, 1]]  # the menu of the lines took two away
    # a head added and taken away at once leaves nothing behind
    words = {"opened": ("encoder", 0, 0)}
    trace = many(1, 5, 6)
    show(stage, atlas_data(trace, ["encoder"], **words))
    stage.locator(".tv-frame").focus()
    press(stage, "ArrowRight", "o", "o")
    # Python heard the last one only
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=1), **words))
    assert stage.evaluate("view.overlaid") == []
    update(stage, atlas_data(trace, ["encoder"], MapLook(seq=2), overlaid=[(0, 1)], **words))
    assert stage.evaluate("view.overlaid") == [[0, 1]]  # chosen elsewhere


def test_controls_repaint_at_once_and_python_hears_once(stage: Page, clean: Trace) -> None:
    # controls repaint at once and python hears once
    show(stage, atlas_data(clean, ["cross"]))
    before = pixels(stage, (0, 1, 2), [(0.5, 0.5), (0.1, 0.9)]).tolist()
    stage.get_by_role("combobox", name="sort").select_option("sink")
    stage.get_by_role("combobox", name="colour").select_option("common")
    stage.get_by_role("combobox", name="palette").select_option("cividis")
    stage.get_by_role("slider", name="gamma").focus()
    press(stage, "ArrowRight", "ArrowRight")
    stage.get_by_role("slider", name="threshold").focus()
    press(stage, *["ArrowRight"] * 10)
    assert pixels(stage, (0, 1, 2), [(0.5, 0.5), (0.1, 0.9)]).tolist() != before
    assert said(stage) == []
    stage.wait_for_function("window.said.length > 0")
    how = {"sort": "sink", "scale": "common", "ramp": "cividis", "gamma": 1.41, "threshold": 0.01}
    assert said(stage) == [("drawn", how)]
    assert stage.get_by_role("slider", name="gamma").get_attribute("aria-valuetext") == "1.41"
    # a live frame leaves what was chosen and a link does not
    show(stage, atlas_data(clean, ["cross"]))
    ramp = stage.get_by_role("combobox", name="palette")
    ramp.select_option("viridis")
    update(stage, atlas_data(clean, ["cross"], MapLook(seq=1)))
    expect(ramp).to_have_value("viridis")
    stage.wait_for_function("window.said.length > 0")
    update(stage, atlas_data(clean, ["cross"], MapLook(ramp="viridis", seq=2)))
    expect(ramp).to_have_value("viridis")
    update(stage, atlas_data(clean, ["cross"], MapLook(ramp="grey", gamma=2, seq=3)))
    expect(ramp).to_have_value("grey")
    assert stage.get_by_role("slider", name="gamma").get_attribute("aria-valuetext") == "2"
    # heads without numbers leave the legend empty
    for scale in ("head", "common"):
        heads = clean.heads.assign(max=np.nan)
        show(stage, atlas_data(dataclasses.replace(clean, heads=heads), ["cross"], scale=scale))
        legend = stage.locator(".tv-legend")
        assert legend.inner_text().startswith("no numbers"), scale
        assert "Infinity" not in legend.inner_text(), scale
        assert not legend.locator("canvas").is_visible(), scale
        update(stage, atlas_data(clean, ["cross"], MapLook(seq=1), scale=scale))
        assert legend.locator("canvas").is_visible() and "no numbers" not in legend.inner_text()


def test_the_table_and_words_that_are_text(stage: Page, clean: Trace) -> None:
    # the table says the same and can be sorted
    trace = many(2, 3, 7, 5, blocks=("encoder", "cross"))
    show(stage, atlas_data(trace, ["encoder", "cross"]))
    assert stage.get_by_role("table").count() == 0
    stage.get_by_role("button", name="as a table").click()
    expect(stage.get_by_role("grid")).to_be_hidden()
    rows = stage.locator("tbody tr")
    assert rows.count() == 12
    row = head_row(trace, "decoder", "cross", 1, 0)
    words = [f"{row[metric.name]:.2f}" for metric in shown_metrics()]
    told = rows.nth(9).locator("th, td").all_inner_texts()
    assert told[:-1] == ["Cross L1 H0", *words]
    weights = trace.attention("cross", layer=1)[0]
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    assert told[-1] == f"t{query} → s{key}"
    header = stage.get_by_role("button", name="distance, tokens")
    header.focus()
    press(stage, "Enter")
    expect(header).to_be_focused()  # the rows are others, the keyboard is where it was
    assert stage.locator("[aria-sort=descending]").inner_text() == "distance, tokens"
    told = [float(text) for text in stage.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert told == sorted(told, reverse=True) and len(set(told)) > 5
    stage.get_by_role("button", name="Cross L0 H2").click()
    assert ("opened", ["cross", 0, 2]) in said(stage)
    stage.get_by_role("button", name="as a table").click()
    expect(stage.get_by_role("grid")).to_be_visible()
    assert stage.get_by_role("table").count() == 0
    # words of a sentence are text
    evil = "<img src=x onerror=alert(1)>"
    source = dataclasses.replace(clean.source, labels=(evil,) * 5)
    show(stage, atlas_data(dataclasses.replace(clean, source=source), ["encoder"], words=evil))
    point(stage, 0, 0, 0, 0.5, 0.5)
    assert evil in stage.locator(".tv-tip").inner_text()
    assert evil in stage.locator(".tv-legend").inner_text()
    assert stage.locator("img").count() == 0
    # after its end nothing is heard
    show(stage, atlas_data(clean, ["cross"]))
    stage.get_by_role("combobox", name="palette").select_option("grey")
    stage.evaluate("view.end()")
    shine(stage, None, {"sentence": "source", "tokens": [1]})
    point(stage, 0, 0, 0, 0.5, 0.5)
    stage.wait_for_timeout(500)
    assert said(stage) == []
    assert stage.locator("canvas.tv-lights").evaluate(EMPTY)
