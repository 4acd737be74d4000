"""What all pages share, in a real browser: the link, the theme, narrow windows, keys, long work."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import page_actions
from tests.support.browser import running_app, visit
from tests.support.page_actions import after, go, query
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_state import KEYS
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature

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
CHANGED = Intervention(
    (
        Temperature(value=2.5, stack="encoder", block="self", layer=0),
        BlockKeys(keys=(8,), stack="encoder", block="self"),
    )
)


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


#: Not reloaded here: a state comes back from its link on them in tests/app/pages/test_pages.py.
COME_BACK = ("Positions", "Norms")


@dataclass(frozen=True)
class Walk:
    """The link's keys at every station, and what stood on the first page before and afterwards."""

    links: dict[str, dict[str, str]]
    before: page_actions.Look
    after: page_actions.Look


@pytest.fixture(scope="module")
def walk(browser: Browser, url: str) -> Walk:
    """A walk over all pages and back."""
    links = {}
    with visit(browser) as page:
        before = go(page, page_actions.address(url, **KEPT))
        for name in (*list(PATHS)[1:], "Explore"):
            page_actions.visit_page(page, name)
            expect(page).to_have_url(re.compile(f"^{url}/{PATHS[name]}\\?"))
            _stands(page, name)
            links[f"on {name}"] = query(page)
            if name not in COME_BACK:
                page.reload()
                _stands(page, name)
                links[f"{name}, reloaded"] = query(page)
        return Walk(links, before, page_actions.still(page))


def _stands(page: Page, name: str) -> None:
    """Wait until a page is there and rests."""
    expect(page.locator((STANDS | MARKS)[name]).first).to_be_visible()
    rest(page)


def test_the_walk_moves_every_key(url: str) -> None:
    walked = [key for key in KEYS if key.name not in WAYS]
    assert list(KEPT) == [key.name for key in walked]
    assert all(key.read(KEPT[key.name]) != key.default for key in walked)


def test_each_page_has_a_sign_that_it_stands() -> None:
    assert {*STANDS} == {page.title for page in PAGES if not page.framed}
    assert {*MARKS} == {page.title for page in PAGES if page.framed}


@pytest.mark.parametrize("key", KEPT)
def test_each_key_survives_every_page_and_back(walk: Walk, key: str) -> None:
    assert {where: link.get(key) for where, link in walk.links.items()} == dict.fromkeys(
        walk.links, KEPT[key]
    )


def test_every_page_and_back_changes_nothing_else(walk: Walk) -> None:
    more = {where: link.keys() - KEPT.keys() for where, link in walk.links.items()}
    assert not any(more.values()), more
    assert page_actions.differing(walk.before, walk.after) == set()


# ---- narrow windows and the theme ---------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(browser: Browser) -> Iterator[Page]:
    """One visit that opens every page: the second one has its scripts already."""
    with visit(browser) as page:
        yield page


@pytest.mark.parametrize("name", PATHS)
def test_a_page_fits_a_narrow_window_and_follows_the_theme(
    narrow: Page, url: str, name: str
) -> None:
    """Opened at 800 pixels, dark and light again without a click, and made narrower while open."""
    page = narrow
    page.set_viewport_size({"width": 800, "height": 1100})
    page.emulate_media(color_scheme="light")
    page.goto(page_actions.address(url, PATHS[name], edits=CHANGED.to_json()))
    _stands(page, name)
    if name in RECOLOURED:
        _is_recoloured(page)
    if name == "Lessons":
        for scheme in SCHEMES:  # switched while the page is open
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(SCHEME, arg=scheme)
            _can_be_read(page, scheme)
    if name == "About":
        assert page.get_by_text("CC BY 2.0").count() == 2
    for width in (800, 640):
        page.set_viewport_size({"width": width, "height": 1100})
        rest(page)
        assert page.evaluate(script("too_wide")) == [], f"{name} at {width} pixels"


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark", "light")
#: Whether Streamlit has taken a theme.
SCHEME = """scheme => scheme === getComputedStyle(
    document.querySelector('[data-testid="stApp"]')).colorScheme"""
#: Pages with pictures of different makers: our own, plotly's, tables.
RECOLOURED = ("Explore", "Positions", "Norms")


def _is_recoloured(page: Page) -> None:
    """Background, pictures, and the words in them; all as before when it is light again."""
    light = page_actions.still(page)
    names = [f"charts.{key}" for key in light["charts"]]
    assert names and _lightness(page) > 0.9
    _, dark = after(page, lambda p: p.emulate_media(color_scheme="dark"), *names)
    assert _lightness(page) < 0.2
    _, again = after(page, lambda p: p.emulate_media(color_scheme="light"), *names)
    assert page_actions.differing(light, again) == set()
    assert dark["said"] == light["said"]


def _lightness(page: Page) -> float:
    colour = page.get_by_test_id("stApp").evaluate("e => getComputedStyle(e).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


def _can_be_read(page: Page, scheme: str) -> None:
    """The words of the first button stand out from it."""
    first = page.locator(".st-key-begin button")
    end = time.monotonic() + 10  # the colours change with a movement
    contrast = script("contrast")
    while (found := first.evaluate(contrast)) < 4.5:
        assert time.monotonic() < end, f"{scheme}: a contrast of {found:.2f}"
        page.wait_for_timeout(100)


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


@pytest.mark.parametrize("name", REACHED)
def test_the_tab_key_reaches_everything_and_shows_where_it_is(
    page: Page, url: str, name: str
) -> None:
    go(page, page_actions.address(url, PATHS[name], layer=1, head=7, edits=WARM.to_json()))
    page.add_style_tag(content="* { transition: none !important; }")  # look at once
    page.mouse.click(5, 500)  # beside everything
    walk: list[dict[str, Any]] = []
    focus = script("focus")
    for _ in range(90):
        thumb = _thumb(page) if walk and walk[-1]["thumb"] else None
        page.keyboard.press("Tab")
        if thumb is not None:
            walk[-1]["ring"] = _thumb(page) != thumb
        walk.append(page.evaluate(focus))
        if len(walk) > 5 and walk[-1]["name"].startswith("attention weights are not"):
            break
    unseen = [
        was["name"] for was, now in pairwise(walk) if not (now["left"] or was.get("ring", False))
    ]
    assert unseen == []
    names = [place["name"].strip() for place in walk]
    wanted = [word.strip() for word in re.sub(r"\s+", " ", REACHED[name]).split("|")]
    missing = [word for word in wanted if not any(n.startswith(word) for n in names)]
    assert missing == []


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
        assert page_actions.differing(stopped, page_actions.still(page)) == {"said.after"}
