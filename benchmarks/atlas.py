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
from tempfile import TemporaryDirectory
from typing import TypeVar

from playwright.sync_api import Browser, Page

from benchmarks.painting import Painted, finish, found, served, visit
from benchmarks.peers_arrays import trace_of, weights
from transformer_viz.components.atlas import atlas_data
from transformer_viz.components.bundle import bundle, style

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


def measured(chromium: Browser, length: int) -> Mount:
    """The middle one of three first mounts, by its time."""
    trace, weighing = timed(partial(trace_of, weights(length)))
    mounts = []
    with shelf() as (folder, address):
        for _ in range(3):
            data, packing = timed(lambda: atlas_data(trace, BLOCKS))
            (folder / "first.bin").write_bytes(data)
            with opened(chromium, address) as page:
                mounts.append(Mount(weighing, packing, len(data), found(page)))
    return sorted(mounts, key=lambda one: one.seconds)[1]


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
