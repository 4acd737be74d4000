"""A visitor who asks which head matters: ranks, opens it, removes it, swaps, and keeps the link."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.page_actions import address, go, still, visit_page
from transformer_viz.app.heads.sentences import in_the_box
from transformer_viz.core.interventions import Intervention, ScaleHead

TEXT = "The animal didn't cross the street because it was too tired."
OTHER = TEXT.replace("tired", "wide")


def test_rank_open_remove_swap_and_come_back(page: Page, url: str) -> None:
    go(page, address(url, "heads", text=TEXT, model="en-de", block="cross"))
    model = tv.load("en-de", device="cpu")

    # ranks: the stored table of removals names the strongest first, and the tiles follow
    page.locator(".st-key-atlas select[name=sort]").select_option("effect")
    expect(page).to_have_url(re.compile("heads_by=effect"))
    still(page)
    ranking = page.locator(".st-key-card-removal tr[data-head]").first
    name = ranking.get_attribute("data-head")
    assert name is not None
    first = page.locator(".st-key-card-heads tr[data-head]").first
    expect(first).to_have_attribute("data-head", name)
    layer, head = map(int, re.findall(r"\d+", name))

    # a number says on a press what its bar means
    number = ranking.locator("summary").first
    number.click()
    expect(ranking.locator(".tv-told").first).to_be_visible()
    expect(ranking.locator(".tv-told").first).to_contain_text("95 %")

    # opens it in Explore, and removes it with the dock
    ranking.locator("th a").click()
    expect(page.locator(".st-key-card-head h2")).to_contain_text(f"L{layer} H{head}")
    still(page)
    page.locator(".st-key-head_state").get_by_text("off", exact=True).click()
    removed = ScaleHead(value=0, stack="decoder", block="cross", layer=layer, head=head)
    chip = page.locator(".st-key-edit-0 button")
    expect(chip).to_contain_text(f"cross L{layer} H{head}")
    without = tv.translate(model, TEXT, beam=4, intervention=Intervention((removed,)))[0].text
    expect(page.locator('[data-what="after"]')).to_have_text(without)

    # swaps “tired” for “wide”: the strongest swap is kept beside the removal
    visit_page(page, "Swap")
    expect(page.locator('[data-what="reads-1"]')).to_have_text(OTHER)
    still(page)
    found = tv.swap(model, TEXT, OTHER)
    best = found.ranked[0]
    page.locator(".st-key-swap-keep-0").scroll_into_view_if_needed()
    page.locator(".st-key-swap-keep-0 button").click()
    second = page.locator(".st-key-edit-1 button")
    expect(second).to_contain_text(
        f"{best.part} L{best.row} H{best.column}: gives what it gives in"
    )
    both = Intervention((removed, best.edit))
    changed = tv.translate(model, TEXT, beam=4, intervention=both)[0].text
    expect(page.locator('[data-what="after"]')).to_have_text(changed)
    still(page)

    # the link finds all of it again, on this page and on the others
    go(page, page.url)
    expect(chip).to_contain_text(f"cross L{layer} H{head}")
    expect(second).to_be_visible()
    expect(page.locator('[data-what="after"]')).to_have_text(changed)
    visit_page(page, "Heads")
    still(page)
    assert "heads_by=effect" in page.url
    expect(page.locator(".st-key-card-heads tr[data-head]").first).to_have_attribute(
        "data-head", name
    )
    expect(page.locator('[data-what="one-head"]')).to_contain_text(f"cross L{layer} H{head}")
    off = page.locator(".st-key-heads-off button")
    expect(off).to_have_text("switch it on again")
    visit_page(page, "Align")
    expect(page.locator(".st-key-card-links")).to_contain_text("With the changes below")

    # compares two steps of the training of the smaller sister, and the link finds that too
    visit_page(page, "Compare")
    still(page)
    page.get_by_text("two steps of a training", exact=True).click()
    matched = page.locator("[data-what=matched]")
    expect(matched).to_be_visible(timeout=60_000)
    expect(page).to_have_url(re.compile("versus=step"))
    still(page)
    go(page, page.url)
    expect(matched).to_be_visible(timeout=60_000)
    expect(page.get_by_text(re.compile(r"^after \d+ update")).first).to_be_visible()
    expect(chip).to_contain_text(f"cross L{layer} H{head}")
    assert page.get_by_test_id("stException").count() == 0


def test_numbers_sharpen_while_one_watches_and_stop(page: Page, url: str) -> None:
    """Eight sentences at once, then more; the visitor stops it, and what is there stays."""
    page.goto(address(url, "heads", text=TEXT, model="en-de-small", removal="zero"))
    told = page.locator(".st-key-card-removal")
    expect(told).to_contain_text(re.compile(r"On \d+ sentences"))
    first = int(re.findall(r"On (\d+) sentences", told.inner_text())[0])
    stop = told.get_by_role("button", name="stop")
    expect(stop).to_be_visible()
    expect(page.locator(".tv-foot")).to_be_visible()  # the page stands while it goes on
    expect(told).not_to_contain_text(f"On {first} sentences,", timeout=60_000)
    expect(stop).to_be_visible()
    stop.click()
    expect(told).to_contain_text("Stopped.")
    after = int(re.findall(r"On (\d+) sentences", told.inner_text())[0])
    assert first < after < len(in_the_box())
    still(page)


@pytest.mark.parametrize("width", [1440, 1280, 800])
def test_the_rank_of_a_head_is_in_sight(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    go(page, address(url, "heads", text=TEXT, model="en-de", block="decoder"))
    table = page.locator(".st-key-card-heads .tv-heads").first
    expect(table.locator("thead th").last).to_have_text("rank")
    assert table.evaluate("table => table.scrollWidth - table.clientWidth") <= 0
