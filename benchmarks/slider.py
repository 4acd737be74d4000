"""From a move of a slider to the changed pictures on the screen, in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import torch
from playwright.sync_api import Page, expect
from safetensors.torch import save_model

from benchmarks.report import Budget, Row, Section
from benchmarks.visits import browser, has_picture, needs_model, visitor
from tests.support.browser import running_app
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED, VOCABULARY, WEIGHTS
from transformer_viz.model import ModelConfig, Transformer

MIDDLE, SLOW = 100.0, 200.0  # milliseconds, DESIGN section 8
PLACES = ("block=cross&layer=1&head=3", "block=encoder&layer=0&head=1", "block=decoder&layer=2")
DRAGGED = ("block=cross&layer=2&head=1", "block=encoder&layer=2&head=0", "block=decoder&layer=1")
RESTS = '[data-testid="stApp"][data-test-script-state="notRunning"]'
METHOD = (
    "Headless Chromium on the same machine; each step is a new temperature of one head, which runs "
    "the model again; time from the event (key, or movement of the mouse) to the second frame "
    "after the atlas and the opened head of this step, or of a newer one, were drawn. Dragging: "
    "2 s from 1 to an end of the slider, the mouse moving each 16 ms; there are 11 stops on the "
    "way, so 5.5 repaints per second are all of them. Transformers is imported."
)
STEPS = 10  # from 1 up, and as many down: no value is met twice, so that none is in the cache
DRAG = 2.0  # seconds
STOPS = 22  # from one end of the temperature slider to the other
HALF = 11  # where it stands at first
THUMB = 18  # CSS pixels

# The slider numbers its steps, and every picture says which step it shows when it is painted.
CLOCK = """() => {
  window.steps = [];
  const shown = {atlas: -1, head: -1};
  let key = null;
  window.addEventListener('keydown', event => { key = event.timeStamp; }, true);
  window.addEventListener('keyup', () => { key = null; }, true);
  window.addEventListener('input', event => {
    const root = event.composedPath()[0].getRootNode();
    if (!root.host?.describe) return;
    steps.push({since: key ?? event.timeStamp, seq: root.host.describe().shown.seq, at: {}});
  });
  window.addEventListener('tv-painted', ({detail: {part, seq}}) => {
    if (!(part in shown)) return;
    for (const step of steps) if (step.seq <= seq) step.at[part] ??= performance.now();
  });
}"""
#: Steps whose pictures stand: when the hand moved, the milliseconds to each picture, the frame.
SHOWN = """() => steps.filter(step => 'atlas' in step.at && 'head' in step.at).map(step => ({
  since: step.since, atlas: step.at.atlas - step.since, head: step.at.head - step.since,
  frame: Math.max(step.at.atlas, step.at.head)}))"""


@dataclass(frozen=True)
class Moves:
    """What was measured of one way to move: each step, and repaints a second where it counts."""

    steps: list[dict[str, float]]
    rates: tuple[float, ...] = ()

    @property
    def times(self) -> list[float]:
        """Milliseconds until both pictures of a step stood."""
        return [max(step["atlas"], step["head"]) for step in self.steps]

    def row(self, name: str) -> Row:
        """A line of the table."""
        found = (min(self.times), median(self.times), slow(self.times), max(self.times))
        rate = f"{median(self.rates):.1f}" if self.rates else ""
        return (name, str(len(self.times)), *(f"{t:.0f} ms" for t in found), rate)


HEADER: Row = ("how", "steps", "fastest", "p50", "p95", "slowest", "repaints per second")


def slider(quick: bool = False) -> Section:
    """Milliseconds from move to paint, with transformers imported in the server."""
    name = needs_model(dict(os.environ))
    with transformers_in_the_server(), browser() as chromium:
        with running_app() as url:
            keys = pressed(visitor(chromium), f"{url}/?", quick)
            hand = dragged(visitor(chromium), f"{url}/?", quick)
        with running_app("app.py") as url:
            told = pressed(visitor(chromium), f"{url}/?", quick)
            slow_hand = dragged(visitor(chromium), f"{url}/?", quick)
    table = [
        HEADER,
        keys.row("keys"),
        hand.row("dragging"),
        told.row("keys, without live frames"),
        slow_hand.row("dragging, without live frames"),
    ]
    budgets = [
        Budget("keys, p50", median(keys.times), MIDDLE, " ms"),
        Budget("keys, p95", slow(keys.times), SLOW, " ms"),
        Budget("dragging, p50", median(hand.times), MIDDLE, " ms"),
        Budget("dragging, p95", slow(hand.times), SLOW, " ms"),
    ]
    notes = (
        f"Model {name}. {METHOD} Without live frames (streamlit run app.py) each step runs the "
        "page: no budget is set for that."
    )
    return Section("Slider to paint", notes, table, budgets)


def base_size(quick: bool = False) -> Section:
    """The same for a model of the paper's base size, opened by its path on the page Checkpoint."""
    with base_model() as folder, transformers_in_the_server():
        os.environ["TRANSFORMER_VIZ_ROOTS"] = str(folder.parent)
        with running_app() as url, browser() as chromium:
            page = visitor(chromium)
            page.goto(f"{url}/checkpoint")
            page.locator('[data-what="finding-2"]').wait_for()  # torch and the first model are here
            times = opening(page, folder.name)
            link = f"{url}/?model=path:{folder.name}&"
            table = [
                HEADER,
                pressed(page, link, quick).row("keys"),
                dragged(page, link, quick).row("dragging"),
            ]
        os.environ.pop("TRANSFORMER_VIZ_ROOTS")
    table += [(what, "1", *[f"{1000 * s:,.0f} ms"] * 4, "") for what, s in times.items()]
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


