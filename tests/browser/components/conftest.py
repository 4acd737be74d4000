"""A page with all components on a free port, and our modules alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.support.browser import running_app
from tests.support.component_stage import serving


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of a small app that mounts the components."""
    with running_app("tests/support/chips_app.py") as address:
        yield address


@pytest.fixture(scope="session")
def modules() -> Iterator[str]:
    """The address of a server that has our modules."""
    with serving() as address:
        yield address


@pytest.fixture
def stage(page: Page, modules: str) -> Page:
    """An empty page beside our modules; see `tests.support.component_stage`."""
    page.goto(modules)
    return page
