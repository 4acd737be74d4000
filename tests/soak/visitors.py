"""Two visitors at once: different sentences, models and edits; nothing of one may reach the other.

Both change something before either is waited for, so that their runs really overlap on the server.
Afterwards each screen must show what the models say, in this process, of that visitor's own link;
and of the link only what the change may touch may have changed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from benchmarks.memory import heap_of
from tests.soak.witness import Witness, differences, state_of
from tests.support import page_actions
from tests.support.browser import PATIENCE, watched
from tests.support.rest import rest
from transformer_viz.app.session.url_state import DEFAULTS

TRIES = 25  # looks at a screen that is not yet as it should be, STEP apart
STEP = 200  # milliseconds
SCROLLS = 150  # milliseconds
#: What each visitor types, and with which model; nobody types what the other one does.
SENTENCES = {
    "en-de": (
        "The cat sat on the mat.",
        "She gave him the book that he wanted to read.",
        "Where is the next station?",
    ),
    "en-de-small": (
        "I would like a cup of coffee without sugar.",
        "We can't go home before it stops raining.",
        "My brother sings every morning.",
    ),
}
#: What follows a newly chosen row: the word on Norms, the word that is asked about.
ROW = ("token", "key", "answer", "stack", "word")
#: Keys of the link that are fitted to whatever sentence and picture there is.
FITTED = (*ROW, "overlay", "zoom", "place", "shift", "pair")
PATIENT = 5
#: When a page's script runs: kept by the page itself, so that overlaps can be counted afterwards.
WATCH = """
window.tvRuns = [];
new MutationObserver(() => {
  const app = document.querySelector('[data-testid="stApp"]');
  const runs = app?.dataset.testScriptState === "running", last = window.tvRuns.at(-1);
  if (runs && (!last || last[1])) window.tvRuns.push([Date.now(), 0]);
  if (!runs && last && !last[1]) last[1] = Date.now();
}).observe(document, {subtree: true, attributeFilter: ["data-test-script-state"]});
"""
READ = """() => {
  const text = (query) => document.querySelector(query)?.innerText ?? null;
  const list = [...document.querySelectorAll('[aria-label^="Probability"] [role="listitem"]')];
  const host = document.querySelector(".st-key-head-view [data-painted]");
  const head = host?.describe().data, map = head?.view === "map" ? head.arrays.weights : null;
  const width = map && map.shape[1], masked = map && head.arrays.masked.data;
  const told = (query) => host?.shadowRoot.querySelector(query)?.innerText ?? null;
  return {
    sentence: document.querySelector('input[aria-label="English sentence"]')?.value ?? null,
    model: document.querySelector('input[aria-label="Model"]')?.value ?? null,
    translation: text('[data-what="translation"]'),
    after: text('[data-what="after"]'),
    now: text('[data-what="now"]'),
    numbers: told(".numbers"),
    norm: text('[data-what="norm"]'),
    head: text(".st-key-card-head h2"),
    outcome: list.length ? list.map((word) => word.innerText) : null,
    edits: [...document.querySelectorAll(".st-key-chips button")].map((b) =>
      b.innerText.replace(/\\s*✕\\s*$/, "")),
    map: map && Array.from({length: map.shape[0]}, (_, row) => Array.from(
      map.data.subarray(row * width, (row + 1) * width),
      (weight, n) => masked[row * width + n] ? null : weight)),
  };
}"""


@dataclass
class Visitor:
    """One of the two: a page of its own, and the link as it stood when it last rested."""

    name: str
    page: Page
    draw: random.Random
    state: dict[str, Any] = field(default_factory=dict)
    allowed: frozenset[str] = frozenset()
    wanted: dict[str, Any] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def one(self, found: Locator) -> Locator | None:
        """One of the places that can be used just now."""
        able = [place for place in found.all() if place.is_enabled()]
        return self.draw.choice(able) if able else None

    def may(self, *names: str, **wanted: Any) -> None:
        """Say which keys of the link this change may touch, and what some must be afterwards."""
        self.allowed, self.wanted = frozenset(names) | frozenset(wanted), wanted


Fire = Callable[[], object]
#: Goes to a place and gives what is to be done there; None where this page has no such place.
Change = Callable[[Visitor], Fire | None]


def _click(place: Locator, *, force: bool = False) -> Fire:
    """Point at a place; to fire is to press the mouse there, which takes no time to speak of."""
    place.hover(force=force)
    return _press(place.page)


def _press(page: Page) -> Fire:
    """Press the mouse where it points."""

    def press() -> None:
        page.mouse.down()
        page.mouse.up()

    return press


def _tile(visitor: Visitor) -> Fire | None:
    page = visitor.page
    if not page.locator(".st-key-atlas").count():
        return None
    layer, head = visitor.draw.choice(page_actions.heads(page))
    visitor.may("overlay", "zoom", "key", layer=layer, head=head)
    page.mouse.move(*page_actions.middle(page_actions.tile_box(page, layer, head)))
    return _press(page)


def _chip(visitor: Visitor) -> Fire | None:
    chip = visitor.one(visitor.page.locator('.tv-chip:not([aria-disabled="true"])'))
    if chip is None:
        return None
    visitor.may("place", *ROW)
    return _click(chip)


def _cell(visitor: Visitor) -> Fire | None:
    """A cell of the opened head's map."""
    page = visitor.page
    if visitor.state["view"] != "map" or not page.locator(".st-key-head-view").count():
        return None
    visitor.may(*ROW)
    row, column = visitor.draw.randrange(3), visitor.draw.randrange(3)
    page.mouse.move(*page_actions.middle(page_actions.cell(page, row, column)))
    return _press(page)


