"""Every kind of model in Chromium: what one types, clicks and gives, wide and narrow."""

from __future__ import annotations

import io
import re
from typing import Literal

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.map_pages import MAP_PAGES
from tests.support.model_kinds import NAMES
from tests.support.page_actions import address, after, chip, go, look, query, still
from tests.support.pictured import picture
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.preprocessing.wav import wav_bytes

TEXT = "The cat sat on the mat."
MAP, OVER = "charts.head-view", "charts.over-image"
#: Width and colours: the first of each page, both of Explore.
SCREENS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((800, "light"), (1440, "dark"))
OWN = "Shown is your own picture"
HEARS = re.compile(r"looks most at “(\d\.\d\d s)”")
SHARE = re.compile(r"(\d+)% of its weight is on the picture")


def upload(page: Page, button: str, name: str, kind: str, content: bytes) -> None:
    """Give a file of one's own in the panel that a button opens."""
    page.get_by_role("button", name=button).click()
    file = {"name": name, "mimeType": kind, "buffer": content}
    page.get_by_test_id("stFileUploader").locator("input").set_input_files(file)  # type: ignore[arg-type]


def png(image: Image.Image) -> bytes:
    held = io.BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


def test_words_hidden_by_clicks_pictures_and_sounds_of_ones_own(page: Page, url: str) -> None:
    """What is shown of each kind, and what the link keeps: tests/app/pages/test_kinds.py."""
    plain = go(page, address(url, model="mlm", text=TEXT))
    _, hidden = after(page, lambda p: chip(p, "text", 1).click(), "chips", MAP, "chances")
    assert query(page)["masked"] == "1" and hidden["chips"][1][0] == "<mask>"
    assert page.locator('[data-what="lead"] .tv-new').count() == 1
    chip(page, "text", len(plain["chips"]) - 1).click()  # the end mark is no word to hide
    still(page)
    assert query(page)["masked"] == "1"
    after(page, lambda p: chip(p, "text", 1).click(), "chips")
    assert "masked" not in query(page)
    assert [one[0] for one in look(page)["chips"]] == [one[0] for one in plain["chips"]]

    page_actions.choose(page, "Model", "vit")
    expect(page.locator(".st-key-over-image .js-plotly-plot")).to_be_visible()
    still(page)
    after(page, lambda p: page_actions.click_plot(p, "over-image", 0.9, 0.2), OVER, MAP, "said.row")
    assert query(page)["token"] == "3"  # the third patch of the first row, behind the class token
    for width, colours in SCREENS:
        _fits(page, width, colours, "vit")

    before = look(page)
    upload(page, "Your own picture", "mine.png", "image/png", png(Image.linear_gradient("L")))
    page_actions.changed(page, before, MAP, "chances")
    page.keyboard.press("Escape")
    expect(page.get_by_text(OWN)).to_be_visible()

    page.set_viewport_size({"width": 400, "height": 850})
    link = {"picture": "house", "layer": "1", "head": "0", "token": "22"}
    text = "what is in the picture ?"
    before = go(page, address(url, model="llava", text=text, **link))
    upload(page, "Your own picture", "cat.png", "image/png", png(picture()))
    expect(page.get_by_text("Beside the text stands your own picture")).to_be_visible()
    page.keyboard.press("Escape")
    page_actions.changed(page, before, MAP)
    expect(page.get_by_text("picture, 4 × 4 patches")).to_be_visible()
    card = page.locator(".st-key-card-patches")
    expect(card.locator(".js-plotly-plot")).to_be_visible()
    expect(card.locator("[data-what=patch]")).to_contain_text(SHARE)
    assert "file" not in query(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

    page.set_viewport_size({"width": 1440, "height": 1100})
    before = go(page, address(url, model="whisper", beam="1", layer="1", head="0"))
    expect(page.get_by_text(HEARS)).to_have_count(1)
    assert before["said"]["now"]
    expect(page.get_by_role("radio", name="Cross")).to_be_checked()
    expect(page.get_by_test_id("stAudio")).to_have_count(1)
    expect(page.get_by_test_id("stAudioInput")).to_be_visible()
    voice = wav_bytes(np.random.default_rng(4).normal(0, 0.2, 30_000), 22_050)
    upload(page, "Your own sound", "me.wav", "audio/wav", voice)
    expect(page.get_by_text("Heard is your own sound")).to_be_visible()
    page.keyboard.press("Escape")
    page_actions.changed(page, before, MAP)
    expect(page.get_by_text(HEARS)).to_be_visible()
    assert "file" not in query(page)


def _fits(page: Page, width: int, colours: Literal["light", "dark"], where: str) -> None:
    """Nothing is too wide, and no box complains."""
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=colours)
    rest(page)
    assert page.get_by_test_id("stException").count() == 0, (where, width)
    assert page.get_by_test_id("stAlert").all_inner_texts() == [], (where, width)
    assert page.evaluate(script("too_wide")) == [], (where, width)


@pytest.mark.soak  # no complaint on any page: tests/app/pages/test_kinds.py
def test_every_page_of_every_kind_fits(page: Page, url: str) -> None:
    for name in NAMES:
        for path in MAP_PAGES:
            page.set_viewport_size({"width": 800, "height": 1000})
            page.emulate_media(color_scheme="light")
            page.goto(address(url, path, model=name, masked="1"))
            expect(page.locator(".tv-foot")).to_be_visible()
            for width, colours in SCREENS[: 1 if path else 2]:
                _fits(page, width, colours, f"{name}, page '{path}'")
