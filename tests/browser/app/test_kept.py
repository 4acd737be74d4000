"""What a visitor typed or chose stays: over Back, pages, new tabs, languages, late code."""

from __future__ import annotations

import json
import re

from playwright.sync_api import Page, Route, expect

from tests.support import page_actions
from tests.support.page_actions import (
    address,
    after,
    choose,
    click,
    differing,
    edits,
    fold,
    go,
    press,
    query,
    still,
    unfold,
)
from tests.support.rest import rest

CODE = re.compile(r"/static/js/(Selectbox|Radio|ButtonGroup|Slider|Checkbox)\.")
LINK = {"model": "en-de-small", "layer": "1", "head": "2", "compare": "before"}
ABOUT = "Attention weights are not explanations"
ATLAS = ".st-key-atlas [data-painted]"


def test_choices_survive_back_bare_addresses_and_a_new_tab(page: Page, url: str) -> None:
    there = go(page, address(url, text="The dog barks.", block="decoder", layer=1, head=2))
    page_actions.visit_page(page, "About")
    expect(page.get_by_text(ABOUT)).to_be_visible()
    page.wait_for_url("**/about?*layer=1*")
    page.go_back()
    if "/about" in page.url:  # Streamlit may write the page's address first, and its link then
        expect(page.get_by_text(ABOUT)).to_be_visible()
        page.go_back()
    expect(page.locator(ATLAS)).to_be_visible()
    assert differing(there, still(page)) == set(), "back from a page without a sentence"

    push = "History.prototype.pushState.call(history, {}, '', '%s')"  # not merged into one
    page.evaluate(push % "/about")
    page.evaluate(push % "/about?text=The+dog+barks.&block=decoder&layer=1&head=2")
    page.go_back()
    expect(page.get_by_text(ABOUT)).to_be_visible()
    page.wait_for_timeout(500)
    assert page.url.endswith("/about"), "a page as it was before its link was written"
    page_actions.visit_page(page, "Explore")
    expect(page.locator(ATLAS)).to_be_visible()
    assert differing(there, still(page)) <= {"page", "query"}

    page_actions.visit_page(page, "Positions")
    expect(page).to_have_title("Positions · transformer viz")
    for control in ("head_state", "causal"):
        expect(page.locator(f".st-key-{control} [aria-checked=true]")).to_have_text("on")
    page.evaluate("""() => { const link = location.href;
        history.replaceState(history.state, "", "/positions"); history.pushState({}, "", link) }""")
    page.go_back()
    expect(page.get_by_label("English sentence")).to_have_value("The dog barks.")
    expect(page).to_have_url(re.compile("block=decoder"))
    page.locator("[data-testid=stTopNavSection]").nth(1).click()
    with page.context.expect_page() as opened:
        page.get_by_role("menuitem").first.click(button="middle")
    expect(opened.value).to_have_url(re.compile("text=The.dog.barks.*block=decoder"))
    opened.value.close()


def test_folded_controls_and_a_held_target_show_what_the_link_says(page: Page, url: str) -> None:
    """Controls that the browser builds late neither begin at their defaults nor write these."""
    kept = {"kind": "block_keys", "keys": [2, 5], "stack": "encoder", "block": "self"}
    padded = {"kind": "pad", "count": 3, "masked": True}
    place = {"block": "encoder", "layer": 1, "head": 2, "token": 1, "target": "Der Hund schläft."}
    go(page, address(url, **place, edits=json.dumps({"edits": [kept, padded]})))
    after(page, lambda p: press(p, "temperature", "ArrowRight"), "edits")  # the link's run is over
    assert _folded(page) == (["did", "the"], "0.50", "3")
    after(page, lambda p: choose(p, "hide words", "street"), "edits")
    assert [e["keys"] for e in edits(page) if e["kind"] == "block_keys"] == [[2, 5], [2, 5, 6]]
    assert _folded(page)[0] == ["did", "street", "the"]
    after(page, lambda p: click(p, "↶ undo"), "edits")
    after(page, lambda p: press(p, "temperature", "ArrowRight"), "edits")
    assert [e["keys"] for e in edits(page) if e["kind"] == "block_keys"] == [[2, 5]]
    assert _folded(page) == (["did", "the"], "0.50", "3")
    for name in ("中文", "English"):
        page.get_by_role("radio", name=name).click()
        rest(page)
    click(page, "Target")
    box = page.get_by_role("textbox", name="Hold these target words")
    expect(box).to_have_value("Der Hund schläft.")
    after(page, lambda p: (box.fill("Der Hund rennt."), box.press("Enter")), "query")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    assert still(page)["query"]["target"] == "Der Hund rennt."


def _folded(page: Page) -> tuple[list[str], str, str]:
    """What stands behind "more": the hidden words, the factor, the padding."""
    unfold(page, "hide words")
    expect(page.get_by_test_id("stPopoverBody").locator(".st-key-hide")).to_be_visible()
    hidden = page.get_by_role("combobox", name="hide words").evaluate(page_actions.CHOSEN)
    factor, padding = (
        page.get_by_role("spinbutton", name=name).input_value() for name in ("factor", "padding")
    )
    fold(page)
    words = {word.strip() for words in hidden for word in words.split("\n")}
    return sorted(words - {""}), factor, padding


def test_what_the_link_says_outlasts_a_sentence_typed_before_the_boxes_came(
    page: Page, url: str
) -> None:
    """A browser that gets the code of the boxes late shows the link's values, and keeps them."""
    late: list[Route] = []
    page.route(CODE, lambda route: late.append(route))
    page.goto(address(url, **LINK))
    page.locator(".tv-foot").wait_for()
    assert not page.get_by_label("Model", exact=True).count()
    page_actions.type_sentence(page, "She sings.")
    expect(page.locator('[data-what="translation"]')).to_contain_text("Sie sing")
    before = query(page)
    for route in late:
        route.continue_()
    page.unroute(CODE)
    expect(page.locator('input[aria-label="Model"]')).to_have_value(re.compile("^en-de-small "))
    rest(page)
    assert page.locator('input[aria-label="layer"]').input_value() == "L1"
    page_actions.type_sentence(page, "He sings.")
    expect(page.locator('[data-what="translation"]')).to_contain_text("Er sing")
    rest(page)
    assert before | {"text": "He sings."} == query(page)
    assert before == LINK | {"text": "She sings."}
