"""A fresh visit for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import visit


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh visit for one test."""
    with visit(browser) as page:
        yield page
