"""What a report does by itself where the app would ask Python."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.app.test_report import Offline, offline, painted
from tests.views.test_html_report import CLEAN, WARM
from transformer_viz.metrics import describe_row
from transformer_viz.views.export.html_report import report

__all__ = ["offline"]


def test_the_sentence_speaks_of_the_run_that_is_drawn(offline: Offline) -> None:
    page = offline.open(report(WARM, CLEAN, opened=("cross", 1, 2)))
    painted(page)
    page.get_by_role("toolbar", name="target").get_by_role("button", name="Ka").click()
    now, was = (
        describe_row(trace.attention("cross", layer=1)[2][1], "Ka", CLEAN.source.labels)
        for trace in (WARM, CLEAN)
    )
    assert now != was
    for run, said in (("Before", was), ("Difference", now), ("Now", now)):
        page.get_by_role("radio", name=run).click()
        expect(page.locator(".tv-map .said")).to_have_text(said)


def test_another_block_forgets_what_was_laid_over(offline: Offline) -> None:
    page = offline.open(report(CLEAN, opened=("cross", 1, 2)))
    painted(page)
    frame = page.locator(".tv-atlas .tv-frame")
    frame.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("o")
    expect(page.locator(".tv-lines .legend li")).to_have_count(2)
    page.keyboard.press("Home")  # a head of the first block
    page.keyboard.press("Enter")
    expect(page.locator(".tv-lines .legend li")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("o")
    live = page.locator(".tv-atlas [aria-live]")
    expect(live).to_have_text("L1 H1 added to the lines")  # the other block's L1 H1 is forgotten
