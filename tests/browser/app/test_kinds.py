"""Every kind of model in a real browser: what one types, clicks and chooses, wide and narrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.browser import running_app
from tests.support.map_pages import MAP_PAGES
from tests.support.model_kinds import NAMES, write_kinds
from tests.support.page_actions import address, after, go, query
from tests.support.rest import rest
from tests.support.scripts import script

TEXT = "The cat sat on the mat."
MAP, OVER = "charts.head-view", "charts.over-image"
#: Width and colours: the first of each page, both of Explore.
SCREENS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((800, "light"), (1440, "dark"))


@pytest.fixture(scope="module")
def kinds_url(
    tmp_path_factory: pytest.TempPathFactory, make_vocabulary: Callable[..., bytes]
) -> Iterator[str]:
    """The address of an app that has a tiny model of every kind beside those in the box."""
    folder = write_kinds(tmp_path_factory.mktemp("kinds"), make_vocabulary)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRANSFORMER_VIZ_MODELS", str(folder))
        with running_app() as url:
            yield url


def hot(page: Page) -> None:
    page_actions.pick(page, "applies to", "everything")
    expect(page).to_have_url(re.compile("scope=everything"))
    page_actions.press(page, "temperature", "End")


def test_a_language_model(page: Page, kinds_url: str) -> None:
    now = go(page, address(kinds_url, model="lm", text=TEXT))
    assert now["said"]["lead"].startswith(TEXT) and now["said"]["now"]
    assert page.get_by_role("radiogroup", name="block").count() == 0
    _, hotter = after(page, hot, MAP, "chances", "said.after")
    assert hotter["said"]["before"] == now["said"]["now"]
    page_actions.chip(page, "text", 3).click()
    expect(page).to_have_url(re.compile("token=2"))  # the row that says it
    box = page.get_by_role("textbox", name="Text")
    _, typed = after(page, lambda p: (box.fill("A dog"), box.press("Enter")), "chips", MAP)
    assert typed["edits"] == hotter["edits"] and typed["said"]["lead"].startswith("A dog")
    assert page_actions.differing(typed, go(page, page.url)) == set()


def test_a_click_on_a_word_hides_it_from_a_masked_model_and_back(
    page: Page, kinds_url: str
) -> None:
    plain = go(page, address(kinds_url, model="mlm", text=TEXT))
    assert "Click a word above" in page.locator(".st-key-card-outcome").inner_text()
    _, hidden = after(
        page, lambda p: page_actions.chip(p, "text", 1).click(), "chips", MAP, "chances"
    )
    assert query(page)["masked"] == "1" and hidden["chips"][1][0] == "<mask>"
    assert page.locator('[data-what="lead"] .tv-new').count() == 1
    after(page, lambda p: page_actions.chip(p, "text", 3).click(), "chips", "chances")
    assert query(page)["masked"] == "1,3"
    last = len(plain["chips"]) - 1
    page_actions.chip(page, "text", last).click()  # the end mark is no word to hide
    page_actions.still(page)
    assert query(page)["masked"] == "1,3"
    again = page_actions.still(page)
    assert page_actions.differing(again, go(page, page.url)) == set()
    after(page, hot, MAP, "chances")
    for number in (1, 3):
        after(page, lambda p, n=number: page_actions.chip(p, "text", n).click(), "chips")
    assert "masked" not in query(page)
    assert [chip[0] for chip in page_actions.look(page)["chips"]] == [c[0] for c in plain["chips"]]


def test_a_picture_its_patches_and_its_classes(page: Page, kinds_url: str) -> None:
    now = go(page, address(kinds_url, model="vit"))
    assert re.match(r"zero|one|two|three|four", now["said"]["lead"])
    after(page, lambda p: page_actions.click_plot(p, "over-image", 0.9, 0.2), OVER, MAP, "said.row")
    assert query(page)["token"] == "3"  # the third patch of the first row, behind the class token
    after(page, lambda p: page_actions.pick(p, "over the picture", "What speaks for a class"), OVER)
    page.wait_for_url("**over=gradients**")  # the next choice waits until the list is there for it
    page_actions.still(page)
    page_actions.choose(page, "class", "three")
    page.wait_for_url("**chosen=3**")
    after(page, lambda p: page_actions.choose(p, "Picture", "right"), MAP, OVER, "chances")
    after(page, hot, MAP, "chances")
    assert page_actions.differing(page_actions.still(page), go(page, page.url)) == set()


def test_a_picture_of_ones_own(page: Page, kinds_url: str, tmp_path: Path) -> None:
    from PIL import Image

    go(page, address(kinds_url, model="vit"))
    path = tmp_path / "mine.png"
    Image.linear_gradient("L").save(path)
    page.get_by_role("button", name="Your own picture").click()
    before = page_actions.look(page)
    page.locator('input[type="file"]').set_input_files(path)
    page_actions.changed(page, before, MAP, "chances")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Shown is your own picture")).to_be_visible()
    page_actions.visit_page(page, "Norms")
    expect(page.get_by_text("Shown is your own picture")).to_be_visible()
    page_actions.visit_page(page, "Explore")
    page_actions.still(page)
    after(page, lambda p: p.get_by_role("button", name="mine.png").click(), MAP, "chances")
    assert page.get_by_text("Shown is your own picture").count() == 0


def test_vectors_and_ids(page: Page, kinds_url: str) -> None:
    go(page, address(kinds_url, model="core"))
    after(
        page,
        lambda p: page_actions.enter(p, "Random vectors, drawn with seed", "4"),
        MAP,
        "chances",
    )
    assert query(page)["seed"] == "4"
    after(page, hot, MAP, "chances")
    _, now = after(page, lambda p: page_actions.choose(p, "Model", "ids"), "chips", MAP)
    assert now["alerts"] == [] and page.get_by_role("textbox", name="Token ids").input_value()
    _, last = after(page, lambda p: page_actions.choose(p, "Model", "en-de"), "chips", MAP)
    assert last["alerts"] == [] and last["said"]["translation"]


@pytest.mark.parametrize("name", NAMES)
def test_every_page_of_every_kind_fits_and_complains_about_nothing(
    page: Page, kinds_url: str, name: str
) -> None:
    """Opened narrow and light; Explore is made wide and dark while it is open."""
    for path in MAP_PAGES:
        page.set_viewport_size({"width": 800, "height": 1000})
        page.emulate_media(color_scheme="light")
        page.goto(address(kinds_url, path, model=name, masked="1"))
        expect(page.locator(".tv-foot")).to_be_visible()
        for width, colours in SCREENS[: 1 if path else 2]:
            page.set_viewport_size({"width": width, "height": 1000})
            page.emulate_media(color_scheme=colours)
            rest(page)
            where = f"{name}, page '{path}', {width} pixels, {colours}"
            assert page.get_by_test_id("stException").count() == 0, where
            assert page.get_by_test_id("stAlert").all_inner_texts() == [], where
            assert page.evaluate(script("too_wide")) == [], where
