"""BertViz, CircuitsVis and we draw the same arrays in the same Chromium.

Each page is opened in a fresh visit, one after the other; what a tool's Python does and what the
page does until its last paint are added. The others' scripts come from this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser

from benchmarks import atlas, peers_packages
from benchmarks.painting import Painted, painted, served
from benchmarks.peers_arrays import trace_of, weights
from benchmarks.report import Budget, Row, Section
from benchmarks.visits import browser
from transformer_viz.views.export.html_report import report

LENGTHS = (32, 64, 128)
DECIDING = 128  # tokens at which budgets are held
KINDS = {
    "bertviz-model": "BertViz 1.4.1 model_view",
    "bertviz-head": "BertViz 1.4.1 head_view (one layer)",
    "circuitsvis": "CircuitsVis 1.43.3 attention_heads",
}
FASTER, SMALLER = 100, 40  # times, DESIGN section 8
PATIENCE = 400.0  # seconds that a page may take


@dataclass(frozen=True)
class Drawn:
    """A tool's page: seconds of Python, bytes without its scripts, and what the page took."""

    python: float
    size: int
    page: Painted | None

    @property
    def seconds(self) -> float:
        """From the call to the paint; endless where the page was given up."""
        return self.python + (self.page.seconds if self.page else float("inf"))


def peers(quick: bool = False) -> Section:
    """Every tool at every length, ours beside it."""
    peers_packages.install()
    table: list[Row] = [HEAD]
    budgets: list[Budget] = []
    with browser() as chromium:
        for length in LENGTHS[:1] if quick else LENGTHS:
            ours = our_page(chromium, length)
            theirs = {kind: their_page(chromium, kind, length) for kind in KINDS}
            table += [line(length, "transformer_viz, as the app mounts it", ours, ours)]
            table += [line(length, "transformer_viz, report", our_report(chromium, length), ours)]
            table += [line(length, KINDS[kind], drawn, ours) for kind, drawn in theirs.items()]
            if length == DECIDING:
                budgets = promises(ours, theirs["bertviz-model"])
    return Section("All heads at once, beside others", NOTES, table, budgets)


NOTES = (
    "12 layers of 12 heads, the same seeded softmax rows for all, one Chromium, a fresh visit for "
    "each page, everything served by this machine. Python: from the arrays to the page's bytes "
    "(ours with the small pictures and the numbers of every head). To paint: from the navigation "
    "to the frame after the one that shows the last change; ours loads its script in it. Bytes: "
    "what carries the data, without scripts. BertViz draws a line for each weight; CircuitsVis a "
    "chart for each head, and its charts animate; our small pictures hold at most 64 x 64 cells a "
    "head, so at T=128 a cell is the largest of 2 x 2 weights. The report is one page for itself, "
    "its script counted, with all weights, or as many as 3 MB hold. Updates of ours: section "
    "Atlas. "
    "BertViz's jQuery 2.0.0 is no package; 2.1.0 stands in."
)
HEAD = (
    "T",
    "tool",
    "Python, s",
    "bytes",
    "to paint, s",
    "call to paint, s",
    "ours is faster",
    "ours is smaller",
    "elements",
    "JavaScript, MB",
    "page process, MB",
)


def promises(ours: Drawn, bertviz: Drawn) -> list[Budget]:
    """Ratios, written so that smaller is better."""
    time, size = ours.seconds / bertviz.seconds, ours.size / bertviz.size
    return [
        Budget(f"our time over BertViz's, all heads, T={DECIDING}", time, 1 / FASTER),
        Budget(f"our bytes over BertViz's, all heads, T={DECIDING}", size, 1 / SMALLER),
    ]


def line(length: int, name: str, drawn: Drawn, ours: Drawn) -> Row:
    """What the table says about one page."""
    page = drawn.page
    own = drawn is ours
    given_up = f"> {PATIENCE:.0f}"
    return (
        str(length),
        name,
        f"{drawn.python:.3f}",
        f"{drawn.size:,}",
        f"{page.seconds:.2f}" if page else given_up,
        f"{drawn.seconds:.2f}" if page else given_up,
        "" if own or not page else f"{drawn.seconds / ours.seconds:.0f}x",
        "" if own else f"{drawn.size / ours.size:.0f}x",
        f"{page.elements:,}" if page else "",
        f"{page.heap:.0f}" if page else "",
        f"{page.process:,.0f}" if page else "",
    )


def our_page(chromium: Browser, length: int) -> Drawn:
    """The atlas, its script loaded anew."""
    first = atlas.measured(chromium, length)
    return Drawn(first.weighing + first.packing, first.size, first.page)


def our_report(chromium: Browser, length: int) -> Drawn:
    """The report: one page with its script, every head to be opened."""
    array = weights(length)
    html, python = atlas.timed(lambda: report(trace_of(array, kept=True)))
    with TemporaryDirectory() as name:
        place = Path(name) / "page.html"
        place.write_text(html, encoding="utf-8")
        with served(place.parent) as address:
            found = painted(chromium, f"{address}/{place.name}", PATIENCE)
    return Drawn(python, len(html.encode()), found)


def their_page(chromium: Browser, kind: str, length: int) -> Drawn:
    """A page that another tool made in its own process."""
    print(f"  {KINDS[kind]}, T={length} ...", file=sys.stderr, flush=True)
    with TemporaryDirectory() as name:
        page = Path(name) / "page.html"
        made = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers_pages", kind, str(length), str(page)],
            env=peers_packages.surroundings(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        numbers = json.loads(made.stdout)
        with served(page.parent, scripts=peers_packages.MODULES) as address:
            found = painted(chromium, f"{address}/{page.name}", PATIENCE)
    return Drawn(numbers["seconds"], numbers["bytes"], found)
