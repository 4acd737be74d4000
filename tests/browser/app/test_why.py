"""Why this word by hand: a word is clicked, the columns follow, the link brings it back."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.page_actions import address, go, still

TEXT = "The cat sat on the mat."


def test_a_word_is_clicked_and_its_reasons_stand(page: Page, url: str) -> None:
    go(page, address(url, "why", text=TEXT, model="en-de-small"))
    model = tv.load("en-de-small", device="cpu")
    ids = tv.translate(model, TEXT, beam=4)[0].ids
    held = [model.bos_id, *ids]
    first = tv.explain(model, TEXT, 0, held, "removal")
    chosen = page.locator('[data-what="why-word"]')
    expect(chosen).to_contain_text(f"“{first.word}”")
    second = tv.explain(model, TEXT, 1, held, "removal")
    still(page)
    chips = page.locator(".st-key-tokens").get_by_text(second.word, exact=True)
    chips.first.click()
    expect(chosen).to_contain_text(f"“{second.word}”")
    column = page.locator('[data-what="why-removal"]')
    for value in second.values["value"].round(2):
        expect(column).to_contain_text(f"{value + 0.0:.2f}")
    still(page)
    go(page, page.url)
    expect(chosen).to_contain_text(f"“{second.word}”")
    page.get_by_text("Who names the words that matter?").click()
    expect(page.locator(".st-key-why-curve .js-plotly-plot")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
