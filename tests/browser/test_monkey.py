"""Twenty seconds of `make soak`: random clicks, keys and links; nothing may break."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from benchmarks.soak import play
from tests.browser.conftest import PATIENCE

pytestmark = pytest.mark.browser


def test_a_monkey_breaks_nothing_in_twenty_seconds(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1100})
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    found = play(page, url, seconds=20)
    context.close()
    assert not found.broken
    assert sum(found.done.values()) >= 5