def pressed(page: Page, link: str, quick: bool) -> Moves:
    """Keys one by one, each when the page rests: up from 1 and down from 1, at every place."""
    steps = []
    for place in PLACES[: 1 if quick else None]:
        for key in ("ArrowRight", "ArrowLeft"):
            begin(page, link + place)
            for n in range(STEPS + 1):
                page.keyboard.press(key)
                page.wait_for_function(f"n => ({SHOWN})().length > n", arg=n)
                rest(page)
            steps += page.evaluate(SHOWN)[1:]  # the first one waits for the model to be loaded
    return Moves(steps)


def dragged(page: Page, link: str, quick: bool) -> Moves:
    """The thumb dragged from the middle to each end, at every place."""
    steps, rates = [], []
    for place in DRAGGED[: 1 if quick else None]:
        for end in (STOPS, 0):
            begin(page, link + place)
            drag(page, HALF, end)
            page.wait_for_timeout(500)
            found = page.evaluate(SHOWN)
            steps += found
            rates.append(len({step["frame"] for step in found}) / DRAG)
            rest(page)
    return Moves(steps, tuple(rates))


def begin(page: Page, link: str) -> None:
    """Open a link, wait until all of it stands and the model is loaded, and start the clock."""
    page.goto(link)
    has_picture(page)
    rest(page)
    slider = page.get_by_role("slider", name="temperature")
    slider.scroll_into_view_if_needed()
    slider.focus()
    page.evaluate(CLOCK)


def drag(page: Page, start: int, end: int) -> None:
    """Drag the thumb from stop to stop for two seconds."""
    box = page.get_by_role("slider", name="temperature").bounding_box()
    assert box is not None
    left, width, height = box["x"] + THUMB / 2, box["width"] - THUMB, box["y"] + box["height"] / 2
    began = time.perf_counter()
    page.mouse.move(left + width * start / STOPS, height)
    page.mouse.down()
    while (part := (time.perf_counter() - began) / DRAG) < 1:
        page.mouse.move(left + width * (start + (end - start) * part) / STOPS, height)
        page.wait_for_timeout(16)
    page.mouse.up()


def rest(page: Page) -> None:
    """Until no run of the page goes on, and the free translation has followed."""
    page.wait_for_timeout(400)  # the hand rests, and Python is told
    page.locator(RESTS).wait_for(state="attached")
    after = page.locator('[data-what="after"]')
    if after.count():
        expect(after).not_to_have_text("…")


def slow(times: list[float]) -> float:
    """The 95th percentile."""
    return quantiles(times, n=20)[-1]


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