def _slider(name: str, *keys: str) -> Change:
    def change(visitor: Visitor) -> Fire | None:
        slider = visitor.page.get_by_role("slider", name=name)
        if not slider.count():
            return None
        visitor.may(*keys)
        slider.focus()
        key = visitor.draw.choice(("ArrowRight", "ArrowLeft", "ArrowLeft", "Home", "PageDown"))
        return lambda: visitor.page.keyboard.press(key)

    return change


def _pressed(key: str, role: str, *keys: str) -> Change:
    """A radio button, switch or button under a Streamlit key, or below keys that begin so."""
    below = f'[class*="st-key-{key}"]' if key.endswith("-") else f".st-key-{key}"

    def change(visitor: Visitor) -> Fire | None:
        place = visitor.one(visitor.page.locator(f"{below} >> role={role}"))
        if place is None:
            return None
        visitor.may(*keys)
        return _click(place, force=role == "switch")

    return change


def open_list(box: Locator) -> Locator:
    """The options of a select box. Its list closes while the page scrolls, so that comes first."""
    options = box.page.get_by_role("option")
    box.scroll_into_view_if_needed()
    box.page.wait_for_timeout(SCROLLS)
    box.click()
    if not options.count():
        box.press("ArrowDown")
    options.first.wait_for()
    return options


def _chosen(key: str, *keys: str) -> Change:
    """An entry of a select box."""

    def change(visitor: Visitor) -> Fire | None:
        box = visitor.page.locator(f".st-key-{key} >> role=combobox")
        if not box.count() or not box.first.is_enabled():
            return None
        option = visitor.one(open_list(box.first))
        if option is None:
            return None
        visitor.may(*keys)
        press, keyboard = _click(option), visitor.page.keyboard
        return lambda: (press(), keyboard.press("Escape"))  # a list of many stays open

    return change


def _sentence(visitor: Visitor) -> Fire | None:
    text = visitor.draw.choice(SENTENCES[visitor.name])
    visitor.may(*FITTED, text=text)
    box = visitor.page.get_by_label("English sentence")
    box.fill(text)
    return lambda: box.press("Enter")


def _page(visitor: Visitor) -> Fire | None:
    name = visitor.draw.choice(("Explore", "Explore", "Positions", "Norms"))
    visitor.may("site", *FITTED)
    visitor.page.get_by_test_id("stTopNavSection").filter(has_text="See").click()
    return _click(visitor.page.get_by_role("menuitem", name=name, exact=True))


#: What a visitor does, with the keys of the link that it may touch; some more often than others.
CHANGES: tuple[tuple[str, int, Change], ...] = (
    ("tile", 4, _tile),
    ("chip", 2, _chip),
    ("cell", 2, _cell),
    ("temperature", 4, _slider("temperature", "edits")),
    ("window", 2, _slider("window", "edits")),
    ("positions scaled", 2, _slider("scale", "edits")),
    ("block", 2, _pressed("block", "radio", "block", "layer", "head", *FITTED)),
    ("blocks", 1, _pressed("blocks", "radio", "blocks")),
    ("view", 1, _pressed("view", "radio", "view")),
    ("compare", 1, _pressed("compare", "radio", "compare")),
    ("applies to", 1, _pressed("scope", "radio", "scope")),
    ("head state", 2, _pressed("head_state", "radio", "edits")),
    ("causal", 1, _pressed("causal", "radio", "edits")),
    ("whole words", 1, _pressed("words", "switch", "words", "zoom", *ROW)),
    ("marks", 1, _pressed("special", "switch", "special", "zoom", *ROW)),
    ("drop", 2, _pressed("position_drop", "switch", "edits")),
    ("shuffle", 2, _pressed("position_shuffle", "switch", "edits")),
    ("reach", 1, _pressed("reach", "radio", "reach")),
    ("stack", 2, _pressed("stack", "radio", "stack", "site", *FITTED)),
    ("hide", 2, _chosen("hide", "edits")),
    ("cut", 1, _chosen("edge", "edits")),
    ("layer", 1, _chosen("layer", "layer")),
    ("candidates", 1, _chosen("answer", "answer")),
    ("statistic", 2, _chosen("statistic", "statistic")),
    ("norm", 2, _chosen("site", "site")),
    ("sentence", 2, _sentence),
    ("page", 3, _page),
    ("undo", 2, _pressed("undo", "button", "edits")),
    ("redo", 1, _pressed("redo", "button", "edits")),
    ("clean", 1, _pressed("clean", "button", "edits")),
    ("edit away", 1, _pressed("edit-", "button", "edits")),
)


