"""From a move of a widget's slider to the changed pictures on the screen, in a real JupyterLab."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median

from playwright.sync_api import Page

from benchmarks.report import Budget, Row, Section
from benchmarks.slider import slow
from benchmarks.visits import browser, needs_model
from tests.support.jupyter_lab import run_all, run_code, running_lab, write_notebook

GOAL = 120.0  # milliseconds from a move to its pictures, the middle of all
TIMER = """
import time
from transformer_viz.notebook.explorer import Explorer
heard, spent = Explorer._heard, []
def timed(self, *given):
    cpu, wall = time.process_time(), time.perf_counter()
    heard(self, *given)
    spent.append((1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)))
Explorer._heard = timed
"""
TEXT = "The cat is asleep because it was tired."
PLACES = (("cross", 1, 3), ("encoder", 0, 1), ("decoder", 2, 0))
STEPS = 10  # up from 1, and as many down: no value is met twice, so that none is remembered
#: A key goes down; the atlas and the head of that step are painted: milliseconds between both.
MOVE = """async ([place, key]) => {
  const root = document.querySelector('.transformer-viz').shadowRoot;
  const part = name => root.querySelector(`[data-part="${name}"]`);
  const input = part('slider-temperature').shadowRoot.querySelector('input');
  const painted = ['atlas', 'head'].map(name => new Promise(done => {
    const watch = new MutationObserver(() => { watch.disconnect(); done(performance.now()); });
    watch.observe(part(name), {attributes: true, attributeFilter: ['data-painted']});
  }));
  const began = performance.now();
  input.valueAsNumber += key;
  input.dispatchEvent(new Event('input', {bubbles: true}));
  return Math.max(...await Promise.all(painted)) - began;
}"""
HEADER: Row = ("what", "steps", "fastest", "p50", "p95", "slowest")


def notebook(quick: bool = False) -> Section:
    """Milliseconds from move to paint, and what of it the kernel computes."""
    name = needs_model(dict(os.environ))
    times: list[float] = []
    with running_lab() as lab, browser() as chromium:
        page = chromium.new_page(viewport={"width": 1440, "height": 1200})
        _opened(page, lab.folder, lab.address("measured.ipynb"), name)
        for place in PLACES[: 1 if quick else None]:
            for key in (1, -1):
                run_code(page, f"widget.intervention = None; widget.site = {place!r}")
                page.wait_for_timeout(500)
                for _ in range(STEPS):
                    times.append(page.evaluate(MOVE, [list(place), key]))
                    page.wait_for_timeout(400)  # the hand rests
        said = run_code(page, "print(*(number for step in spent for number in step))").split()
        page.close()
    numbers = [float(word) for word in said]
    load = os.getloadavg()[0]
    table = [
        HEADER,
        _row("move to paint", times),
        _row("of it in the kernel", numbers[1::2]),
        _row("of it the kernel's processor time", numbers[::2]),
    ]
    notes = (
        f"Model {name}, “{TEXT}”. A JupyterLab and a headless Chromium on one machine, whose "
        f"load was {load:.1f} on {os.cpu_count()} cores; each step is a new temperature of one "
        "head, which runs the model again in the kernel; time from the event to the second frame "
        "after the atlas and the opened head were drawn."
    )
    budgets = [Budget("move to paint, p50", median(times), GOAL, " ms")]
    return Section("Slider to paint, in a notebook", notes, table, budgets)


def _opened(page: Page, folder: Path, address: str, model: str) -> None:
    show = f"import transformer_viz as tv\nwidget = tv.explore({model!r}, {TEXT!r})\nwidget"
    write_notebook(folder / "measured.ipynb", [TIMER, show])
    page.goto(address)
    run_all(page)
    page.locator(".transformer-viz").wait_for(timeout=120_000)
    page.wait_for_timeout(2000)


def _row(what: str, times: list[float]) -> Row:
    found = (min(times), median(times), slow(times), max(times))
    return (what, str(len(times)), *(f"{t:.0f} ms" for t in found))
