"""A visit to Explore in a real browser: clicks, keys, and what stands on the screen afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import page_actions
from tests.support.browser import visit
from tests.support.first_run import SOURCE, TARGET, produced, source
from tests.support.page_actions import after, go, part, query

SENTENCE = "I would like a cup of coffee without sugar."
MAP, ATLAS = "charts.head-view", "charts.atlas"
STREET = source("street")


def test_the_whole_visit(page: Page, url: str) -> None:
    """Type, read, pick heads, change one, compare, and see the same on every page and reload."""
    _begins_with_a_decided_head(page, go(page, url))
    _, now = after(page, lambda p: page_actions.type_sentence(p, SENTENCE), "said.translation", MAP)
    assert "Kaffee" in now["said"]["translation"]
    assert [words[0] for words in now["chips"]].count("Kaffee") == 1

    page_actions.tile(page, 1, 5)
    page_actions.opened(page, "L1 H5")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page_actions.opened(page, "L2 H0")
    page_actions.tile(page, 1, 5)  # back again: a stale selection would swallow this click
    page_actions.opened(page, "L1 H5")
    clean = page_actions.still(page)
    assert query(page) | {"text": SENTENCE, "layer": "1", "head": "5"} == query(page)

    after(page, lambda p: page_actions.pick(p, "applies to", "everything"), "query")
    seen = (MAP, "edits", "tiles.L0 H0", "said.numbers", "chances", "said.after")
    _, warm = after(page, lambda p: page_actions.press(p, "temperature", "End"), *seen)
    assert warm["said"]["after"] != warm["said"]["before"] == clean["said"]["now"]
    assert page.locator('[data-what="after"] .tv-new').count() > 0
    assert "→" in warm["said"]["numbers"]
    _, difference = after(
        page, lambda p: page_actions.pick(p, "compare", "Difference"), MAP, "query"
    )

    for name, chart in (("Positions", "position-table"), ("Norms", "norm-map")):
        page_actions.visit_page(page, name)
        expect(page.locator(f".st-key-{chart} .heatmaplayer image").last).to_be_attached()
        there = page_actions.still(page)
        assert there["edits"] == warm["edits"]  # reloads of both: test_pages.py
    page_actions.visit_page(page, "Explore")
    page_actions.opened(page, "L1 H5")
    returned = page_actions.still(page)
    assert page_actions.differing(difference, returned) <= {
        "query.site"
    }  # it now knows a norm, too
    assert go(page, page.url) == returned

    page_actions.pick(page, "compare", "Now")
    after(page, lambda p: page_actions.click(p, "back to clean"), "query", MAP)
    assert "edits" not in query(page)
    page_actions.pick(page, "applies to", "this head")
    expect(page).to_have_url(re.compile("^((?!scope).)*$"))
    assert page_actions.differing(clean, page_actions.still(page)) <= {"query.site"}


def _begins_with_a_decided_head(page: Page, now: page_actions.Look) -> None:
    keys = query(page)
    page_actions.opened(page, f"L{keys['layer']} H{keys['head']}")
    entropy = re.search(r"entropy ([\d.]+)", now["said"]["numbers"])
    assert entropy is not None
    assert float(entropy.group(1)) < 1.5


@dataclass(frozen=True)
class Move:
    """A control that is moved: where, how, the edits it must write, and what must be seen."""

    name: str
    place: dict[str, Any]
    act: Callable[[Page], object]
    edits: list[dict[str, Any]]
    seen: tuple[str, ...] = (MAP, "said.numbers", "chances")


ENCODER = {"block": "encoder", "layer": 1, "head": 2, "token": 1}
DECODER = {"block": "decoder", "layer": 1, "head": 2, "scope": "block"}
ALL = {"block": "cross", "layer": 1, "head": 3, "scope": "everything"}
HEAD = {"stack": "encoder", "block": "self", "layer": 1, "head": 2}
CROSS = {"stack": "decoder", "block": "cross"}


def _scale(page: Page) -> None:
    page_actions.pick(page, "heads", "scale")
    page_actions.unfold(page, "factor")
    expect(page.get_by_role("spinbutton", name="factor")).to_be_enabled()
    page_actions.enter(page, "factor", "2")
    expect(page).to_have_url(re.compile("2.0"))


def _pad_and_look(page: Page) -> None:
    page_actions.enter(page, "padding", "3")
    page_actions.unfold(page, "masked")
    expect(page.get_by_role("switch", name="masked")).to_be_enabled()
    page_actions.still(page)
    page_actions.switch(page, "masked")
    expect(page).to_have_url(re.compile("false"))


MOVES = [
    Move(
        "hotter",
        ENCODER,
        lambda p: page_actions.press(p, "temperature", "End"),
        [{"kind": "temperature", "value": 5.0, **HEAD}],
    ),
    Move(
        "hard",
        ENCODER,
        lambda p: page_actions.press(p, "temperature", "Home"),
        [{"kind": "temperature", "value": 0.0, **HEAD}],
        (MAP, "said.numbers", "said.row", "chances"),
    ),
    Move(
        "causal mask on",
        ENCODER,
        lambda p: page_actions.pick(p, "causal mask", "on"),
        [{"kind": "causal", "on": True, **HEAD}],
        (MAP, "said.numbers", "said.row", "chances"),
    ),
    Move(
        "window",
        ENCODER,
        lambda p: page_actions.press(p, "window", "Home"),
        [{"kind": "window", "radius": 0, **HEAD}],
        (MAP, "said.numbers", "said.row", "chances"),
    ),
    Move(
        "hide a word",
        ENCODER,
        lambda p: page_actions.choose(p, "hide words", "street"),
        [{"kind": "block_keys", "keys": [STREET], **HEAD}],
        (MAP, "said.numbers", "chips"),
    ),
    Move(
        "cut a link",
        ENCODER,
        lambda p: page_actions.choose(p, "cut links of the chosen row", "animal"),
        [{"kind": "block_edges", "edges": [[1, 1]], **HEAD}],
        (MAP, "said.row"),
    ),
    Move("scale", ENCODER, _scale, [{"kind": "scale_head", "value": 2.0, **HEAD}], ("chances",)),
    Move(
        "uniform",
        ENCODER,
        lambda p: page_actions.pick(p, "heads", "uniform"),
        [{"kind": "uniform_head", **HEAD}],
        (MAP, "said.numbers", "said.row", "chances"),
    ),
    Move(
        "off",
        ENCODER,
        lambda p: page_actions.pick(p, "heads", "off"),
        [{"kind": "scale_head", "value": 0.0, **HEAD}],
        (MAP, "chances"),
    ),
    Move(
        "causal mask off",
        DECODER,
        lambda p: page_actions.pick(p, "causal mask", "off"),
        [{"kind": "causal", "on": False, "stack": "decoder", "block": "self"}],
    ),
    Move(
        "padding, masked",
        ALL,
        lambda p: page_actions.enter(p, "padding", "3"),
        [{"kind": "pad", "count": 3, "masked": True}],
        (MAP, "chips"),
    ),
    Move(
        "padding, looked at",
        ALL,
        _pad_and_look,
        [{"kind": "pad", "count": 3, "masked": False}],
        (MAP, "chips", "said.numbers", "chances"),
    ),
    Move(
        "hide a word everywhere",
        ALL,
        lambda p: page_actions.choose(p, "hide words", "street"),
        [
            {"kind": "block_keys", "keys": [STREET], "stack": "encoder", "block": "self"},
            {"kind": "block_keys", "keys": [STREET], **CROSS},
        ],
        (MAP, "chips", "said.numbers", "chances", "said.after"),
    ),
]


@pytest.fixture(scope="module")
def shared(browser: Browser) -> Iterator[Page]:
    """One visit for many short tests: each opens its own link in it."""
    with visit(browser) as page:
        yield page


#: A slider, a list and a choice; the app's tests without a browser write all of these edits.
CORE = ("hotter", "hide a word everywhere", "causal mask off")


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(move, id=move.name, marks=[] if move.name in CORE else pytest.mark.soak)
        for move in MOVES
    ],
)
def test_each_control_writes_its_edit_and_runs_the_model(
    shared: Page, url: str, move: Move
) -> None:
    go(shared, page_actions.address(url, **move.place))
    before, now = after(shared, move.act, "edits", "query", *move.seen)
    assert page_actions.edits(shared) == move.edits
    assert len(now["edits"]) == len(move.edits)
    assert now["said"]["before"] == before["said"]["now"]
    assert now["alerts"] == []
    if MAP in move.seen:
        after(shared, lambda p: page_actions.pick(p, "compare", "Difference"), MAP)


#: What a change of the opened encoder head's temperature must leave as it was, by its scope.
REACHED = {
    "this head": lambda layer, head: layer > 1 or (layer, head) == (1, 2),
    "this layer": lambda layer, head: layer >= 1,
    "this block": lambda layer, head: True,
    "everything": lambda layer, head: True,
}
OWN = {
    "this head": lambda layer, head: (layer, head) == (1, 2),
    "this layer": lambda layer, head: layer == 1,
    "this block": lambda layer, head: True,
    "everything": lambda layer, head: True,
}


@pytest.mark.parametrize("scope", REACHED)
def test_a_change_reaches_as_far_as_it_says(shared: Page, url: str, scope: str) -> None:
    """The tiles that repaint: the changed heads, and only what reads them."""
    go(shared, page_actions.address(url, **ENCODER, scope=scope.split()[-1]))
    choices = shared.get_by_role("radiogroup", name="applies to")
    expect(choices.get_by_role("radio", checked=True)).to_have_text(scope)
    before, now = after(shared, lambda p: page_actions.press(p, "temperature", "End"), "edits", MAP)
    kept = {"this head": 4, "this layer": 3, "this block": 2, "everything": 0}[scope]
    selectors = dict(list(HEAD.items())[:kept])
    assert page_actions.edits(shared) == [{"kind": "temperature", "value": 5.0, **selectors}]
    assert now["edits"][0].startswith(
        {"everything": "everything:"}.get(scope, now["edits"][0].partition(":")[0] + ":")
    )
    changed = {name for name in now["tiles"] if now["tiles"][name] != before["tiles"][name]}
    places = {name: tuple(map(int, re.findall(r"\d+", name))) for name in now["tiles"]}
    assert changed <= {name for name, place in places.items() if REACHED[scope](*place)}
    assert changed >= {name for name, place in places.items() if OWN[scope](*place)}
    if scope == "everything":
        decoder = part(now, "chances")
        assert decoder != part(before, "chances")


def test_undo_redo_and_taking_one_edit_away(shared: Page, url: str) -> None:
    clean = go(shared, page_actions.address(url, **ENCODER))
    _, one = after(shared, lambda p: page_actions.press(p, "temperature", "End"), "edits", MAP)
    _, two = after(
        shared, lambda p: page_actions.choose(p, "hide words", "street"), "edits", "chips"
    )
    for words, expected in (("↶ undo", one), ("↶ undo", clean), ("↷ redo", one), ("↷ redo", two)):
        _, now = after(shared, lambda p, words=words: page_actions.click(p, words), "query")
        assert page_actions.differing(expected, now) == set()
    _, left = after(shared, lambda p: p.locator(".st-key-chips button").first.click(), "edits")
    assert [edit["kind"] for edit in page_actions.edits(shared)] == ["block_keys"]
    assert left["edits"] == two["edits"][1:]
    _, now = after(shared, lambda p: page_actions.click(p, "↶ undo"), "edits")
    assert page_actions.differing(two, now) == set()


def _in_target(act: Callable[[Page], object]) -> Callable[[Page], None]:
    """Do something in the panel that the button Target opens."""

    def do(page: Page) -> None:
        panel = page.get_by_test_id("stPopoverBody")
        page_actions.click(page, "Target")
        expect(panel).to_be_visible()
        act(page)
        while panel.is_visible():  # a list that closes just now takes the first Escape for itself
            page.keyboard.press("Escape")
            page.wait_for_timeout(200)

    return do


def _type_target(page: Page) -> None:
    box = page.get_by_role("textbox", name="Hold these target words")
    box.fill("Der Hund schläft.")
    box.press("Enter")


#: Choices on Explore that change no model, one after the other: how each is made, the keys it
#: writes, and what is seen to follow.
CHOICES: list[tuple[Callable[[Page], object], dict[str, str], tuple[str, ...]]] = [
    (lambda p: page_actions.tile(p, 2, 6), {"layer": "2", "head": "6"}, (MAP, "said.numbers")),
    (lambda p: page_actions.choose(p, "layer", "L1"), {"layer": "1"}, (MAP, "said.numbers")),
    (lambda p: page_actions.choose(p, "head", "H2"), {"head": "2"}, (MAP, "said.numbers")),
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
    (lambda p: page_actions.chip(p, "source", 8).click(), {}, (MAP, "said.row", "chips", "query")),
    (
        lambda p: page_actions.choose(p, "instead of", "Tier"),
        {"answer": str(produced("Tier"))},
        ("chances",),
    ),
    (lambda p: page_actions.switch(p, "whole words"), {"words": "on"}, (MAP,)),
    (lambda p: page_actions.switch(p, "start and end marks"), {"special": "off"}, (MAP,)),
    (
        lambda p: page_actions.pick(p, "block", "Encoder"),
        {"block": "encoder"},
        (MAP, "tiles.L0 H0"),
    ),
    (_in_target(lambda p: page_actions.choose(p, "Beam", "1")), {"beam": "1"}, ("query",)),
    (
        _in_target(_type_target),
        {"target": "Der Hund schläft."},
        ("said.translation", "said.held", "chips", "chances"),
    ),
    (
        lambda p: page_actions.click(p, SENTENCE),
        {"text": SENTENCE},
        ("said.translation", MAP, "chips"),
    ),
    (
        lambda p: page_actions.choose(p, "Model", "en-de-small"),
        {"model": "en-de-small"},
        (MAP, "chances"),
    ),
]


def test_every_choice_is_seen_and_kept_in_the_link(page: Page, url: str) -> None:
    go(page, page_actions.address(url, layer=1, head=7, token=1))
    for act, keys, seen in CHOICES:
        _, now = after(page, act, "query", *seen)
        assert query(page) | keys == query(page)
        assert now["alerts"] == []
    assert page_actions.differing(now, go(page, page.url)) == set()


def test_pointing_at_a_cell_names_both_words_and_the_weight(page: Page, url: str) -> None:
    go(page, f"{url}/?block=decoder")
    tip = page.locator(".st-key-head-view .tip")
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 0, 0)))
    expect(tip).to_have_text(re.compile(r"→ “?<s>”?.*1\.0000"))
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 0, len(TARGET) - 1)))
    expect(tip).to_contain_text("masked")


def test_back_undoes_the_last_choice(page: Page, url: str) -> None:
    go(page, f"{url}/?layer=2&head=3")
    page_actions.tile(page, 1, 2)
    page_actions.opened(page, "L1 H2")
    page.go_back()
    page_actions.opened(page, "L2 H3")


def test_pointing_at_a_chip_lights_it_in_the_pictures_and_back(page: Page, url: str) -> None:
    go(page, f"{url}/?block=encoder&layer=1&head=2")
    lights = [
        page_actions.overlay(page, ".st-key-atlas"),
        page_actions.overlay(page, ".st-key-head-view"),
    ]
    page_actions.chip(page, "source", 8).hover()
    page.wait_for_timeout(300)
    lit = [
        page_actions.overlay(page, ".st-key-atlas"),
        page_actions.overlay(page, ".st-key-head-view"),
    ]
    assert all(now != before for now, before in zip(lit, lights, strict=True))
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    dark = [
        page_actions.overlay(page, ".st-key-atlas"),
        page_actions.overlay(page, ".st-key-head-view"),
    ]
    assert dark == lights
    page.mouse.move(*page_actions.middle(page_actions.cell(page, 5, 3)))
    chips = page.get_by_role("toolbar", name="source").locator(".lit")
    expect(chips).to_have_text([SOURCE[3], SOURCE[5]])  # column 3, row 5
