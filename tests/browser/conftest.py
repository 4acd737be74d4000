"""The running app, and a fresh visit for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import running_app, visit


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of the running app."""
    with running_app() as address:
        yield address


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh visit for one test."""
    with visit(browser) as page:
        yield page
