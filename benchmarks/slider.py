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
RESTS = '[data-testid="stApp"][data-test-script-state="notRunning"]'
STEPS = 10  # from 1 up, and as many down: no value is met twice, so that none is in the cache

# The clock starts with the key. It stops in the second frame after both pictures have changed:
# the map, whose image plotly exchanges, and the tiles, which say themselves when that frame is
# reached (`data-painted`).
CLOCK = """() => {
  const map = () => document.querySelector('.st-key-head-map .heatmaplayer image')
    ?.getAttribute('href');
  const tiles = () => document.querySelector('.st-key-heads [data-painted]')
    ?.getAttribute('data-painted');
  let begun, old, seen = {}, waiting = false;
  document.addEventListener('keydown', event => {
    if (!event.key.startsWith('Arrow')) return;
    begun = performance.now();
    old = {map: map(), tiles: tiles()};
    [seen, waiting] = [{}, false];
    window.painted = undefined;
  }, true);
  const paint = (name, start) => {
    if (start !== begun) return; // of an earlier key
    seen[name] = performance.now() - start;
    if ('map' in seen && 'tiles' in seen) {
      begun = undefined;
      window.painted = seen;
    }
  };
  new MutationObserver(() => {
    if (begun === undefined) return;
    const start = begun;
    if (!('tiles' in seen) && tiles() !== old.tiles) paint('tiles', start);
    if (!('map' in seen) && !waiting && map() && map() !== old.map) {
      waiting = true;
      requestAnimationFrame(() => requestAnimationFrame(() => paint('map', start)));
    }
  }).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""


def slider(quick: bool = False) -> Section:
    """Milliseconds from key to paint, with transformers imported in the server."""
    name = needs_model(dict(os.environ))
    with transformers_in_the_server(), running_app() as url, browser() as chromium:
        page = visitor(chromium)
        links = [f"{url}/?{place}" for place in PLACES[: 1 if quick else None]]
        painted = [seen for link in links for seen in moves(page, link)]
    columns = {
        "all heads": [seen["tiles"] for seen in painted],
        "the opened head": [seen["map"] for seen in painted],
        "both": [max(seen["tiles"], seen["map"]) for seen in painted],
    }
    table = [("until this is painted", "moves", "fastest", "p50", "p95", "slowest")]
    for what, times in columns.items():
        figures = (min(times), median(times), _slow(times), max(times))
        table.append((what, str(len(times)), *(f"{t:.0f} ms" for t in figures)))
    p50, p95 = median(columns["both"]), _slow(columns["both"])
    notes = (
        f"Model {name}. Headless Chromium on the same machine; each move is a new temperature of "
        "one head, which runs the model again; time from the key to the second frame after the "
        "overview of all heads and the map of the opened one have both changed. Transformers is "
        "imported."
    )
    budgets = [
        Budget("slider to paint, p50", p50, MIDDLE, " ms"),
        Budget("slider to paint, p95", p95, SLOW, " ms"),
    ]
    return Section("Slider to paint", notes, table, budgets)


def _slow(times: list[float]) -> float:
    return quantiles(times, n=20)[-1]


def moves(page: Page, link: str) -> list[dict[str, float]]:
    """When each picture was painted, in milliseconds a move: up from 1 and then down from 1."""
    times = []
    for key in ("ArrowRight", "ArrowLeft"):
        page.goto(link)
        has_picture(page)
        page.evaluate(CLOCK)
        page.get_by_role("slider", name="temperature").focus()
        for _ in range(STEPS + 1):
            page.keyboard.press(key)
            page.wait_for_function("window.painted !== undefined")
            times.append(page.evaluate("window.painted"))
            page.locator(RESTS).wait_for(state="attached")  # the free translation has followed
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
