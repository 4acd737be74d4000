"""The components in a real browser: pixels, clicks, keys, and the light between the pictures."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.views.conftest import make_trace
from transformer_viz.views.theme import DARK, LIGHT, Palette

pytestmark = pytest.mark.browser

PIXEL = """(canvas, [x, y]) => Array.from(
  canvas.getContext("2d").getImageData(x, y, 1, 1).data)"""
BANDS = ".tv-band:visible"


def _open(page: Page, url: str, query: str = "") -> None:
    page.goto(f"{url}/?{query}")
    expect(page.locator("[data-painted]")).to_have_attribute("data-painted", re.compile(r"\d"))
    if "layers" not in query:
        expect(page.locator(".heatmaplayer image")).to_be_visible()


def _tile(page: Page, layer: int, head: int) -> Locator:
    return page.get_by_role("button", name=f"L{layer} H{head} ·")


def _cells(page: Page, layer: int, head: int, rows: int, columns: int) -> np.ndarray:
    """The colours in the middle of each cell of a tile, ``[row, column, rgba]``."""
    canvas = page.locator("canvas.cells")
    box, tile = canvas.bounding_box(), _tile(page, layer, head).bounding_box()
    assert box is not None and tile is not None
    return np.array(
        [
            [
                canvas.evaluate(
                    PIXEL,
                    [
                        tile["x"] - box["x"] + tile["width"] * (column + 0.5) / columns,
                        tile["y"] - box["y"] + tile["height"] * (row + 0.5) / rows,
                    ],
                )
                for column in range(columns)
            ]
            for row in range(rows)
        ]
    )


def _ramp(values: np.ndarray, ramp: tuple[str, ...]) -> np.ndarray:
    """Colours of values in 0...1 along a ramp, ``[..., rgb]``; made without the component."""
    stops = np.array([[int(colour[n : n + 2], 16) for n in (1, 3, 5)] for colour in ramp])
    places = np.linspace(0, 1, len(ramp))
    return np.stack([np.interp(values, places, stops[:, n]) for n in range(3)], axis=-1)


def _place(page: Page, words: str) -> None:
    expect(page.get_by_text(f"place {words} ·")).to_be_visible()


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_tiles_show_the_traces_weights(page: Page, url: str, colours: Palette) -> None:
    page.emulate_media(color_scheme="dark" if colours is DARK else "light")
    _open(page, url)
    tiles = make_trace(temperature=3.0, probability=0.25).thumbnail("cross").astype(float)
    for layer, head in ((0, 0), (1, 1)):
        drawn = _cells(page, layer, head, 4, 5)
        expected = _ramp(tiles[layer, head] / tiles[layer, head].max(), colours.amounts)
        assert np.abs(drawn[..., :3] - expected).max() <= 3
        assert (drawn[..., 3] == 255).all()


def test_tiles_show_the_change(page: Page, url: str) -> None:
    _open(page, url, "change=1")
    now = make_trace(temperature=3.0, probability=0.25).thumbnail("cross").astype(float)
    changes = now - make_trace().thumbnail("cross")
    shown = changes / np.abs(changes).max() / 2 + 0.5
    drawn = _cells(page, 1, 2, 4, 5)
    assert np.abs(drawn[..., :3] - _ramp(shown[1, 2], LIGHT.changes)).max() <= 4


def test_a_click_opens_a_head_and_the_page_follows(page: Page, url: str) -> None:
    _open(page, url)
    host = page.locator("[data-painted]")
    assert host.get_attribute("data-painted") == "1"
    expect(_tile(page, 1, 2)).to_have_attribute("aria-current", "true")
    _tile(page, 0, 1).click()
    _place(page, "(0, 1)")
    expect(_tile(page, 0, 1)).to_have_attribute("aria-current", "true")
    expect(_tile(page, 1, 2)).to_have_attribute("aria-current", "false")
    expect(host).to_have_attribute("data-painted", "2")  # the same view drew again
    page.get_by_role("button", name="again").click()
    page.wait_for_timeout(500)
    assert host.get_attribute("data-painted") == "2"  # nothing was new


def test_arrow_keys_walk_and_enter_opens(page: Page, url: str) -> None:
    _open(page, url)
    _tile(page, 1, 2).focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowLeft", "Home"):
        page.keyboard.press(key)
    expect(_tile(page, 0, 0)).to_be_focused()
    assert page.locator(".tiles button[tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    _place(page, "(0, 1)")
    expect(_tile(page, 0, 1)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    _place(page, "(1, 1)")


def test_pointing_at_a_tile_tells_its_numbers(page: Page, url: str) -> None:
    _open(page, url)
    tip = page.locator(".tip")
    expect(tip).to_be_hidden()
    _tile(page, 1, 0).hover()
    expect(tip).to_have_text(re.compile(r"^L1 H0 · entropy \d\.\d\d bits · largest 0\.\d\d$"))
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_a_chip_lights_its_column_in_the_map_and_on_every_tile(page: Page, url: str) -> None:
    _open(page, url)
    chip = page.get_by_role("button", name="c", exact=True)  # column 1 of 5
    chip.hover()
    band, area = page.locator(BANDS), page.locator(".nsewdrag").first
    expect(band).to_have_count(1)
    lit, whole = band.bounding_box(), area.bounding_box()
    assert lit is not None and whole is not None
    assert lit["width"] == pytest.approx(whole["width"] / 5, abs=2)
    assert lit["x"] == pytest.approx(whole["x"] + whole["width"] / 5, abs=2)
    assert lit["height"] == pytest.approx(whole["height"], abs=2)
    expect(chip).to_have_class(re.compile(r"\blit\b"))
    assert _marks(page) == 6  # one on each of two times three tiles
    page.mouse.move(5, 5)
    expect(band).to_have_count(0)
    expect(chip).not_to_have_class(re.compile(r"\blit\b"))
    assert _marks(page) == 0


SAY = """detail => dispatchEvent(new CustomEvent("tv-light", { detail }))"""


def test_only_the_charts_own_words_light_its_chips_and_tiles(page: Page, url: str) -> None:
    """Rows and columns of one picture mean nothing in another."""
    _open(page, url)
    lit, band = page.locator(".tv-chip.lit"), page.locator(BANDS)
    page.evaluate(SAY, {"chart": "norm-map", "row": 0, "column": 1})
    page.wait_for_timeout(100)
    assert lit.count() == 0 and band.count() == 0 and _marks(page) == 0
    page.evaluate(SAY, {"chart": "map", "row": 0, "column": 1})
    expect(lit).to_have_text(["c", "die"])
    expect(band).to_have_count(2)
    assert _marks(page) == 12  # a row and a column on each of six tiles
    page.evaluate(SAY, {"chart": "norm-map", "row": None, "column": None})
    page.wait_for_timeout(100)
    assert lit.count() == 2 and band.count() == 2 and _marks(page) == 12  # not theirs to put out


def test_chips_of_another_chart_light_no_tile(page: Page, url: str) -> None:
    """As on Positions and Norms: the chips belong to the map, the tiles to another head's."""
    _open(page, url, "tiles=head-map")
    page.get_by_role("button", name="c", exact=True).hover()
    expect(page.locator(BANDS)).to_have_count(1)
    assert _marks(page) == 0
    area = page.locator(".nsewdrag").first.bounding_box()
    assert area is not None
    for step in (0.3, 0.32):
        page.mouse.move(area["x"] + area["width"] * step, area["y"] + area["height"] * 0.4)
    expect(page.locator(".tv-chip.lit")).to_have_text(["c", "Ka"])
    assert _marks(page) == 0