@dataclass
class Tale:
    """What both did, what was mixed or broke, and how often both ran at once.

    ``noticed`` counts the differences that are seen when one's screen is held against the other's
    link: a comparison that sees none there would see none anywhere.
    """

    done: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    overlaps: int = 0
    rounds: int = 0
    heaps: list[float] = field(default_factory=list)
    noticed: int = 0

    @property
    def changes(self) -> int:
        return sum(self.done.values())


def together(browser: Browser, url: str, changes: int, seed: int = 1) -> Tale:
    """Two visitors change things, in turns and at once, until so many changes are made, and both
    ran at once: whether they meet is chance, so there may be up to `PATIENT` times as many."""
    tale, witness = Tale(), Witness()
    both = [_arrive(browser, url, name, seed) for name in SENTENCES]
    for visitor in both:
        _look(visitor, witness)
    tale.noticed = len(_swapped(both, witness))
    most = PATIENT * changes
    while tale.changes < changes or (not tale.overlaps and tale.changes < most):
        if any(visitor.broken for visitor in both):
            break
        fires = [_ready(visitor, tale) for visitor in both]
        for fire in fires:  # nobody is waited for in between
            fire()
        for visitor in both:
            _look(visitor, witness)
        tale.rounds += 1
        tale.overlaps += _overlapped(both)
        if tale.rounds % 10 == 1:
            tale.heaps.append(sum(heap_of(visitor.page) for visitor in both))
    for visitor in both:
        tale.broken += visitor.broken
        visitor.page.context.close()
    return tale


def _arrive(browser: Browser, url: str, name: str, seed: int) -> Visitor:
    context = browser.new_context(viewport={"width": 1440, "height": 1100})
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    visitor = Visitor(name, page, random.Random(f"{seed} {name}"), broken=watched(page))
    page.goto(f"{url}/?model={name}")
    page.locator(".tv-foot").wait_for()
    visitor.may(*DEFAULTS)
    box = page.get_by_label("English sentence")
    box.fill(SENTENCES[name][0])
    box.press("Enter")
    return visitor


def _ready(visitor: Visitor, tale: Tale) -> Fire:
    """Go where something can be done on this page, and give what does it."""
    names = [name for name, times, _ in CHANGES for _ in range(times)]
    acts = {name: act for name, _, act in CHANGES}
    while True:
        name = visitor.draw.choice(names)
        fire = acts[name](visitor)
        if fire is not None:
            visitor.recent = [*visitor.recent[-4:], name]
            tale.done[name] += 1
            return fire


def _look(visitor: Visitor, witness: Witness) -> None:
    """Wait until the screen shows what the models say of the link; else note what it shows."""
    page, told = visitor.page, [""]
    for _ in range(TRIES):
        rest(page, still=100)
        told = _wrong(visitor, witness)
        if not told:
            return
        page.wait_for_timeout(STEP)
    done = f"{visitor.name} after {visitor.recent} at {page.url}"
    visitor.broken += [f"{done}: {what}" for what in told]


def _wrong(visitor: Visitor, witness: Witness) -> list[str]:
    """What on the screen or in the link is not as it should be."""
    page = visitor.page
    state = state_of(page.url)
    moved = {name for name in state if visitor.state and state[name] != visitor.state[name]}
    strange = moved - visitor.allowed
    if strange:
        return [f"the link's {', '.join(sorted(strange))} changed: {page.url}"]
    missed = [name for name, value in visitor.wanted.items() if state[name] != value]
    alerts = page.get_by_test_id("stAlert").all_inner_texts()
    told = [f"the link's {name} is {state[name]!r}" for name in missed] + alerts
    told += differences(state, _seen(page), witness.runs(state))
    if state["model"] != visitor.name or state["text"] not in SENTENCES[visitor.name]:
        told.append(f"the link speaks of {state['model']} and {state['text']!r}")
    if not told:
        visitor.state = state
        visitor.may()
    return told


def _seen(page: Page) -> dict[str, Any]:
    """What stands on a screen, as `differences` takes it."""
    seen: dict[str, Any] = page.evaluate(READ)
    return seen | {"chips": page.locator(".tv-chip").all_inner_texts()}


def _swapped(both: list[Visitor], witness: Witness) -> list[str]:
    """What differs between the first one's screen and the second one's link."""
    state = state_of(both[1].page.url)
    return differences(state, _seen(both[0].page), witness.runs(state))


def _overlapped(both: list[Visitor]) -> bool:
    """Whether both scripts ran at the same time since the last look."""
    runs = [visitor.page.evaluate("window.tvRuns.splice(0)") for visitor in both]
    return any(
        mine[0] < (other[1] or mine[0] + 1) and other[0] < (mine[1] or other[0] + 1)
        for mine in runs[0]
        for other in runs[1]
    )
