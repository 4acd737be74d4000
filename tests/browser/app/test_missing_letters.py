"""Letters that no font of the computer has: their code points are drawn, and a note says so."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_actions import address, go

#: Of Unicode 15, in hardly any font; two of them, so that they can be told apart.
RARE = "\U00031350\U00031351"
#: What a letter looks like in the page's font, as plain numbers.
LOOK = """letter => {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = "20px " + getComputedStyle(document.body).fontFamily;
  brush.fillText(letter, 10, 40);
  return String(brush.getImageData(0, 0, 60, 60).data);
}"""


#: For which letters a font was made here.
FACES = "[...document.fonts].map((face) => face.unicodeRange).join()"


@pytest.mark.parametrize("width", [1440, 400])
def test_a_letter_without_a_font_is_drawn_as_its_number(page: Page, url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    go(page, address(url, text=f"The cat {RARE} sleeps."))
    note = page.locator("#tv-letters")
    expect(note).to_contain_text("U+31350")
    expect(note).to_contain_text("sudo apt install")
    unknown = page.evaluate(LOOK, "\u0378")  # the empty box, or whatever stands for it
    first, second = (page.evaluate(LOOK, letter) for letter in RARE)
    assert len({unknown, first, second}) == 3
    box = note.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    note.get_by_role("button").click()
    expect(note).to_have_count(0)


def test_a_language_is_never_offered_as_empty_boxes(page: Page, url: str) -> None:
    go(page, address(url))
    missing = page.evaluate(LOOK, "中") == page.evaluate(LOOK, "\u0378")
    assert not missing  # a font, or the code point
    drawn = page.evaluate(FACES)
    name = page.locator(".st-key-lang p[data-tv-plain]")
    expect(name).to_have_count(1 if "U+4E2D" in drawn.upper() else 0)
    if name.count():
        expect(name).to_have_attribute("data-tv-plain", "Chinese")
        expect(name).to_have_css("font-size", "0px")


def test_letters_that_are_there_are_not_complained_of(page: Page, url: str) -> None:
    go(page, address(url, text="The straße naïve Привет αβγ cat sleeps."))
    expect(page.locator("#tv-letters")).to_have_count(0)  # nor of the name of a language


def test_what_stands_in_a_script_is_read_by_nobody(page: Page, url: str) -> None:
    """An offline page carries its scripts inside; words in their comments are no text of it."""
    add = """([tag, text]) => {
      const made = document.createElement(tag);
      made.type = "text/plain";
      made.textContent = text;
      document.body.append(made);
      return new Promise((done) => setTimeout(done, 500));
    }"""
    go(page, address(url, text="The cat sleeps."))
    page.evaluate(add, ["script", RARE])
    page.evaluate(add, ["style", f".none::before {{ content: '{RARE}'; }}"])
    expect(page.locator("#tv-letters")).to_have_count(0)
    page.evaluate(add, ["p", RARE])
    expect(page.locator("#tv-letters")).to_contain_text("U+31350")
