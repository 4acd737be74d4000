"""Chinese in a real browser: what pictures, controls and screen readers say, and English again."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.page_actions import address, go, look
from tests.support.scripts import script

WORDS = re.compile(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}")  # three words of English in a row


def english(page: Page) -> list[str]:
    """The texts inside of our pictures that are English sentences."""
    return [text for text in page.evaluate(script("picture_texts")) if WORDS.search(text)]


def language(page: Page) -> str:
    """What the page says its language is, to screen readers and to the browser's hyphens."""
    found: str = page.evaluate("document.documentElement.lang")
    return found


def test_pictures_speak_chinese_in_every_view_and_english_again(page: Page, url: str) -> None:
    for view in ("map", "lines", "qk"):
        go(page, address(url, lang="zh", view=view))
        assert language(page) == "zh" and english(page) == [], view
    inside = page.evaluate(script("picture_texts"))
    assert {"阈值", "排序", "温度", "窗口", "分数", "权重"} <= set(inside)
    page_actions.pick(page, "语言", "English")
    expect(page.get_by_text("Which words does each head look at?")).to_be_visible()
    page_actions.still(page)
    inside = page.evaluate(script("picture_texts"))
    assert {"threshold", "sort", "temperature", "window", "score", "weight"} <= set(inside)
    assert language(page) == "en" and not re.search(r"[\u4e00-\u9fff]", " ".join(inside))
    page_actions.pick(page, "Language", "中文")
    expect(page.get_by_text("每个头看向哪些词？")).to_be_visible()
    page_actions.still(page)
    assert language(page) == "zh" and english(page) == []


def test_a_slider_is_dragged_in_chinese(page: Page, url: str) -> None:
    before = go(page, address(url, lang="zh", layer=1, head=3, block="cross"))
    page_actions.press(page, "温度", "ArrowRight", 3)
    page_actions.changed(page, before, "charts.head-view")
    page_actions.still(page)
    assert english(page) == [] and page_actions.edits(page)[0]["kind"] == "temperature"
    expect(page.get_by_role("button", name="交叉 L1 H3：温度 1.4 ✕")).to_be_visible()
    assert look(page)["said"]["after"]


def test_pages_without_pictures_say_whose_language_they_speak(page: Page, url: str) -> None:
    for name, heading in (("about", "注意力权重不是解释"), ("checkpoint", "哪个模型？")):
        page.goto(address(url, name, lang="zh"))
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        expect(page.locator("html")).to_have_attribute("lang", "zh")
