"""What all pages share, in Chromium: keys of the link, widths, themes, the Tab key, long work."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import page_actions
from tests.support.browser import running_app, visit
from tests.support.page_actions import differing, follows_theme, go, query
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_state import KEYS
from transformer_viz.core.interventions import Intervention, Temperature

#: The address of each page by its name in the navigation.
PATHS = {page.title: page.path for page in PAGES}
#: What tells that a page without a footer stands.
STANDS = {
    "About": "text=Attention is not Explanation",
    "Checkpoint": '[data-what="finding-2"]',
    "Corpus": ".st-key-card-atlas",
    "Lessons": ".st-key-begin",
}
#: What belongs to a page with a footer alone.
MARKS = {
    "Explore": ".st-key-more",
    "Step inside": ".st-key-inside [data-painted]",
    "Play": ".st-key-play .tv-play output",
    "Positions": ".st-key-reach",
    "Norms": ".st-key-statistic",
    "Heads": ".st-key-removal",
    "Why this word?": '[data-what="why-word"]',
    "Swap": ".st-key-swapped",
    "Compare": ".st-key-versus",
    "Align": ".st-key-aligned_row",
    "Labs": ".st-key-lab",
}
MAP = "charts.head-view"
WARM = Intervention((Temperature(value=2.5, stack="decoder", block="cross"),))
# ---- what every page keeps ----------------------------------------------------------------------

#: Every key of the link at a value that is not its default, all at once.
KEPT: dict[str, Any] = {
    "model": "en-de-small",
    "text": "The cat sat on the mat because it was tired.",
    "target": "Die Katze saß auf der Matte.",
    "beam": "2",
    "edits": WARM.to_json(),
    "block": "encoder",
    "layer": "1",
    "head": "2",
    "token": "3",
    "compare": "difference",
    "words": "on",
    "special": "off",
    "scope": "layer",
    "answer": "2",
    "stack": "decoder",
    "place": "2",
    "shift": "2",
    "pair": "3",
    "word": "4",
    "site": "decoder.layers.1.cross_norm",
    "statistic": "rms",
    "reach": "decoder",
    "order": "1",
    "second": "A dog sat there too.",
    "masked": "1,3",
    "picture": "seven",
    "seed": "5",
    "over": "gradients",
    "chosen": "4",
    "checkpoint": "en-de-small",
    "view": "lines",
    "key": "4",
    "blocks": "all",
    "sort": "entropy",
    "scale": "common",
    "ramp": "viridis",
    "gamma": "0.5",
    "threshold": "0.1",
    "top": "3",
    "overlay": "0.1,1.3",
    "zoom": "1-4,2-6",
    "predicted": "1.0,2.3",
    "step": "3",
    "number": "norm.self/out/3",
    "search": "sample",
    "drawing": "0.7",
    "played": "3",
    "pooled": "off",
    "heads_on": "sentence",
    "heads_by": "previous",
    "removal": "zero",
    "aligned": "1.2",
    "aligned_row": "in",
    "gold": "0-0 1-1 2p2",
    "gold_from_one": "on",
    "other": "The dog sat on the mat because it was tired.",
    "between": "sie, er",
    "swapped": "stream",
    "corpus": "path:runs/atlas",
    "corpus_by": "entropy",
    "versus": "step",
    "weighed": "content",
    "opposite": "match",
    "beside": "en-de",
    "moments": "256,4096",
    "seen": "cross.1.3",
    "lab": "scale",
    "tried": "guess=1",
}
#: Keys that change the way itself (other names of pages, none to click, a page that is opened), and
#: one that belongs to the default search. test_languages.py, test_present.py and test_lessons.py
#: walk with them; tests/app/pages/test_step_inside_play.py with the last one.
WAYS = ("lang", "present", "station", "branch")


#: Pages on which controls stand where they stand on Explore.
DOCKED = ("Step inside", "Play", "Positions", "Norms")
#: Pages with pictures of plotly's and tables, looked at in both themes.
RECOLOURED = ("Positions", "Norms")
WIDTHS, TALL = (1440, 640, 800), 1100
#: Whether Streamlit has taken a theme.
SCHEME = """scheme => scheme === getComputedStyle(
    document.querySelector('[data-testid="stApp"]')).colorScheme"""


def test_keys_widths_and_themes_on_every_page_and_back(page: Page, url: str) -> None:
    """Walk by the navigation: every key survives, nothing is too wide, themes are followed."""
    walked = [key for key in KEYS if key.name not in WAYS]
    assert list(KEPT) == [key.name for key in walked], "the walk moves every key"
    assert all(key.read(KEPT[key.name]) != key.default for key in walked)
    assert {*STANDS} == {one.title for one in PAGES if not one.framed}
    assert {*MARKS} == {one.title for one in PAGES if one.framed}

    before = go(page, page_actions.address(url, **KEPT))
    places, lost = _docked(page), []
    wide: list[tuple[str, int, list[str]]] = []
    widths = WIDTHS
    for name in (*list(PATHS)[1:], "Explore"):
        page_actions.visit_page(page, name)
        expect(page).to_have_url(re.compile(f"^{url}/{PATHS[name]}\\?"))
        _stands(page, name)
        for width in widths:
            page.set_viewport_size({"width": width, "height": TALL})
            rest(page, still=100)
            if found := page.evaluate(script("too_wide")):
                wide.append((name, width, found))
            if name in DOCKED and width == WIDTHS[0]:
                assert _docked(page) == places, name
        widths = widths[::-1]  # the next page opens as wide as this one was at last
        if name in RECOLOURED:  # the map of a difference that is nothing: test_layout.py
            follows_theme(page, apart=MAP)
        if name == "Lessons":
            _can_be_read_dark(page)
        if name == "About":
            assert page.get_by_text("CC BY 2.0").count() == 2
        if query(page) != KEPT:
            lost += [(name, key) for key, _ in query(page).items() ^ KEPT.items()]
        if name == "Norms":  # reloads of the other pages: tests/app/pages/test_pages.py
            page.reload()
            _stands(page, name)
            assert query(page) == KEPT
    assert not lost and not wide
    page.set_viewport_size({"width": WIDTHS[0], "height": TALL})
    assert differing(before, page_actions.still(page)) == set(), "Explore is as it was"


def _docked(page: Page) -> list[Any]:
    """Where the controls stand in the window."""
    keys = ("scope", "temperature", "window", "more")
    return [page.locator(f".st-key-{key}").bounding_box() for key in keys]


def _stands(page: Page, name: str) -> None:
    """Wait until a page is there and rests."""
    expect(page.locator((STANDS | MARKS)[name]).first).to_be_visible()
    rest(page)


def _can_be_read_dark(page: Page) -> None:
    """The words of the first button stand out from it in both themes, switched while open."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_function(SCHEME, arg=scheme)
        contrast = f"button => ({script('contrast')})(button) >= 4.5"
        first = page.locator(".st-key-begin button").element_handle()
        page.wait_for_function(
            contrast, arg=first, timeout=10_000
        )  # colours change with a movement


