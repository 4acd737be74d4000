"""Swap by hand: a cell is clicked, the text follows, the link brings it all back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.page_actions import address, go, still, visit_page
from transformer_viz.core.interventions import Intervention

TEXT = "The animal didn't cross the street because it was too tired."
OTHER = TEXT.replace("tired", "wide")
POINTS = """part => [...document.querySelectorAll(
    `.st-key-card-swap-${part} .js-plotly-plot .scatterlayer .trace path.point`)].map(point => {
      const box = point.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2, box.width];
    }).filter(([, , width]) => width > 12)"""


def test_tired_becomes_wide_by_one_click(page: Page, url: str) -> None:
    go(page, address(url, "swap", text=TEXT))
    expect(page.locator('[data-what="reads-1"]')).to_have_text(OTHER)
    model = tv.load("en-de", device="cpu")
    words = [tv.translate(model, text, beam=4)[0].text for text in (TEXT, OTHER)]
    for number, text in enumerate(words):
        expect(page.locator(f'[data-what="writes-{number}"]')).to_have_text(text)
    found = tv.swap(model, TEXT, OTHER)
    best = next(cell for cell in found.ranked if cell.part == "cross")
    chart = page.locator(".st-key-card-swap-cross .js-plotly-plot")
    chart.scroll_into_view_if_needed()
    still(page)
    points = page.evaluate(POINTS, "cross")
    heads = found.parts["cross"].shape[1]
    x, y, _ = points[best.row * heads + best.column]
    page.mouse.move(x, y)
    value = found.parts["cross"][best.row, best.column]
    hover = page.locator(".st-key-card-swap-cross .hoverlayer")
    expect(hover).to_contain_text(f"{value:+.3f}".replace("-", "−"))
    page.mouse.click(x, y)
    chip = page.locator(".st-key-edit-0 button")
    expect(chip).to_contain_text(f"cross L{best.row} H{best.column}: gives what it gives in")
    edits = Intervention((best.edit,))
    changed = tv.translate(model, TEXT, beam=4, intervention=edits)[0].text
    after = page.locator('[data-what="after"]')
    expect(after).to_have_text(changed)
    # a reload of the link finds all of it, and so does another page
    still(page)
    go(page, page.url)
    expect(chip).to_be_visible()
    expect(after).to_have_text(changed)
    visit_page(page, "Explore")
    expect(chip).to_be_visible()
    expect(after).to_have_text(changed)
    visit_page(page, "Swap")
    still(page)
    page.locator(".st-key-swap-keep-0").scroll_into_view_if_needed()
    page.get_by_role("button", name="take back").first.click()
    expect(chip).to_have_count(0)
    expect(page.locator('[data-what="now"]')).to_have_text(words[0])


def test_another_kind_of_swap_and_another_sentence(page: Page, url: str) -> None:
    go(page, address(url, "swap", text=TEXT))
    page.get_by_role("radio", name="A place of the stream").or_(
        page.get_by_role("button", name="A place of the stream")
    ).first.click()
    expect(page.locator(".st-key-card-swap-encoder .js-plotly-plot")).to_be_visible()
    expect(page).to_have_url(re.compile("swapped=stream"))
    box = page.get_by_label("the other sentence")
    box.fill(TEXT.replace("too wide", "full of cars").replace("too tired", "full of cars"))
    box.press("Enter")
    expect(page.locator('[data-what="reads-1"]')).to_contain_text("full of cars")
    still(page)
    assert page.get_by_test_id("stException").count() == 0
