"""What all pages share, in a real browser: the link, the theme, narrow windows, keys, long work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import page_actions
from tests.support.browser import running_app, visit
from tests.support.page_actions import after, go, query
from tests.support.rest import rest
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_state import KEYS
from transformer_viz.core.interventions import BlockKeys, Intervention, Temperature

#: The address of each page by its name in the navigation.
PATHS = {page.title: page.path for page in PAGES}
#: What tells that a page without a footer stands.
STANDS = {
    "About": "text=Attention is not Explanation",
    "Checkpoint": '[data-what="finding-2"]',
    "Lessons": ".st-key-begin",
}
#: What belongs to a page with a footer alone.
MARKS = {
    "Explore": ".st-key-hide",
    "Step inside": ".st-key-inside [data-painted]",
    "Play": ".st-key-play .tv-play output",
    "Positions": ".st-key-reach",
    "Norms": ".st-key-statistic",
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
    "lab": "scale",
    "tried": "guess=1",
}
#: Keys that change the way itself (other names of pages, none to click, a page that is opened), and
#: one that belongs to the default search. test_languages.py, test_present.py and test_lessons.py
#: walk with them; tests/app/pages/test_play.py with the last one.
WAYS = ("lang", "present", "station", "branch")


@pytest.fixture(scope="module")
def stations(browser: Browser, url: str) -> dict[str, dict[str, str]]:
    """The link's keys at every station of a walk over all pages and back, with reloads."""
    found = {}
    with visit(browser) as page:
        go(page, page_actions.address(url, **KEPT))
        for name in (*list(PATHS)[1:], "Norms", "Play", "Explore"):
            page_actions.visit_page(page, name)
            expect(page).to_have_url(re.compile(f"^{url}/{PATHS[name]}\\?"))
            _arrived(page, name)
            found[f"{len(found)}: on {name}"] = query(page)
            go(page, page.url) if name not in STANDS else page.reload()
            _arrived(page, name)
            found[f"{len(found)}: reloaded there"] = query(page)
    return found


def _arrived(page: Page, name: str) -> None:
    if name in STANDS:
        expect(page.locator(STANDS[name]).first).to_be_visible()
        rest(page)
        return
    expect(page.locator(MARKS[name]).first).to_be_visible()
    page_actions.still(page)


def test_the_walk_moves_every_key(url: str) -> None:
    walked = [key for key in KEYS if key.name not in WAYS]
    assert list(KEPT) == [key.name for key in walked]
    assert all(key.read(KEPT[key.name]) != key.default for key in walked)


def test_each_page_has_a_sign_that_it_stands() -> None:
    assert {*STANDS} == {page.title for page in PAGES if not page.framed}
    assert {*MARKS} == {page.title for page in PAGES if page.framed}


@pytest.mark.parametrize("key", KEPT)
def test_each_key_survives_every_page_and_back(
    stations: dict[str, dict[str, str]], key: str
) -> None:
    assert {where: link.get(key) for where, link in stations.items()} == dict.fromkeys(
        stations, KEPT[key]
    )


def test_about_and_back_keeps_everything(page: Page, url: str) -> None:
    before = go(page, f"{url}/?layer=2&head=3&scope=block&words=on")
    page_actions.visit_page(page, "About")
    _arrived(page, "About")
    assert page.get_by_text("CC BY 2.0").count() == 1
    page_actions.visit_page(page, "Explore")
    page_actions.opened(page, "L2 H3")
    assert page_actions.differing(before, page_actions.still(page)) == set()
    assert query(page) == {"layer": "2", "head": "3", "scope": "block", "words": "on"}


