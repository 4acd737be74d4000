"""Two visitors at once, a short version of `make soak`: nothing of one reaches the other."""

from __future__ import annotations

from playwright.sync_api import Browser

from benchmarks.visitors import together

CHANGES = 16


def test_two_visitors_see_each_their_own(browser: Browser, url: str) -> None:
    tale = together(browser, url, CHANGES)
    assert not tale.broken
    assert tale.changes >= CHANGES and tale.overlaps > 0
    assert tale.noticed >= 5  # one's screen held against the other's link
