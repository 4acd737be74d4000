"""Languages, letters, paper and contrast in Chromium, and copies without a clipboard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.page_actions import address, go, press
from tests.support.rest import rest
from tests.support.scripts import script

WORDS = re.compile(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}")  # three words of English in a row
#: Of Unicode 15, in hardly any font; two of them, so that they can be told apart.
RARE = "\U00031350\U00031351"
UNKNOWN = "\u0378"  # no letter: the empty box, or whatever stands for it
#: What a letter looks like in the page's font, as plain numbers.
LOOK = """letter => {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = "20px " + getComputedStyle(document.body).fontFamily;
  brush.fillText(letter, 10, 40);
  return String(brush.getImageData(0, 0, 60, 60).data);
}"""
#: For which letters a font was made here.
FACES = "[...document.fonts].map((face) => face.unicodeRange).join()"
SHADE = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
#: Add an element of text to the page, and wait until it was seen.
ADD = """([tag, text]) => {
  const made = document.createElement(tag);
  made.type = "text/plain";
  made.textContent = text;
  document.body.append(made);
  return new Promise((done) => setTimeout(done, 500));
}"""


def texts(page: Page) -> list[str]:
    """What pictures, controls and screen readers say."""
    found: list[str] = page.evaluate(script("picture_texts"))
    return found


def english(page: Page) -> list[str]:
    """The texts inside of our pictures that are English sentences."""
    return [text for text in texts(page) if WORDS.search(text)]


def language(page: Page) -> str:
    """What the page says its language is, to screen readers and to the browser's hyphens."""
    found: str = page.evaluate("document.documentElement.lang")
    return found


def test_pictures_speak_chinese_in_every_view_and_english_again(page: Page, url: str) -> None:
    link = {"lang": "zh", "layer": 1, "head": 3, "block": "cross", "text": "The dog barks."}
    go(page, address(url, **link))
    for number, view in enumerate(("map", "lines", "qk")):
        if number:
            page.locator(".st-key-view [role=radio]").nth(number).click()
            page.wait_for_url(f"**view={view}**")
            rest(page)
        assert language(page) == "zh" and english(page) == [], view
    assert {"阈值", "排序", "温度", "窗口", "分数", "权重"} <= set(texts(page))
    press(page, "温度", "ArrowRight", 3)
    expect(page.get_by_role("button", name="交叉 L1 H3：温度 1.4 ✕")).to_be_visible()
    page_actions.still(page)
    assert english(page) == [] and page_actions.edits(page)[0]["kind"] == "temperature"
    page_actions.pick(page, "语言", "English")
    expect(page.get_by_text("Which words does each head look at?")).to_be_visible()
    rest(page)
    assert {"threshold", "sort", "temperature", "window", "score", "weight"} <= set(texts(page))
    assert language(page) == "en" and not re.search(r"[\u4e00-\u9fff]", " ".join(texts(page)))
    page.goto(address(url, "about", lang="zh"))
    expect(page.get_by_role("heading", name="注意力权重不是解释")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh")


@pytest.mark.parametrize("width", [400, pytest.param(1440, marks=pytest.mark.soak)])
def test_letters_paper_contrast_and_copies(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark")
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => undefined})"
    )
    go(page, address(url, text="The straße naïve Привет αβγ cat sleeps.", lang="de"))
    _letters_that_are_there(page)
    _paper_and_contrast(page)
    _copies(page)
    for tag, text in (("script", RARE), ("style", f".none::before {{ content: '{RARE}'; }}")):
        page.evaluate(ADD, [tag, text])
    expect(page.locator("#tv-letters")).to_have_count(0)  # words in a script are no text of a page
    go(page, address(url, text=f"The cat {RARE} sleeps."))
    note = page.locator("#tv-letters")
    expect(note).to_contain_text("U+31350")
    expect(note).to_contain_text("sudo apt install")
    looks = {page.evaluate(LOOK, letter) for letter in (UNKNOWN, *RARE)}
    assert len(looks) == 3, "letters without a font are drawn as their numbers"
    box = note.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    note.get_by_role("button").click()
    expect(note).to_have_count(0)
    page.context.close()  # its script without a clipboard is for no other visit


def _letters_that_are_there(page: Page) -> None:
    """Letters with a font are not complained of; no language is offered as empty boxes."""
    expect(page.locator("#tv-letters")).to_have_count(0)
    assert page.evaluate(LOOK, "中") != page.evaluate(LOOK, UNKNOWN)  # a font, or the code point
    name = page.locator(".st-key-lang p[data-tv-plain]")
    expect(name).to_have_count(1 if "U+4E2D" in page.evaluate(FACES).upper() else 0)
    if name.count():
        expect(name).to_have_attribute("data-tv-plain", "Chinese")
        expect(name).to_have_css("font-size", "0px")


def _paper_and_contrast(page: Page) -> None:
    now = page.locator("[data-what=now]")
    expect(now).to_have_attribute("lang", "de")
    expect(now).to_have_attribute("translate", "no")
    expect(page.locator(".st-key-examples button").first).to_have_attribute("translate", "no")
    assert page.evaluate(SHADE) != "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(SHADE) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark", media="screen", forced_colors="active")
    on, off = (
        page.locator(f".st-key-block [aria-checked={state}]").first.evaluate(
            "one => getComputedStyle(one).backgroundColor"
        )
        for state in ("true", "false")
    )
    assert on != off, "a choice is seen in forced colours"
    page.emulate_media(color_scheme="light", media="screen", forced_colors="none")


def _copies(page: Page) -> None:
    """Copies work without a clipboard, or say that they do not."""
    assert page.evaluate("navigator.clipboard.writeText('copied').then(() => 'done')") == "done"
    page.evaluate("document.execCommand = () => false")
    refused = page.evaluate("navigator.clipboard.writeText('x').catch((error) => error.name)")
    assert refused == "NotAllowedError"
    expect(page.locator("#tv-copying")).to_contain_text("https")
