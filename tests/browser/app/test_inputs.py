"""Strange input in Chromium; tests/app/ui/test_odd_inputs.py holds the whole list without it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from playwright.sync_api import Page

from tests.support.browser import running_app
from tests.support.odd_inputs import BOX, ODD, OPENED, TYPED, Input, do, odd_app, said

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


def _one_after_another(page: Page, url: str, inputs: Sequence[Input]) -> None:
    """In one visit: what came before must not harm what comes next."""
    page.set_viewport_size({"width": 1000, "height": 800})
    page.goto(url)
    page.locator(".tv-foot").wait_for()
    for strange in inputs:
        do(page, url, strange)
        _is_explained(page, strange)


def test_what_is_typed_or_linked_is_explained(page: Page, url: str) -> None:
    _one_after_another(page, url, [one for one in (*TYPED, *OPENED) if one.name in DRAWN])


@pytest.mark.soak
def test_every_input_is_explained(page: Page) -> None:
    for served, inputs in ((running_app(), (*TYPED, *OPENED)), (odd_app(), ODD)):
        with served as url:
            _one_after_another(page, url, inputs)
