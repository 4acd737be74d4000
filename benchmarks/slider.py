"""From a key on the temperature slider to the changed map on the screen, in a real browser."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from playwright.sync_api import Page, expect

from benchmarks.report import Budget, Section
from benchmarks.visits import browser, has_picture, needs_model, visitor
from tests.browser.conftest import running_app

MIDDLE, SLOW = 100.0, 200.0  # milliseconds, DESIGN section 8
PLACES = ("block=cross&layer=1&head=3", "block=encoder&layer=0&head=1", "block=decoder&layer=2")
STEPS = 10  # from 1 up, and as many down: no value is met twice, so that none is in the cache

# The clock starts with the key and stops in the second frame after the map's picture changed.
CLOCK = """() => {
  const picture = () => document.querySelectorAll('[data-testid="stPlotlyChart"]')[1]
    ?.querySelector('.heatmaplayer image')?.getAttribute('href');
  let begun, before;
  document.addEventListener('keydown', event => {
    if (!event.key.startsWith('Arrow')) return;
    begun = performance.now(); before = picture(); window.painted = undefined;
  }, true);
  new MutationObserver(() => {
    const now = picture();
    if (begun === undefined || !now || now === before) return;
    const start = begun;
    begun = undefined;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.painted = performance.now() - start;
    }));
  }).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""


def slider(quick: bool = False) -> Section:
    """Milliseconds from key to paint, with transformers imported in the server."""
    name = needs_model(dict(os.environ))
    with transformers_in_the_server(), running_app() as url, browser() as chromium:
        page = visitor(chromium)
        times = [
            t for place in PLACES[: 1 if quick else None] for t in moves(page, f"{url}/?{place}")
        ]
    p50, p95 = median(times), quantiles(times, n=20)[-1]
    table = [("moves", "fastest", "p50", "p95", "slowest")]
    figures = (min(times), p50, p95, max(times))
    table.append((str(len(times)), *(f"{t:.0f} ms" for t in figures)))
    notes = (
        f"Model {name}. Headless Chromium on the same machine; each move is a new temperature, "
        "which runs the model again; time until the second frame after the map changed. "
        "Transformers is imported."
    )
    budgets = [
        Budget("slider to paint, p50", p50, MIDDLE, " ms"),
        Budget("slider to paint, p95", p95, SLOW, " ms"),
    ]
    return Section("Slider to paint", notes, table, budgets)


def moves(page: Page, link: str) -> list[float]:
    """One time a move, up from 1 and then down from 1."""
    times = []
    for key in ("ArrowRight", "ArrowLeft"):
        page.goto(link)
        has_picture(page)
        page.evaluate(CLOCK)
        page.get_by_role("slider", name="temperature").focus()
        for _ in range(STEPS + 1):
            page.keyboard.press(key)
            page.wait_for_function("window.painted !== undefined")
            times.append(float(page.evaluate("window.painted")))
            expect(page.locator('[data-what="after"]')).not_to_have_text("…")
        times.pop(-STEPS - 1)  # the first one waits for the model to be loaded
    return times


@contextmanager
def transformers_in_the_server() -> Iterator[None]:
    """Lets a server that is started inside import transformers, the heaviest thing it may hold."""
    with tempfile.TemporaryDirectory() as folder:
        code = "from transformers import GPT2LMHeadModel\n"
        (Path(folder) / "sitecustomize.py").write_text(code, encoding="utf-8")
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, before)))
        try:
            yield
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before