def test_chips_that_go_to_another_chart_put_their_light_out(page: Page, url: str) -> None:
    _open(page, url)
    page.evaluate(SAY, {"chart": "map", "row": None, "column": 1})
    assert _marks(page) == 6
    page.get_by_text("other chart").click()
    expect(page.locator(BANDS)).to_have_count(0)
    assert _marks(page) == 0
    expect(page.locator(".tv-chip.lit")).to_have_count(0)
    page.evaluate("window.heard = []; addEventListener('tv-light', e => heard.push(e.detail))")
    page.get_by_role("button", name="c", exact=True).hover()
    expect(page.locator(".tv-chip.lit")).to_have_text(["c"])
    assert {one["chart"] for one in page.evaluate("heard")} == {"elsewhere"}
    assert _marks(page) == 0


def _marks(page: Page) -> int:
    """How many small marks stand on the canvas of light: their pixels over those of one."""
    count = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.filter((value, n) => n % 4 === 3 && value > 0).length;
    }"""
    pixels = int(page.locator("canvas.light").evaluate(count))
    assert pixels % 12 == 0  # 2 wide, 6 long
    return pixels // 12


def test_the_keyboard_lights_chips_too(page: Page, url: str) -> None:
    _open(page, url)
    page.get_by_role("toolbar", name="target").get_by_role("button").first.focus()
    page.keyboard.press("ArrowRight")
    chip = page.get_by_role("button", name="die", exact=True)
    expect(chip).to_be_focused()
    expect(chip).to_have_class(re.compile(r"\blit\b"))
    expect(page.locator(BANDS)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_text("chosen Picked(side='target', token=1, row=0")).to_be_visible()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(chip).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="tze", exact=True)).to_be_focused()


def test_pointing_into_the_map_lights_both_words(page: Page, url: str) -> None:
    _open(page, url)
    for _ in range(2):  # and again after the chart was drawn anew
        area = page.locator(".nsewdrag").first.bounding_box()
        assert area is not None
        # Row 1 is what "Ka" stands for; column 3 is the second "the".
        page.mouse.move(area["x"] + area["width"] * 0.7, area["y"] + area["height"] * 0.35)
        page.mouse.move(area["x"] + area["width"] * 0.7, area["y"] + area["height"] * 0.37)
        expect(page.locator(".tv-chip.lit")).to_have_text(["the (2)", "Ka"])
        expect(page.locator(BANDS)).to_have_count(2)
        page.mouse.move(5, 5)
        expect(page.locator(".tv-chip.lit")).to_have_count(0)
        _tile(page, 0, 0).click()
        _place(page, "(0, 0)")
        page.wait_for_timeout(500)


def test_a_lit_word_stays_lit_when_the_map_is_drawn_anew(page: Page, url: str) -> None:
    _open(page, url)
    chip = page.get_by_role("button", name="the", exact=True)
    chip.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(BANDS)).to_have_count(1)
    page.keyboard.press("Enter")  # the page runs again; the keyboard stays where it is
    expect(page.get_by_text("chosen Picked(side='source', token=1")).to_be_visible()
    page.evaluate("document.querySelector('.tv-band').remove()")  # as when plotly draws anew
    page.evaluate("document.querySelector('.st-key-map').append(document.createElement('i'))")
    expect(page.locator(BANDS)).to_have_count(1)


def test_chips_that_are_gone_listen_no_more(page: Page, url: str) -> None:
    _open(page, url)
    page.evaluate("window.heard = []; addEventListener('tv-light', e => heard.push(e.detail.row))")
    toggle = page.get_by_text("without chips")
    for shown in (True, False, True):
        expect(page.locator(".tv-chip")).to_have_count(9 if shown else 0)
        area = page.locator(".nsewdrag").first.bounding_box()
        assert area is not None
        for step in (0.3, 0.4):
            page.mouse.move(area["x"] + area["width"] * step, area["y"] + 10)
            page.wait_for_timeout(150)
        heard = page.evaluate("heard.splice(0).filter(row => row !== null)")
        assert bool(heard) == shown and len(heard) <= 2  # one view speaks, not two
        page.mouse.move(5, 5)
        page.evaluate("heard.splice(0)")
        toggle.click()


def test_a_word_outside_the_map_cannot_be_chosen(page: Page, url: str) -> None:
    _open(page, url)
    first = page.get_by_role("button", name="<s>", exact=True)
    expect(first).to_have_attribute("aria-disabled", "true")
    first.click(force=True)
    page.get_by_role("button", name="again").click()
    expect(page.get_by_text("chosen None")).to_be_visible()
    expect(page.get_by_role("button", name="at (hidden)")).to_have_class(re.compile("tv-gone"))


def test_a_dark_page_says_so_once(page: Page, url: str) -> None:
    page.emulate_media(color_scheme="dark")
    _open(page, url)
    expect(page.get_by_text("told 1 True")).to_be_visible()
    page.get_by_role("button", name="again").click()
    page.wait_for_timeout(500)
    expect(page.get_by_text("told 1 True")).to_be_visible()
    page.emulate_media(color_scheme="light")
    expect(page.get_by_text("told 2 False")).to_be_visible()
    tile = make_trace(temperature=3.0, probability=0.25).thumbnail("cross")[0, 0].reshape(-1)
    darkest = [int(LIGHT.amounts[-1][n : n + 2], 16) for n in (1, 3, 5)]
    drawn = None
    for _ in range(100):  # the tiles follow without being asked, a frame or two later
        drawn = _cells(page, 0, 0, 4, 5)[..., :3].reshape(-1, 3)[tile.argmax()].tolist()
        if drawn == darkest:
            break
        page.wait_for_timeout(100)
    assert drawn == darkest


def test_many_heads_stay_in_their_place(page: Page, url: str) -> None:
    _open(page, url, "layers=48&heads=64")
    frame = page.locator(".frame").bounding_box()
    assert frame is not None and frame["height"] <= 520
    below = page.get_by_text("below the tiles").bounding_box()
    assert below is not None and below["y"] >= frame["y"] + frame["height"]
    assert page.locator(".tiles button").count() == 48 * 64
    _tile(page, 0, 0).focus()
    page.keyboard.press("End")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(_tile(page, 3, 63)).to_be_in_viewport()
    page.keyboard.press("Enter")
    _place(page, "(3, 63)")


def test_tiles_fit_their_column_at_any_width(page: Page, url: str) -> None:
    for width in (1440, 800):
        page.set_viewport_size({"width": width, "height": 900})
        _open(page, url, "layers=6&heads=8")
        page.wait_for_timeout(300)
        frame, last = page.locator(".frame").bounding_box(), _tile(page, 5, 7).bounding_box()
        assert frame is not None and last is not None
        assert last["x"] + last["width"] <= frame["x"] + frame["width"]
        assert last["y"] + last["height"] <= frame["y"] + frame["height"]
        scrolls = page.locator(".frame").evaluate(
            "f => f.scrollHeight > f.clientHeight || f.scrollWidth > f.clientWidth"
        )
        assert not scrolls
