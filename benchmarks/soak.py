"""`make soak`: a monkey plays with the app for a while; nothing may break, and it ends by itself.

    python -m benchmarks.soak [--seconds 600] [--seed 1]

The test suite lets it play for twenty seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page

from benchmarks.report import Budget, Section, write
from benchmarks.visits import browser, has_picture, needs_model, visitor
from tests.browser.conftest import running_app

KEYS = ("ArrowRight", "ArrowLeft", "Home", "End", "PageUp")
TEXTS = (
    "The cat sat on the mat.",
    "I would like a cup of coffee without sugar.",
    "",
    "word " * 200,
    "🙂 مرحبا <b>x</b> $y$ `z`",
    "Why?",
)
LINKS = (
    "?block=encoder&layer=2&head=7",
    "?block=nowhere&layer=99&head=-1&edits=%7Bbroken",
    "?edits=%7B%22edits%22%3A%5B%7B%22kind%22%3A%22temperature%22%2C%22value%22%3A0.0%7D%5D%7D",
    "",
)


RESTS = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@dataclass
class Found:
    """What the monkey did, and what broke: the errors with the last actions before them."""

    done: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


def play(page: Page, url: str, seconds: float, seed: int = 1) -> Found:
    """Random clicks, keys, sentences and links for some seconds; a seed repeats them."""
    found, draw, recent = Found(), random.Random(seed), list[str]()
    page.on("pageerror", lambda error: found.broken.append(f"{error} after {recent[-3:]}"))
    page.goto(url)
    has_picture(page)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name = draw.choice(list(ACTIONS))
        recent.append(name)
        try:
            if not ACTIONS[name](page, draw, url):
                continue
        except PlaywrightError:  # the place went away while the monkey reached for it
            continue
        found.done[name] += 1
        if draw.random() < 0.7:  # the other times the next action meets a page that still works
            began = time.monotonic()
            stuck = settle(page)
            if stuck:
                found.broken.append(f"{stuck} after {recent[-5:]}")
                break
            found.waits.append(time.monotonic() - began)
            found.broken += [f"{what} after {recent[-3:]}" for what in complaints(page)]
    last = [settle(page), *complaints(page)]
    found.broken += [f"{what} at the end" for what in last if what]
    return found


def settle(page: Page) -> str | None:
    """Wait until the app has answered and rests; a sentence if it never does."""
    try:
        page.locator(RESTS).wait_for(state="attached")
        page.locator("[data-testid=stMain]").wait_for()
    except PlaywrightError:
        return f"no rest at {page.url}"
    return None


def complaints(page: Page) -> list[str]:
    """Tracebacks and broken places on the screen; a sentence that explains is none."""
    alerts = page.get_by_test_id("stAlert").all_inner_texts()
    unexplained = [text for text in alerts if "did not work" in text]
    texts = [*page.get_by_test_id("stException").all_inner_texts(), *unexplained]
    return [text.strip()[:300] for text in texts]


def some(found: Locator, draw: random.Random) -> Locator | None:
    """One of the visible and enabled elements, if there is one."""
    able = [place for place in found.all() if place.is_visible() and place.is_enabled()]
    return draw.choice(able) if able else None


def press_slider(page: Page, draw: random.Random, url: str) -> bool:
    slider = some(page.get_by_role("slider"), draw)
    if slider is None:
        return False
    slider.focus(timeout=5000)
    for _ in range(draw.randint(1, 6)):
        page.keyboard.press(draw.choice(KEYS))
    return True


def click(role: str) -> Callable[[Page, random.Random, str], bool]:
    def act(page: Page, draw: random.Random, url: str) -> bool:
        found = page.get_by_test_id("stMain").locator(f"visible=true >> role={role}")
        place = some(found, draw)
        if place is None:
            return False
        place.click(timeout=5000, force=True)
        page.keyboard.press("Escape")
        return True

    return act


def click_picture(page: Page, draw: random.Random, url: str) -> bool:
    place = some(page.locator(".nsewdrag"), draw)
    box = place.bounding_box() if place else None
    if box is None:
        return False
    page.mouse.click(
        box["x"] + box["width"] * draw.random(), box["y"] + box["height"] * draw.random()
    )
    return True


def type_text(page: Page, draw: random.Random, url: str) -> bool:
    box = page.get_by_role("textbox").first
    box.fill(draw.choice(TEXTS), timeout=5000)
    box.press("Enter")
    return True


def choose(page: Page, draw: random.Random, url: str) -> bool:
    box = some(page.get_by_role("combobox"), draw)
    if box is None:
        return False
    box.click(timeout=5000)
    option = some(page.get_by_role("option"), draw)
    if option is not None:
        option.click(timeout=5000)
    page.keyboard.press("Escape")
    return True


def open_link(page: Page, draw: random.Random, url: str) -> bool:
    page.goto(f"{url}/{draw.choice(LINKS)}")
    return True


def reload(page: Page, draw: random.Random, url: str) -> bool:
    page.reload()
    return True


def back(page: Page, draw: random.Random, url: str) -> bool:
    page.go_back()
    if not page.url.startswith(url):  # the monkey left through the front door
        page.goto(url)
    return True


def visit_page(page: Page, draw: random.Random, url: str) -> bool:
    about = page.get_by_role("link", name=re.compile("^(About|Explore)$"))
    for link in (some(about, draw), page.get_by_role("link", name="Explore", exact=True).first):
        if link is None:
            return False
        link.click(timeout=5000)
    return True


def resize(page: Page, draw: random.Random, url: str) -> bool:
    page.set_viewport_size({"width": draw.randint(360, 1900), "height": draw.randint(500, 1200)})
    return True


Action = Callable[[Page, random.Random, str], bool]
ACTIONS: dict[str, Action] = {
    "slider": press_slider,
    "radio": click("radio"),
    "button": click("button"),
    "checkbox": click("checkbox"),
    "picture": click_picture,
    "text": type_text,
    "choice": choose,
    "link": open_link,
    "reload": reload,
    "back": back,
    "page": visit_page,
    "resize": resize,
}


def section(found: Found, seconds: float, seed: int) -> Section:
    """What the results say about it."""
    actions = sum(found.done.values())
    table = [("action", "times"), *((name, str(n)) for name, n in found.done.most_common())]
    notes = (
        f"{seconds:.0f} seconds, seed {seed}, {actions} actions in a real browser; longest wait "
        f"for an answer {max(found.waits, default=0):.1f} s."
    )
    return Section("Soak: a monkey", notes, table, [Budget("broken pages", len(found.broken), 0)])


def main() -> int:
    parser = argparse.ArgumentParser(description="Let a monkey play with the app.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    needs_model(dict(os.environ))
    found = Found()
    try:
        with browser() as chromium, running_app() as url:
            found = play(visitor(chromium), url, asked.seconds, asked.seed)
    except RuntimeError as error:  # the server wrote a traceback
        found.broken.append(str(error))
    result = section(found, asked.seconds, asked.seed)
    write(result)
    print(result.text, *found.broken, sep="\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
