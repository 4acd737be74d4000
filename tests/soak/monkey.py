"""A monkey: random clicks, keys, words and links on every page of the app; nothing may break.

Some of what it does is waited for, some is not: the next action then meets a page that still works.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page

from benchmarks.memory import Diary
from tests.support.browser import watched
from tests.support.rest import rest
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_state import DEFAULTS
from transformer_viz.core.interventions import Intervention, Pad, Temperature

KEYS = ("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End", "PageUp")
TEXTS = (
    "The cat sat on the mat.",
    "I would like a cup of coffee without sugar.",
    "",
    "word " * 200,
    "🙂 مرحبا <b>x</b> $y$ `z`",
    "Why?",
)
NUMBERS = ("0", "1", "3", "20", "-4", "7.5", "999999", "")
EDITS = (
    Intervention((Temperature(value=0.0),)).to_json(),
    Intervention((Temperature(value=2.0, layer=77),)).to_json(),
    Intervention((Pad(count=5, masked=False),)).to_json(),
    Intervention((Pad(count=9000),)).to_json(),
    '{"edits":[{"kind":"temperature","value":1e999}]}',
    '{"edits":[{"kind":"block_keys","keys":[0,99999]}]}',
    '{"edits":[{"kind":"shuffle_positions","seed":-1}]}',
    "{" * 500,
    "z.AAAA",
    "z.eJyrVkpNySwpVrKKjq0FACf4BVQ",
    '"><script>alert(1)</script>',
    "null",
)
VALUES = (
    *("0", "2", "99", "-1", "x", "on", "off", "both", "cross", "encoder", "é" * 300, ""),
    *("zh", "sample", "search", "0.1", "norm.self/out/3", "sqrt", "guess=1"),
)
NAMES = (*(name for name in DEFAULTS if name != "edits"), "other")
#: What explains something: several words and a full stop, or a sentence in Chinese.
SENTENCE = re.compile(r".* .*\.|.{6,}。", re.DOTALL)
PATIENT = 0.7  # of all actions so many are waited for
PATIENCE = 20_000  # milliseconds of work after which it stops what can be stopped
STOPS = 4  # times: the same work may be wanted by several parts of a page
LONGEST = 300  # seconds after its time in which it must have done the least that is asked
REACH = 5000  # milliseconds after which the monkey gives up a place that it cannot reach


@dataclass
class Found:
    """What the monkey did, and what broke: the errors with the last actions before them."""

    done: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


def play(
    page: Page,
    url: str,
    seconds: float,
    seed: int = 1,
    diary: Diary | None = None,
    least: int = 0,
) -> Found:
    """Let it play for some seconds; a seed repeats what it chooses.

    Args:
        page: where.
        url: of the app.
        seconds: for which it plays.
        seed: of what it chooses.
        diary: looks at the memory now and then.
        least: actions it does however long they take; a long text may need most of a short time.
    """
    found, draw, recent = Found(), random.Random(seed), list[str]()
    errors = watched(page)
    page.goto(url)
    rest(page)
    end = time.monotonic() + seconds
    names = [name for name, times, _ in ACTIONS for _ in range(times)]
    acts = {name: act for name, _, act in ACTIONS}
    while len(found.broken) < 20 and (
        time.monotonic() < end or (found.done.total() < least and time.monotonic() < end + LONGEST)
    ):
        name = draw.choice(names)
        try:
            if not acts[name](page, draw, url):
                continue
        except PlaywrightError:  # the place went away while the monkey reached for it
            continue
        recent = [*recent[-5:], name]
        found.done[name] += 1
        if draw.random() < PATIENT:
            found.broken += [f"{what} after {recent}" for what in _answer(page, found, errors)]
            if diary is not None:
                diary.look(page)
    found.broken += [f"{what} at the end" for what in _answer(page, found, errors)]
    return found


def _answer(page: Page, found: Found, errors: list[str]) -> list[str]:
    """Wait for the page, and give what is wrong with it since the last time.

    Long work (hundreds of words to translate) offers to be stopped: then the monkey stops it.
    """
    began = time.monotonic()
    try:
        rest(page, patience=PATIENCE)
    except PlaywrightError:
        if not _settles(page):
            return [f"no rest at {page.url}"]
    found.waits.append(time.monotonic() - began)
    heard = errors.copy()
    errors.clear()
    return [*complaints(page), *heard]


def _settles(page: Page) -> bool:
    """Whether the page rests once all that can be stopped was stopped."""
    try:
        stops = page.locator('[class*="st-key-stop-"] button:visible')
        for _ in range(STOPS):
            try:
                if stops.count():
                    stops.first.click(timeout=REACH)
                rest(page, patience=PATIENCE)
                return True
            except PlaywrightError:
                continue
        rest(page)
    except PlaywrightError:
        return False
    return True


def complaints(page: Page) -> list[str]:
    """Tracebacks and broken places on the screen; a sentence that explains is none."""
    alerts = [text.strip() for text in page.get_by_test_id("stAlert").all_inner_texts()]
    explained = [text for text in alerts if SENTENCE.fullmatch(text)]
    slips = ("did not work", "session_state")
    unexplained = [t for t in alerts if t not in explained or any(slip in t for slip in slips)]
    texts = [*page.get_by_test_id("stException").all_inner_texts(), *unexplained]
    return [f"{text.strip()[:300]} at {page.url}" for text in texts]


def some(found: Locator, draw: random.Random) -> Locator | None:
    """One of the visible and enabled elements, if there is one."""
    able = [place for place in found.all() if place.is_visible() and place.is_enabled()]
    return draw.choice(able) if able else None


Action = Callable[[Page, random.Random, str], bool]


def press_slider(page: Page, draw: random.Random, url: str) -> bool:
    slider = some(page.get_by_role("slider"), draw)
    if slider is None:
        return False
    slider.focus(timeout=REACH)
    for _ in range(draw.randint(1, 6)):
        page.keyboard.press(draw.choice(KEYS))
    return True


def click(query: str) -> Action:
    """A click on one of the places of a kind, wherever it is on the page."""

    def act(page: Page, draw: random.Random, url: str) -> bool:
        place = some(page.get_by_test_id("stMain").locator(query), draw)
        if place is None:
            return False
        place.click(timeout=REACH, force=True)
        page.keyboard.press("Escape")
        return True

    return act


def walk(page: Page, draw: random.Random, url: str) -> bool:
    """Tab and arrow keys from wherever the focus is, and Enter at the end."""
    for _ in range(draw.randint(1, 8)):
        page.keyboard.press(draw.choice((*KEYS, "Tab", "Tab", "Shift+Tab", "Space")))
    page.keyboard.press(draw.choice(("Enter", "Space", "Escape")))
    return True


def reached(place: Locator) -> dict[str, float] | None:
    """Where an element stands once it was scrolled to; None where it is nowhere."""
    place.scroll_into_view_if_needed(timeout=REACH)
    box = place.bounding_box()
    return None if box is None else dict(box)


def click_picture(page: Page, draw: random.Random, url: str) -> bool:
    place = some(page.locator(".nsewdrag"), draw)
    if place is None:
        return False
    box = reached(place)
    if box is None:
        return False
    across, down = draw.random(), draw.random()
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
    return True


def click_canvas(page: Page, draw: random.Random, url: str) -> bool:
    """A place in one of our own pictures; sometimes dragged from there, with Shift or the wheel."""
    place = some(page.locator("[data-painted] canvas"), draw)
    if place is None:
        return False
    box = reached(place)
    if box is None:
        return False
    across, down = (draw.random(), draw.random()), (draw.random(), draw.random())
    (x, y), (to_x, to_y) = (
        (box["x"] + box["width"] * a, box["y"] + box["height"] * b)
        for a, b in zip(across, down, strict=True)
    )
    key = draw.choice(("", "", "Shift", "Control"))
    if key:
        page.keyboard.down(key)
    page.mouse.move(x, y)
    page.mouse.down()
    if draw.random() < 0.3:
        page.mouse.move(to_x, to_y, steps=4)
    page.mouse.up()
    if draw.random() < 0.3:
        page.mouse.wheel(0, draw.choice((-200, 200)))
    if key:
        page.keyboard.up(key)
    return True


def drag_slider(page: Page, draw: random.Random, url: str) -> bool:
    """A slider of ours pulled to and fro, so that frames are asked for faster than they come."""
    slider = some(page.locator('[data-painted] input[type="range"]'), draw)
    if slider is None:
        return False
    box = reached(slider)
    if box is None:
        return False
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * draw.random(), middle)
    page.mouse.down()
    for _ in range(draw.randint(1, 4)):
        page.mouse.move(box["x"] + box["width"] * draw.random(), middle, steps=draw.randint(1, 12))
    page.mouse.up()
    return True


def pick_select(page: Page, draw: random.Random, url: str) -> bool:
    """An entry of one of the plain lists in our pictures: order, scale, colour map."""
    place = some(page.locator("[data-painted] select"), draw)
    if place is None:
        return False
    place.select_option(index=draw.randrange(place.locator("option").count()), timeout=REACH)
    return True


def type_text(page: Page, draw: random.Random, url: str) -> bool:
    box = page.get_by_role("textbox").first
    box.fill(draw.choice(TEXTS), timeout=REACH)
    box.press("Enter")
    return True


def type_target(page: Page, draw: random.Random, url: str) -> bool:
    page.get_by_role("button", name="Target").click(timeout=REACH)
    box = page.get_by_label("Hold these target words")
    box.fill(draw.choice(("", "Der Hund.", *TEXTS)), timeout=REACH)
    box.press("Enter")
    page.keyboard.press("Escape")
    return True


def type_number(page: Page, draw: random.Random, url: str) -> bool:
    box = some(page.get_by_role("spinbutton"), draw)
    if box is None:
        return False
    box.fill(draw.choice(NUMBERS), timeout=REACH)
    box.press("Enter")
    return True


def choose(page: Page, draw: random.Random, url: str) -> bool:
    box = some(page.get_by_role("combobox"), draw)
    if box is None:
        return False
    box.focus(timeout=REACH)
    box.press("ArrowDown")
    option = some(page.get_by_role("option"), draw)
    if option is not None:
        option.click(timeout=REACH)
    page.keyboard.press("Escape")
    return True


def open_link(page: Page, draw: random.Random, url: str) -> bool:
    """Any page with some keys that say anything, and edits of any kind."""
    words = {draw.choice(NAMES): draw.choice(VALUES) for _ in range(draw.randint(0, 4))}
    if draw.random() < 0.6:
        words["edits"] = draw.choice(EDITS)
    page.goto(f"{url}/{draw.choice(PAGES).path}?{urlencode(words)}")
    return True


def reload(page: Page, draw: random.Random, url: str) -> bool:
    page.reload()
    return True


def back(page: Page, draw: random.Random, url: str) -> bool:
    page.go_back() if draw.random() < 0.7 else page.go_forward()
    if not page.url.startswith(url):  # the monkey left through the front door
        page.goto(url)
    return True


def visit_page(page: Page, draw: random.Random, url: str) -> bool:
    menu = some(page.get_by_test_id("stTopNavSection"), draw)
    if menu is None:  # the presenter has folded the names away
        return False
    menu.click(timeout=REACH)
    place = some(page.get_by_test_id("stTopNavDropdownLink"), draw)
    if place is None:
        return False
    place.click(timeout=REACH)
    return True


def resize(page: Page, draw: random.Random, url: str) -> bool:
    page.set_viewport_size({"width": draw.randint(360, 1900), "height": draw.randint(500, 1200)})
    return True


def theme(page: Page, draw: random.Random, url: str) -> bool:
    page.emulate_media(color_scheme=draw.choice(("light", "dark")))
    return True


WAYS_BACK = ".st-key-undo button, .st-key-redo button, .st-key-clean button"
#: What it can do, and how often: reloads make a page young again, so there are few of them.
ACTIONS: tuple[tuple[str, int, Action], ...] = (
    ("slider", 4, press_slider),
    ("radio", 4, click("role=radio")),
    ("button", 4, click("role=button")),
    ("switch", 3, click("role=switch")),
    ("canvas", 6, click_canvas),
    ("drag", 3, drag_slider),
    ("plain list", 2, pick_select),
    ("button in a picture", 2, click("[data-painted] button")),
    ("chip", 3, click(".tv-chip")),
    ("undo, redo, clean", 3, click(WAYS_BACK)),
    ("edit away", 1, click(".st-key-chips button")),
    ("picture", 3, click_picture),
    ("keys", 2, walk),
    ("text", 2, type_text),
    ("target", 1, type_target),
    ("number", 2, type_number),
    ("choice", 4, choose),
    ("page", 4, visit_page),
    ("link", 2, open_link),
    ("reload", 1, reload),
    ("back", 2, back),
    ("resize", 1, resize),
    ("theme", 1, theme),
)  # fmt: skip
