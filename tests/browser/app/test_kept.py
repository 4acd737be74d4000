"""What a visitor chose is kept across Back, pages and new tabs; paper, contrast and copies work."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.page_actions import go

BARKS = "/?text=The+dog+barks.&lang=de"


def chosen(page: Page, key: str) -> list[str]:
    return page.locator(f".st-key-{key} [aria-checked=true]").all_inner_texts()


def test_choices_survive_a_page_its_bare_entry_and_a_new_tab(page: Page, url: str) -> None:
    go(page, url + BARKS.replace("&lang=de", "&block=decoder"))
    page_actions.visit_page(page, "Positions")
    expect(page).to_have_title("Positions · transformer viz")
    expect(page.locator(".st-key-head_state [aria-checked=true]")).to_have_text("on")
    expect(page.locator(".st-key-causal [aria-checked=true]")).to_have_text("on")
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


def test_words_paper_and_contrast(page: Page, url: str) -> None:
    page.emulate_media(color_scheme="dark")
    go(page, url + BARKS)
    now = page.locator("[data-what=now]")
    expect(now).to_have_attribute("lang", "de")
    expect(now).to_have_attribute("translate", "no")
    expect(page.locator(".st-key-examples button").first).to_have_attribute("translate", "no")
    shade = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    assert page.evaluate(shade) != "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(shade) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark", media="screen", forced_colors="active")
    colours = [
        page.locator(f".st-key-block [aria-checked={on}]").first.evaluate(
            "one => getComputedStyle(one).backgroundColor"
        )
        for on in ("true", "false")
    ]
    assert colours[0] != colours[1]
    page.emulate_media(color_scheme="light", media="screen", forced_colors="none")


def test_copies_work_without_a_clipboard_or_say_that_they_do_not(page: Page, url: str) -> None:
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => undefined})"
    )
    go(page, url + BARKS)
    assert page.evaluate("navigator.clipboard.writeText('copied').then(() => 'done')") == "done"
    page.evaluate("document.execCommand = () => false")
    refused = page.evaluate("navigator.clipboard.writeText('x').catch((error) => error.name)")
    assert refused == "NotAllowedError"
    expect(page.locator("#tv-copying")).to_contain_text("https")
