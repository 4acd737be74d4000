"""From a key on the temperature slider to the changed map on the screen, in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import torch
from playwright.sync_api import Page, expect
from safetensors.torch import save_model

from benchmarks.report import Budget, Row, Section
from benchmarks.visits import browser, has_picture, needs_model, visitor
from tests.browser.conftest import running_app
from transformer_viz.checkpoints.shelf import CONFIG, PRETRAINED, VOCABULARY, WEIGHTS
from transformer_viz.model import ModelConfig, Transformer

MIDDLE, SLOW = 100.0, 200.0  # milliseconds, DESIGN section 8
PLACES = ("block=cross&layer=1&head=3", "block=encoder&layer=0&head=1", "block=decoder&layer=2")
RESTS = '[data-testid="stApp"][data-test-script-state="notRunning"]'
METHOD = (
    "Headless Chromium on the same machine; each move is a new temperature of one head, which runs "
    "the model again; time from the key to the second frame after the overview of all heads and "
    "the map of the opened one have both changed. Transformers is imported."
)
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
        painted = all_moves(visitor(chromium), f"{url}/?", quick)
    table, p50, p95 = figures(painted)
    notes = f"Model {name}. {METHOD}"
    budgets = [
        Budget("slider to paint, p50", p50, MIDDLE, " ms"),
        Budget("slider to paint, p95", p95, SLOW, " ms"),
    ]
    return Section("Slider to paint", notes, table, budgets)


def base_size(quick: bool = False) -> Section:
    """The same for a model of the paper's base size, opened by its path on the page Checkpoint."""
    with base_model() as folder, transformers_in_the_server():
        os.environ["TRANSFORMER_VIZ_ROOTS"] = str(folder.parent)
        with running_app() as url, browser() as chromium:
            page = visitor(chromium)
            page.goto(f"{url}/checkpoint")
            page.locator(
                '[data-what="finding-2"]'
            ).wait_for()  # torch and the first model are there
            times = opening(page, folder.name)
            painted = all_moves(page, f"{url}/?model=path:{folder.name}&", quick)
        os.environ.pop("TRANSFORMER_VIZ_ROOTS")
    table, _, _ = figures(painted)
    table += [(what, "1", *[f"{1000 * seconds:,.0f} ms"] * 4) for what, seconds in times.items()]
    notes = (
        "A Transformer of 6 + 6 layers, width 512, 8 heads and 37,000 tokens (63 M parameters, 252 "
        f"MB) with random weights. {METHOD} No budget is set for this size."
    )
    return Section("Slider to paint, base size", notes, table, [])


@contextmanager
def base_model() -> Iterator[Path]:
    """A folder with a model of the base size (Vaswani et al. 2017, table 3), random weights."""
    torch.manual_seed(0)
    words = ModelConfig(
        d_model=512,
        heads=8,
        d_ff=2048,
        encoder_layers=6,
        decoder_layers=6,
        source_vocab=37_000,
        target_vocab=37_000,
        norm="post",
        final_norm=False,
        embedding_scale=512**0.5,
        tied="all",
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "base"
        folder.mkdir()
        save_model(Transformer(words), str(folder / WEIGHTS))
        config = {"layout": "transformer_viz"} | words.to_dict()
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        shutil.copy(PRETRAINED / "en-de" / VOCABULARY, folder)  # the first 8,000 of its tokens
        yield folder


def opening(page: Page, path: str) -> dict[str, float]:
    """Seconds from a typed path to what was understood, and from there to the first picture."""
    box = page.get_by_role("textbox", name="Path on the server")
    box.fill(path)
    began = time.perf_counter()
    box.press("Enter")
    page.locator('[data-what="checkpoint"]', has_text=path).wait_for()
    page.locator('[data-what="finding-2"]').wait_for()
    understood = time.perf_counter()
    page.get_by_role("button", name="Explore this model").click()
    has_picture(page)
    return {
        "a typed path is opened and proved": understood - began,
        "Explore shows it": time.perf_counter() - understood,
    }


def all_moves(page: Page, link: str, quick: bool) -> list[dict[str, float]]:
    """When each picture was painted, of every move at every place."""
    places = PLACES[: 1 if quick else None]
    return [seen for place in places for seen in moves(page, link + place)]


def figures(painted: list[dict[str, float]]) -> tuple[list[Row], float, float]:
    """The table of all moves, and p50 and p95 of the milliseconds until both pictures stand."""
    columns = {
        "all heads": [seen["tiles"] for seen in painted],
        "the opened head": [seen["map"] for seen in painted],
        "both": [max(seen["tiles"], seen["map"]) for seen in painted],
    }
    table: list[Row] = [("until this is painted", "moves", "fastest", "p50", "p95", "slowest")]
    for what, times in columns.items():
        found = (min(times), median(times), _slow(times), max(times))
        table.append((what, str(len(times)), *(f"{t:.0f} ms" for t in found)))
    return table, median(columns["both"]), _slow(columns["both"])


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
