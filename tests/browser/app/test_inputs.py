"""Strange input in a real browser: what the person then reads, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from ...support.odd_inputs import BOX, ODD, OPENED, TYPED, Input, do, odd_app, said
from ..conftest import visit


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """One visit for the whole list: what came before must not harm what comes next."""
    with visit(browser, viewport={"width": 1000, "height": 800}) as page:
        yield page


@pytest.fixture(scope="module")
def odd_url() -> Iterator[str]:
    with odd_app() as address:
        yield address


def _is_explained(page: Page, strange: Input) -> None:
    """The sentence stands there, or a translation; nothing broke and no sentence is lost."""
    for _ in range(300):  # the run of a busy machine may begin after a moment of rest
        if said(page) == strange.says:
            break
        page.wait_for_timeout(100)
    assert said(page) == strange.says
    assert page.get_by_test_id("stException").count() == 0
    if strange.text is not None:
        assert page.get_by_label(BOX).input_value() == strange.text
    if strange.reads:
        assert strange.reads in page.locator(".tv-chip").all_inner_texts()
        assert page.locator('[data-what="translation"]').inner_text()


@pytest.mark.parametrize("strange", TYPED, ids=lambda strange: strange.name)
def test_typed(tab: Page, url: str, strange: Input) -> None:
    if not tab.url.startswith(url):
        tab.goto(url)
        tab.locator(".tv-foot").wait_for()
    do(tab, url, strange)
    _is_explained(tab, strange)


@pytest.mark.parametrize("strange", OPENED, ids=lambda strange: strange.name)
def test_opened(tab: Page, url: str, strange: Input) -> None:
    do(tab, url, strange)
    _is_explained(tab, strange)


@pytest.mark.parametrize("strange", ODD, ids=lambda strange: strange.name)
def test_a_model_that_cannot_be_shown(odd_url: str, page: Page, strange: Input) -> None:
    do(page, odd_url, strange)
    _is_explained(page, strange)
