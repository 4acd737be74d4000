"""All heads at once: from weights, or from a trace, to the painted atlas, in a real Chromium.

The page is mounted as the app does it: the same script for all pictures in one piece, and a blob of
bytes; only Streamlit is left out, whose share the benchmark ``slider`` measures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from playwright.sync_api import Browser, Page

from benchmarks.painting import Painted, finish, found, served, visit
from benchmarks.peers_arrays import trace_of, weights
from benchmarks.report import Budget, Row, Section
from benchmarks.shapes import reference, sentence
from benchmarks.visits import browser
from transformer_viz.components.atlas import atlas_data
from transformer_viz.components.bundle import bundle, style
from transformer_viz.core.trace import Trace

LENGTHS = (32, 64, 128, 256, 512, 1024)
LONG = 512  # tokens at which an update has a budget
SLOWEST, LARGEST = 250.0, 1.0  # milliseconds and megabytes of it, DESIGN section 8
PATIENCE = 60.0  # seconds that a page may take
BLOCKS = ["encoder"]
Given = TypeVar("Given")
PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<body style="--st-background-color: #FBFAF7; margin: 24px">
<div id="host"></div>
<script type="module">
  import showPicture from "./pictures.js";
  const root = host.attachShadow({ mode: "open" });
  root.innerHTML = `<style>STYLE</style><div class="tv"></div>`;
  window.take = async (name) => {
    const begun = performance.now();
    const bytes = new Uint8Array(await (await fetch(name)).arrayBuffer());
    const painted = new Promise((done) => addEventListener("tv-painted", done, { once: true }));
    showPicture({ data: bytes, parentElement: root, setTriggerValue() {} });
    await painted;
    return performance.now() - begun;
  };
  take("first.bin");
</script>
"""


@dataclass(frozen=True)
class Mount:
    """A first mount of ours: seconds of Python, bytes, and what the page took."""

    weighing: float  # small pictures and numbers, from the weights
    packing: float  # bytes, from these
    size: int
    page: Painted

    @property
    def seconds(self) -> float:
        """From the weights to the paint."""
        return self.weighing + self.packing + self.page.seconds


@dataclass(frozen=True)
class Update:
    """Other weights in a view that stands: seconds of Python, and from the fetch to the paint."""

    packing: float
    painting: float
    size: int

    @property
    def seconds(self) -> float:
        """From the trace to the paint."""
        return self.packing + self.painting


def atlas(quick: bool = False) -> Section:
    """First mount and updates at every length, with the model's own time beside them."""
    torch.set_num_threads(1)
    lengths = (32, LONG) if quick else LENGTHS
    table: list[Row] = [HEAD]
    budgets: list[Budget] = []
    with browser() as chromium:
        for length in lengths:
            first, updates = measured(chromium, length, 3 if quick else 9)
            table += lines(length, first, updates, own_time(length))
            if length == LONG:
                budgets = promises(first, updates)
    return Section("Atlas", NOTES, table, budgets)


NOTES = (
    "12 layers of 12 heads, seeded softmax rows, the app's own script on a page from this machine "
    "without Streamlit. From weights: small pictures (the largest weight of each cell, at most 64 "
    "x 64 cells a head) and the numbers of every head made in numpy; in the app the probe makes "
    "both while the model runs, and an update begins with that trace. To paint: from the "
    "navigation, or from the fetch of new bytes, to the frame after the one that shows them. "
    "Model: a forward pass of GPT-2-small's shape without output layer, one thread. Medians."
)
HEAD = (
    "T",
    "what",
    "from weights, ms",
    "bytes made, ms",
    "bytes",
    "to paint, ms",
    "all, ms",
    "elements",
    "JavaScript, MB",
    "page process, MB",
    "model, ms",
)


def lines(length: int, first: Mount, updates: list[Update], model: float) -> list[Row]:
    """What the table says about one length."""
    page = first.page
    middle = sorted(updates, key=lambda one: one.seconds)[len(updates) // 2]
    return [
        (
            str(length),
            "first mount",
            _ms(first.weighing),
            _ms(first.packing),
            f"{first.size:,}",
            _ms(page.seconds),
            _ms(first.seconds),
            str(page.elements),
            f"{page.heap:.1f}",
            f"{page.process:.0f}",
            _ms(model),
        ),
        (
            "",
            f"update, {len(updates)} times",
            "–",
            _ms(middle.packing),
            f"{middle.size:,}",
            _ms(middle.painting),
            _ms(middle.seconds),
            *[""] * 4,
        ),
    ]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}" if seconds >= 0.01 else f"{1000 * seconds:.1f}"


def promises(first: Mount, updates: list[Update]) -> list[Budget]:
    """The budgets of a long input."""
    largest = max(first.size, *(update.size for update in updates)) / 1e6
    middle = 1000 * median(update.seconds for update in updates)
    return [
        Budget(f"an update at T={LONG}, from the trace to the paint", middle, SLOWEST, " ms"),
        Budget(f"bytes of it at T={LONG}", largest, LARGEST, " MB"),
    ]


def measured(chromium: Browser, length: int, updates: int) -> tuple[Mount, list[Update]]:
    """One first mount of three, by its time, and updates in the last one's page."""
    found_of = [timed(partial(trace_of, weights(length, seed))) for seed in (1, 0)]
    (other, _), (trace, weighing) = found_of
    mounts = []
    with shelf() as (folder, address):
        for _ in range(3):
            data, packing = timed(lambda: atlas_data(trace, BLOCKS))
            (folder / "first.bin").write_bytes(data)
            with opened(chromium, address) as page:
                mounts.append(Mount(weighing, packing, len(data), found(page)))
        with opened(chromium, address) as page:
            later = [update(page, folder, (other, trace)[n % 2], n) for n in range(updates)]
    return sorted(mounts, key=lambda one: one.seconds)[1], later


def timed(call: Callable[[], Given]) -> tuple[Given, float]:
    """What a call gives, and its seconds."""
    start = time.perf_counter()
    given = call()
    return given, time.perf_counter() - start


@contextmanager
def shelf() -> Iterator[tuple[Path, str]]:
    """A folder with our page, and the address at which it and its script are served."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        page = PAGE.replace("STYLE", style("pictures.css"))
        (folder / "atlas.html").write_text(page, encoding="utf-8")
        (folder / "pictures.js").write_text(bundle("pictures.js"), encoding="utf-8")
        with served(folder) as address:
            yield folder, f"{address}/atlas.html"


@contextmanager
def opened(chromium: Browser, address: str) -> Iterator[Page]:
    """A fresh visit in which our page has been painted."""
    errors: list[str] = []
    with visit(chromium, errors) as page:
        finish(page, address, PATIENCE)
        if errors:
            raise RuntimeError(f"The page met an error: {errors[0]}")
        assert page.locator("#host[data-painted]").count(), "the page stayed empty"
        yield page


def update(page: Page, folder: Path, trace: Trace, number: int) -> Update:
    """Show another trace in the page."""
    data, packing = timed(lambda: atlas_data(trace, BLOCKS, seq=number + 1))
    (folder / f"{number}.bin").write_bytes(data)
    painting: Any = page.evaluate("take", f"{number}.bin")
    return Update(packing, painting / 1000, len(data))


def own_time(length: int) -> float:
    """Seconds that a model of GPT-2-small's shape takes for so many tokens, unwatched."""
    _, forward = reference()
    ids = sentence(length)
    with torch.inference_mode():
        forward(ids)
        return median(timed(lambda: forward(ids))[1] for _ in range(3))