@pytest.mark.parametrize("name", ["Explore", "Positions", "Norms"])
def test_another_theme_recolours_an_open_page(page: Page, url: str, name: str) -> None:
    """To dark and back, without a click: background, pictures, and the words in them."""
    light = go(page, page_actions.address(url, PATHS[name], edits=WARM.to_json()))
    names = [f"charts.{key}" for key in light["charts"]]

    def lightness() -> float:
        colour = page.get_by_test_id("stApp").evaluate("e => getComputedStyle(e).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    assert lightness() > 0.9
    _, dark = after(page, lambda p: p.emulate_media(color_scheme="dark"), *names)
    assert lightness() < 0.2
    _, again = after(page, lambda p: p.emulate_media(color_scheme="light"), *names)
    assert page_actions.differing(light, again) == set()
    assert dark["said"] == light["said"]


#: The contrast of an element's words with what they stand on (WCAG 2.2, relative luminance).
CONTRAST = """place => {
  const light = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map(one => one / 255)
      .map(one => one <= .04045 ? one / 12.92 : ((one + .055) / 1.055) ** 2.4);
    return .2126 * red + .7152 * green + .0722 * blue;
  };
  const {color, backgroundColor} = getComputedStyle(place);
  const [dark, bright] = [light(color), light(backgroundColor)].sort((a, b) => a - b);
  return (bright + .05) / (dark + .05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_words_of_the_first_button_can_be_read(page: Page, url: str, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(page_actions.address(url, "lessons"))
    first = page.locator(".st-key-begin button")
    expect(first).to_be_visible()
    page.wait_for_function(f"place => ({CONTRAST})(place) >= 4.5", arg=first.element_handle())


#: How far the page goes beyond the window, and what on it does: plotly's and the table's own
#: parts are cut off by their frames, and the input within a slider is never seen.
WIDE = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  const out = [...document.querySelectorAll('[data-testid="stMain"] *')].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.left < innerWidth && box.right > innerWidth + 1
      && !element.closest('.stPlotlyChart, [data-testid="stDataFrame"], svg, [type=range]');
  });
  return {
    document: document.documentElement.scrollWidth - innerWidth,
    main: main.scrollWidth - main.clientWidth,
    beyond: out.map(element => element.closest('[class*="st-key-"]')?.className ?? element.tagName),
  };
}"""


@pytest.fixture(scope="module")
def narrow(browser: Browser) -> Iterator[Page]:
    """One visit that opens every page: the second one has its scripts already."""
    with visit(browser) as page:
        yield page


@pytest.mark.parametrize("name", PATHS)
def test_nothing_is_wider_than_a_narrow_window(narrow: Page, url: str, name: str) -> None:
    """Opened at 800 pixels, and made narrower while it is open."""
    page = narrow
    page.set_viewport_size({"width": 800, "height": 1100})
    page.goto(page_actions.address(url, PATHS[name], edits=CHANGED.to_json()))
    for width in (800, 640):
        page.set_viewport_size({"width": width, "height": 1100})
        _arrived(page, name)
        found = page.evaluate(WIDE)
        assert found["document"] <= 0
        assert found["main"] <= 0
        assert found["beyond"] == []


# ---- the keyboard -------------------------------------------------------------------------------

#: Where the keyboard is, and how that place and what surrounds it look.
FOCUS = """() => {
  let place = document.activeElement;
  while (place?.shadowRoot?.activeElement) place = place.shadowRoot.activeElement;
  const around = [];
  for (let at = place; at && around.length < 6; at = at.parentElement ?? at.getRootNode().host) {
    around.push(at, ...at.children);
  }
  const seen = element => {
    const style = getComputedStyle(element);
    return [style.outlineStyle === 'none' ? '' : style.outline, style.boxShadow,
      style.borderColor, style.backgroundColor, style.textDecoration].join();
  };
  const before = window.lastFocus;
  window.lastFocus = around.map(element => [element, seen(element)]);
  return {
    name: place.getAttribute('aria-label') ?? place.labels?.[0]?.innerText ?? place.innerText,
    role: place.getAttribute('role') ?? place.tagName.toLowerCase(),
    thumb: (window.lastThumb = place.type === 'range' && place) !== false,
    left: before ? before.some(([element, style]) => seen(element) !== style) : null,
  };
}"""
#: Where the slider is whose thumb had the keyboard last: a thumb's style cannot be asked for.
THUMB = """() => {
  const {left, top, width, height} = window.lastThumb.getBoundingClientRect();
  return {x: left - 8, y: top - 8, width: width + 16, height: height + 16};
}"""
REACHED = {
    "Explore": """English sentence|Model|Target|The animal didn't cross the street because it was
        too tired.|The|Das|Encoder|One|Now|Every head|sort|gamma|threshold|as a table|layer|
        head|whole words|start and end marks|Map|Take it with you|Attention, cross L1 H7|row|
        column|everything|back to clean|cross: temperature 2.5|temperature|window|on|hide words|
        cut links of the chosen row|padding|instead of|attention weights are not""",
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
    for _ in range(90):
        thumb = _thumb(page) if walk and walk[-1]["thumb"] else None
        page.keyboard.press("Tab")
        if thumb is not None:
            walk[-1]["ring"] = _thumb(page) != thumb
        walk.append(page.evaluate(FOCUS))
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
    return page.screenshot(clip=page.evaluate(THUMB))


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
