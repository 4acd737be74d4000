"""Explore in Chromium: one visit that reads, points, chooses, changes, undoes and steps back."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.support import page_actions
from tests.support.first_run import SOURCE, TARGET, produced, source
from tests.support.page_actions import after, differing, go, pick, press, query, still

SENTENCE = "I would like a cup of coffee without sugar."
MAP, ATLAS = "charts.head-view", "charts.atlas"
STREET = source("street")
HEAD = {"stack": "encoder", "block": "self", "layer": 1, "head": 2}
CROSS = {"stack": "decoder", "block": "cross"}


#: Choices that change no model: how each is made, its keys in the link, what must change.
CHOICES: list[tuple[Callable[[Page], object], dict[str, str], tuple[str, ...]]] = [
    (lambda p: page_actions.tile(p, 2, 6), {"layer": "2", "head": "6"}, (MAP, "said.numbers")),
    (
        lambda p: page_actions.choose(p, "row", "Straße"),
        {"token": str(produced("Straße"))},
        (MAP, "said.row", "chips"),
    ),
    (lambda p: page_actions.click_cell(p, 2, 8), {"token": "2", "key": "8"}, (MAP, "said.row")),
    (
        lambda p: page_actions.chip(p, "target", 13).click(),
        {"token": "12"},
        (MAP, "said.row", "chips"),
    ),
    (lambda p: page_actions.chip(p, "source", 8).click(), {}, (MAP, "said.row", "chips")),
    (lambda p: pick(p, "block", "Encoder"), {"block": "encoder"}, (MAP, "tiles.L0 H0")),
]


def test_explore_by_hand(page: Page, url: str) -> None:
    now = go(page, url)
    entropy = re.search(r"entropy ([\d.]+)", now["said"]["numbers"])
    page_actions.opened(page, "L{layer} H{head}".format(**query(page)))
    assert entropy is not None and float(entropy[1]) < 1.5, "the first head is a decided one"

    _, now = after(page, lambda p: pick(p, "block", "Decoder"), "query", MAP)
    tip = page.locator(".st-key-head-view .tip")
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 0, 0)))
    expect(tip).to_have_text(re.compile(r"→ “?<s>”?.*1\.0000"))
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 0, len(TARGET) - 1)))
    expect(tip).to_contain_text("masked")
    after(page, lambda p: pick(p, "block", "Cross"), "query", MAP)

    for act, keys, seen in CHOICES:
        _, now = after(page, act, "query", *seen)
        assert query(page) | keys == query(page), keys
        assert now["alerts"] == [], keys
    assert differing(now, go(page, page.url)) == set(), "the link brings back every choice"
    _light(page)
    page_actions.tile(page, 1, 2)
    page_actions.opened(page, "L1 H2")
    page.locator(".st-key-atlas .tv-frame").focus()
    for key in ("ArrowDown", "Home", "Enter"):
        page.keyboard.press(key)
    page_actions.opened(page, "L2 H0")
    page.go_back()
    page_actions.opened(page, "L1 H2")
    _change_and_undo(page)
    _, now = after(page, lambda p: page_actions.type_sentence(p, SENTENCE), "said.translation", MAP)
    assert "Kaffee" in now["said"]["translation"] and now["alerts"] == []
    assert [words[0] for words in now["chips"]].count("Kaffee") == 1


def _light(page: Page) -> None:
    """Point at a chip and at a cell of the encoder's map: the other pictures light the words."""
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    lights = [page_actions.overlay(page, f".st-key-{key}") for key in ("atlas", "head-view")]
    page_actions.chip(page, "source", 8).hover()
    page.wait_for_timeout(300)
    lit = [page_actions.overlay(page, f".st-key-{key}") for key in ("atlas", "head-view")]
    assert all(now != before for now, before in zip(lit, lights, strict=True)), "lit by a chip"
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    dark = [page_actions.overlay(page, f".st-key-{key}") for key in ("atlas", "head-view")]
    assert dark == lights, "dark again"
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 5, 3)))
    chips = page.get_by_role("toolbar", name="source").locator(".lit")
    expect(chips).to_have_text([SOURCE[3], SOURCE[5]])  # column 3, row 5


def _change_and_undo(page: Page) -> None:
    """A slider and a list write their edits; undo, redo and a click on an edit take them back."""
    clean = still(page)
    seen = ("edits", MAP, "tiles.L1 H2", "said.numbers", "chances")
    _, one = after(page, lambda p: press(p, "temperature", "End"), *seen)
    assert page_actions.edits(page) == [{"kind": "temperature", "value": 5.0, **HEAD}]
    assert one["said"]["before"] == clean["said"]["now"] and "→" in one["said"]["numbers"]
    changed = {name for name in one["tiles"] if one["tiles"][name] != clean["tiles"][name]}
    assert "L1 H2" in changed and all(int(name[1]) > 1 for name in changed - {"L1 H2"}), changed
    hide = lambda p: page_actions.choose(p, "hide words", "street")  # noqa: E731
    _, two = after(page, hide, "edits", "chips")
    assert page_actions.edits(page)[1] == {"kind": "block_keys", "keys": [STREET], **HEAD}
    for words, expected in (("↶ undo", one), ("↶ undo", clean), ("↷ redo", one), ("↷ redo", two)):
        _, now = after(page, lambda p, words=words: page_actions.click(p, words), "query")
        assert differing(expected, now) == set(), words
    _, left = after(page, lambda p: p.locator(".st-key-chips button").first.click(), "edits")
    assert [edit["kind"] for edit in page_actions.edits(page)] == ["block_keys"]
    assert left["edits"] == two["edits"][1:]
    _, now = after(page, lambda p: page_actions.click(p, "↶ undo"), "edits")
    assert differing(two, now) == set(), "an edit that was clicked away comes back"
    after(page, lambda p: pick(p, "compare", "Difference"), MAP, "query")
    pick(page, "compare", "Now")
    after(page, lambda p: page_actions.click(p, "back to clean"), "query", MAP)
    assert "edits" not in query(page)
