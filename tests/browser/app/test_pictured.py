"""A picture beside a text, in a real browser: it is given, drawn with its patches, and clicked."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.browser import running_app
from tests.support.page_actions import address, after, go, query
from tests.support.pictured import picture, pictured_folder

MAP = "charts.head-view"
TEXT = "what is in the picture ?"
SHARE = re.compile(r"(\d+)% of its weight is on the picture")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaVA, as the library writes it."""
    return pictured_folder("llava", tmp_path_factory.mktemp("pictured") / "llava")


@pytest.fixture(scope="module")
def pictured_url(folder: Path) -> Iterator[str]:
    """The address of an app that shows it first."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
        with running_app() as url:
            yield url


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (400, 850)])
def test_a_picture_of_ones_own_is_drawn_under_the_row_of_a_word(
    page: Page, pictured_url: str, folder: Path, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    words = {"picture": "house", "layer": "1", "head": "0", "token": "22"}
    go(page, address(pictured_url, model="llava", text=TEXT, **words))
    expect(page.get_by_text(SHARE)).to_be_visible()
    held = io.BytesIO()
    picture().save(held, "PNG")

    def give(page: Page) -> None:
        page.get_by_role("button", name="Your own picture").click()
        page.get_by_test_id("stFileUploader").locator("input").set_input_files(
            {"name": "cat.png", "mimeType": "image/png", "buffer": held.getvalue()}
        )
        expect(page.get_by_text("Beside the text stands your own picture")).to_be_visible()
        page.keyboard.press("Escape")

    after(page, give, MAP)
    card = page.locator(".st-key-card-patches")
    expect(card.locator(".js-plotly-plot")).to_be_visible()
    run = tv.trace(tv.load(folder), TEXT, image=picture(), check=False)
    row = run.attention("decoder", layer=1)[0][22]
    told = SHARE.search(card.locator("[data-what=patch]").inner_text())
    assert told is not None and int(told[1]) == round(100 * row[run.patches].sum())
    expect(page.get_by_text("picture, 4 × 4 patches")).to_be_visible()
    assert "file" not in query(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
