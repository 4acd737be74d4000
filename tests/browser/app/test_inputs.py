"""Strange input in Chromium; tests/app/ui/test_odd_inputs.py holds the whole list without it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.support.odd_inputs import BOX, ODD, OPENED, TYPED, Input, do, said

#: What a browser could read, draw or escape otherwise than Python sends it.
DRAWN = ("emoji", "direction", "markup", "link-several")


def _is_explained(page: Page, strange: Input) -> None:
    """The sentence stands there, or a translation; nothing broke and no sentence is lost."""
    for _ in range(300):  # the run of a busy machine may begin after a moment of rest
        if said(page) == strange.says:
            break
        page.wait_for_timeout(100)
    assert said(page) == strange.says, strange.name
    assert page.get_by_test_id("stException").count() == 0, strange.name
    if strange.text is not None:
        assert page.get_by_label(BOX).input_value() == strange.text, strange.name
    if strange.reads:
        assert strange.reads in page.locator(".tv-chip").all_inner_texts(), strange.name
        assert page.locator('[data-what="translation"]').inner_text(), strange.name


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_what_is_typed_or_linked_is_explained(page: Page, url: str, every: bool) -> None:
    """In one visit: what came before must not harm what comes next."""
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(url)
    page.locator(".tv-foot").wait_for()
    for strange in (*TYPED, *OPENED):
        if every or strange.name in DRAWN:
            do(page, url, strange)
            _is_explained(page, strange)


@pytest.mark.soak
def test_a_model_that_cannot_be_shown(page: Page, models_url: str) -> None:
    for strange in ODD:
        do(page, models_url, strange)
        _is_explained(page, strange)
