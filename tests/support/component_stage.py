"""One of our views alone in a real browser, with bytes made by hand.

stage.show(page, "atlas/atlas.js", "Atlas", data)    # page: fixture `stage`
stage.said(page)                                # what the view told Python, in order
stage.describe(page)                            # what it shows, as it says itself
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from playwright.sync_api import Page

from tests.support.scripts import script
from transformer_viz.components import blob
from transformer_viz.components.bundle import HERE, style

BACKGROUNDS = {False: "#FBFAF7", True: "#14171C"}
EMPTY = (
    "<!doctype html><html><head><meta charset=utf-8><link rel=icon href=data:,>"
    "<title>stage</title></head><body></body></html>"
)
MOUNT = script("stage")
SHINE = "detail => dispatchEvent(new CustomEvent('tv-light', { detail }))"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the modules, and an empty page for every address that ends in a slash."""

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(EMPTY.encode())

    def end_headers(self) -> None:
        # Modules stay as they are while it serves: a browser that has them need not ask again.
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """The address of a server that has our modules, for as long as the block lasts."""
    handler = functools.partial(Quiet, directory=str(HERE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def show(
    page: Page,
    module: str,
    name: str,
    data: bytes | dict[str, Any],
    *,
    css: str | None = None,
    dark: bool = False,
    width: str = "700px",
) -> dict[str, float]:
    """Make a view in an empty page and show data in it; milliseconds until it was painted."""
    ink = "#E8E6E1" if dark else "#20242C"
    words = [module, name, style(css) if css else "", BACKGROUNDS[dark], width, ink]
    page.evaluate(MOUNT, words)
    return update(page, data)


def update(page: Page, data: bytes | dict[str, Any]) -> dict[str, float]:
    """Show other data in the same view."""
    text = json.dumps(data) if isinstance(data, dict) else base64.b64encode(data).decode()
    found: dict[str, float] = page.evaluate("text => window.give(text)", text)
    return found


def said(page: Page) -> list[tuple[str, Any]]:
    """What the view told Python, in order."""
    return [(name, value) for name, value in page.evaluate("window.said")]


def describe(page: Page) -> dict[str, Any]:
    """What the view shows, as its own `describe()` in the browser says."""
    found: dict[str, Any] = page.evaluate("view.describe()")
    return found


def shine(page: Page, row: dict[str, Any] | None, column: dict[str, Any] | None) -> None:
    """Light words, as another picture of the page would; each ``{sentence, tokens}``."""
    page.evaluate(SHINE, {"row": row, "column": column})


def decoded(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A blob as its header and its arrays, read by other code than the browser's."""
    magic, length = struct.unpack_from("<II", data)
    assert magic == blob.MAGIC
    header = json.loads(data[8 : 8 + length])
    start = -(-(8 + length) // 8) * 8
    arrays = {}
    for key, place in header["arrays"].items():
        count = int(np.prod(place["shape"]))
        flat = np.frombuffer(data, place["dtype"], count, start + place["offset"])
        arrays[key] = flat.reshape(place["shape"])
    return header, arrays