# ---- the keyboard -------------------------------------------------------------------------------

REACHED = {
    "Explore": """English sentence|Model|Target|The animal didn't cross the street because it was
        too tired.|The|Das|Encoder|One|Now|Every head|sort|gamma|threshold|as a table|layer|
        head|whole words|start and end marks|Map|Take it with you|Attention, cross L1 H7|row|
        column|instead of|everything|temperature|window|on|more|cross: temperature 2.5|
        back to clean|
        attention weights are not""",
    "Positions": """English sentence|Source|pair of dimensions|position|k: how many words further|
        both sentences|scale|drop|shuffle|back to clean|Encoder|layer|another order""",
    "Norms": "English sentence|Source|Now|number|norm|word|back to clean|CSV",
}


@pytest.mark.parametrize(
    "names", [("Explore", "Norms"), pytest.param(("Positions",), marks=pytest.mark.soak)]
)
def test_the_tab_key_reaches_everything_and_shows_where_it_is(
    page: Page, url: str, names: tuple[str, ...]
) -> None:
    for name in names:
        go(page, page_actions.address(url, PATHS[name], layer=1, head=7, edits=WARM.to_json()))
        walk = _walk_by_tab(page)
        unseen = [was["name"] for was, now in pairwise(walk) if not now["left"] and not was["ring"]]
        assert unseen == [], name
        found = [place["name"].strip() for place in walk]
        wanted = [word.strip() for word in re.sub(r"\s+", " ", REACHED[name]).split("|")]
        assert [w for w in wanted if not any(n.startswith(w) for n in found)] == [], name


def _walk_by_tab(page: Page) -> list[dict[str, Any]]:
    """Press Tab until the page ends; what has the focus each time, and whether a ring is seen."""
    page.add_style_tag(content="* { transition: none !important; }")  # look at once
    page.mouse.click(5, 500)  # beside everything
    walk: list[dict[str, Any]] = []
    for _ in range(90):
        thumb = _thumb(page) if walk and walk[-1]["thumb"] else None
        page.keyboard.press("Tab")
        if thumb is not None:
            walk[-1]["ring"] = _thumb(page) != thumb
        walk.append({"ring": False} | page.evaluate(script("focus")))
        if len(walk) > 5 and walk[-1]["name"].startswith("attention weights are not"):
            break
    return walk


def _thumb(page: Page) -> bytes:
    return page.screenshot(clip=page.evaluate(script("thumb")))


# ---- long work ----------------------------------------------------------------------------------


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """While this file stands, a free translation does not end: slow work on any machine."""
    file = tmp_path / "hold"
    file.touch()
    monkeypatch.setenv("HELD_BY", str(file))
    return file


@pytest.mark.soak  # held without a browser by tests/app/ui/test_progress.py
def test_long_work_makes_way_and_can_be_stopped_and_gone_on_with(
    browser: Browser, hold: Path
) -> None:
    with running_app("tests/support/held_app.py") as url, visit(browser) as page:
        page.goto(
            page_actions.address(
                url, text="The man saw a house.", block="cross", edits=WARM.to_json()
            )
        )
        waits = page.get_by_text("Translating freely ...")
        expect(waits).to_be_visible()
        before = page_actions.look(page)
        assert before["edits"]  # the rest of the page stands meanwhile
        assert before["said"]["after"] == "…"
        page_actions.pick(page, "block", "Encoder")
        page_actions.changed(
            page, before, MAP, "tiles.L0 H0", "said.numbers"
        )  # the newest wish is served
        expect(waits).to_be_visible()
        page_actions.click(page, "stop")
        expect(page.get_by_text("Stopped.", exact=True)).to_be_visible()
        stopped = page_actions.still(page)
        assert stopped["said"]["after"] == "stopped"
        page_actions.click(page, "go on")
        expect(waits).to_be_visible()
        hold.unlink()
        expect(page.locator('[data-what="after"]')).to_contain_text("Mann")
        assert differing(stopped, page_actions.still(page)) == {"said.after"}
