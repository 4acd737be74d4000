"""A server and a Chromium for the benchmarks of the app, the ones that the browser tests use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.browser import FLAGS, PATIENCE, chromium
from transformer_viz.checkpoints import available

MAP = ".st-key-head-view [data-painted]"
TILES = ".st-key-atlas [data-painted]"


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium, ready before the clock starts."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield found
        found.close()


def visitor(browser: Browser) -> Page:
    """A fresh visit with an empty page."""
    page = browser.new_context(viewport={"width": 1440, "height": 1100}).new_page()
    page.set_default_timeout(1000 * PATIENCE)
    return page


def has_picture(page: Page) -> None:
    """Until all heads and the map of the opened one are drawn."""
    page.locator(MAP).wait_for(state="attached")
    page.locator(TILES).wait_for(state="attached")
    page.locator(".tv-foot").wait_for()


def needs_model(environment: dict[str, str]) -> str:
    """The name of the model that the app will open.

    Raises:
        FileNotFoundError: none is in the box and none is named; says what to do.
    """
    name = environment.get("TRANSFORMER_VIZ_MODEL", "")
    if name or "en-de" in available():
        return Path(name).name or "en-de"
    raise FileNotFoundError(
        "There is no model in pretrained/; name a folder in TRANSFORMER_VIZ_MODEL, or train one "
        "with make train."
    )
