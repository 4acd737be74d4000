"""From starting the server to a picture, and to what the model says about a new sentence."""

from __future__ import annotations

import os
import time
from statistics import median

from playwright.sync_api import Browser, Page

from benchmarks.report import Budget, Section
from benchmarks.visits import browser, has_picture, needs_model, visitor
from tests.support.browser import running_app

PICTURE, ANSWER = 3.0, 6.0  # seconds, DESIGN section 8
SENTENCE = "I would like a cup of coffee without sugar."


def start(quick: bool = False) -> Section:
    """Seconds from the start of the server, in a browser that is already open."""
    name = needs_model(dict(os.environ))
    with browser() as chromium:
        once(chromium)  # files come from the disk the first time
        runs = [once(chromium) for _ in range(1 if quick else 5)]
    steps = {name: [run[name] for run in runs] for name in runs[0]}
    table = [("from server start to", "median, s", "fastest, s")]
    table += [(name, f"{median(t):.2f}", f"{min(t):.2f}") for name, t in steps.items()]
    budgets = [
        Budget("first useful picture", median(steps["first useful picture"]), PICTURE, " s"),
        Budget("the model's answer", median(steps["the model's answer"]), ANSWER, " s"),
    ]
    notes = (
        f"Model {name}. Headless Chromium on the same machine, disk caches warm. The picture is "
        "the stored example, drawn without torch; the answer is the translation of a sentence "
        "that is typed as soon as the picture stands: torch imported, model loaded, beam "
        "search done."
    )
    return Section("Server start", notes, table, budgets)


def once(chromium: Browser) -> dict[str, float]:
    """One start: seconds to each step."""
    page = visitor(chromium)
    began = time.monotonic()
    with running_app() as url:
        steps = {"an answering server": time.monotonic() - began}
        page.goto(url)
        has_picture(page)
        steps["first useful picture"] = time.monotonic() - began
        ask(page)
        steps["the model's answer"] = time.monotonic() - began
        page.context.close()
    return steps


def ask(page: Page) -> None:
    """Type a new sentence and wait for its translation."""
    words = page.locator('[data-what="translation"]')
    before = words.inner_text()
    box = page.get_by_label("English sentence")
    box.fill(SENTENCE)
    box.press("Enter")
    changed = "([query, old]) => document.querySelector(query)?.innerText !== old"
    page.wait_for_function(changed, arg=['[data-what="translation"]', before])
