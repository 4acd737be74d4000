"""From a page's address to its last paint, in a real Chromium, whoever made the page.

Painted is the frame after the one that shows the last change: an element that came or went, or
something drawn in a frame that the page itself had asked for. The number of elements is read once
a frame; no element is watched, which would slow large pages down.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as Late

from benchmarks.memory import MEGABYTE, resident

CALM = 2.0  # seconds without a change after which a page is finished
LONGEST = 100  # milliseconds that one frame may add to them: a page that computes is not calm
WIDE, HIGH = 1440, 1100

PROBE = f"""() => {{
  const frame = window.requestAnimationFrame.bind(window);
  const seen = window.probe = {{ changed: 0, painted: 0, count: 0, calm: 0, last: 0 }};
  const elements = document.getElementsByTagName("*");
  const shown = () => {{
    seen.changed = performance.now();
    seen.calm = 0;
    frame(() => {{ seen.painted = performance.now(); }});
  }};
  window.requestAnimationFrame = (act) => frame((time) => {{
    act(time);
    shown();
  }});
  const look = (time) => {{
    seen.calm += Math.min(time - seen.last, {LONGEST});
    seen.last = time;
    if (elements.length !== seen.count) {{
      seen.count = elements.length;
      shown();
    }}
    frame(look);
  }};
  frame(look);
}}"""
CALMED = f"""() => document.readyState === "complete" && probe.painted > probe.changed
  && probe.calm > {1000 * CALM}"""


COUNT = """() => {
  const count = (root) => [...root.querySelectorAll("*")].reduce(
    (all, one) => all + 1 + (one.shadowRoot ? count(one.shadowRoot) : 0), 0);
  return count(document);
}"""


@dataclass(frozen=True)
class Painted:
    """What it took until a page was painted, and what it holds afterwards."""

    seconds: float  # from the navigation
    elements: int
    heap: float  # megabytes of JavaScript
    process: float  # megabytes of the page's process


@contextmanager
def served(folder: Path, **places: Path) -> Iterator[str]:
    """The address at which a folder is served; ``places`` are folders below other names."""
    handler = partial(_Handler, directory=str(folder), places=places)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # one connection for many files, as Streamlit's server keeps it

    def __init__(self, *args: object, places: dict[str, Path], **words: object) -> None:
        self.places = places
        super().__init__(*args, **words)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        first, _, rest = path.lstrip("/").partition("/")
        if first in self.places:
            return str(self.places[first] / rest.partition("?")[0])
        return super().translate_path(path)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def painted(browser: Browser, address: str, patience: float) -> Painted | None:
    """Open an address in a fresh visit and wait for its last paint; None where that takes longer.

    Raises:
        RuntimeError: the page reported an error; says which.
    """
    errors: list[str] = []
    with visit(browser, errors) as page:
        try:
            finish(page, address, patience)
        except Late:
            return None
        finally:
            if errors:
                raise RuntimeError(f"{address} met an error: {errors[0]}")
        return found(page)


@contextmanager
def visit(browser: Browser, errors: list[str]) -> Iterator[Page]:
    """A fresh visit with the probe in every page it opens."""
    context = browser.new_context(viewport={"width": WIDE, "height": HIGH})
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(f"({PROBE})()")
    try:
        yield page
    finally:
        context.close()


def finish(page: Page, address: str, patience: float) -> None:
    """Open an address and wait until nothing has changed for a while."""
    end = time.monotonic() + patience
    page.goto(address, wait_until="commit", timeout=1000 * patience)
    left = max(0.001, end - time.monotonic())
    page.wait_for_function(CALMED, polling=250, timeout=1000 * left)


def found(page: Page) -> Painted:
    """What stands in a finished page, read before anything is tidied up."""
    seen = page.evaluate("probe")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    numbers = {n["name"]: n["value"] for n in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return Painted(
        seconds=seen["painted"] / 1000,
        elements=page.evaluate(COUNT),
        heap=numbers["JSHeapUsedSize"] / MEGABYTE,
        process=_largest(page),
    )


def _largest(page: Page) -> float:
    """Megabytes of the largest page process; there is one at a time."""
    browser = page.context.browser
    assert browser is not None
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return max(resident(int(one["id"])) for one in processes if one["type"] == "renderer")
