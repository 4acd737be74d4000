"""What ⟨Share⟩ opens in a real browser: it follows the page while it stays open."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.page_actions import address, go, press, query


def test_the_link_follows_a_slider_that_is_moved_beside_it(page: Page, url: str) -> None:
    go(page, address(url))
    page.get_by_role("button", name="Share").click()
    opened = page.get_by_test_id("stPopoverBody")
    link = opened.get_by_test_id("stCode")
    expect(link).to_be_visible()
    assert "edits" not in link.inner_text()
    press(page, "temperature", "ArrowRight", 3)
    expect(link).to_contain_text("temperature")
    page.wait_for_function(
        "([link]) => link.innerText.trim() === location.href", arg=[link.element_handle()]
    )
    assert "edits" in query(page)
    expect(opened).to_be_visible()
