"""The real app on a free port of this machine, and visits to it in a real Chromium."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.support.paths import ROOT
from transformer_viz.app.pages import PAGES

PATIENCE = 60  # seconds that a start may take on a busy machine
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: Whoever opens a page by its own address makes Streamlit look for itself below that address
#: first: two answers 404 in the console before it looks where it is. Nothing else is forgiven.
STREAMLIT_LOOKS = {
    f"/{page}/_stcore/{what}"
    for page in (page.path for page in PAGES[1:])
    for what in ("health", "host-config")
}

expect.set_options(timeout=1000 * PATIENCE)


def free_port() -> int:
    """A port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chromium() -> str:
    """The system's Chromium."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    raise FileNotFoundError("The browser tests need a Chromium on the path; install one.")


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return once a server of Streamlit answers.

    Raises:
        RuntimeError: it ended before.
        TimeoutError: it took longer than a start may.
    """
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"The app ended with code {server.returncode} before it answered.")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"The app did not answer within {PATIENCE} seconds.")


@contextmanager
def running_app(script: str | None = None) -> Iterator[str]:
    """The address of the app, with the model that the environment names, or ``en-de``.

    Afterwards the app is ended, and a traceback in what it wrote is an error.

    Args:
        script: what Streamlit runs instead, a path below the project's folder.
    """
    port = str(free_port())
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", port]
    if script is not None:
        words = [sys.executable, "-m", "streamlit", "run", script, "--server.port", port]
    with tempfile.TemporaryFile() as out:
        server = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=out)
        try:
            wait_for(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=20)
        out.seek(0)
        said = out.read().decode("utf-8", errors="replace")
    if "Traceback" in said:
        raise RuntimeError(f"The app met an error:\n{said}")


def watched(page: Page) -> list[str]:
    """What goes wrong in a page from now on: a list that grows."""
    errors: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error" and not _is_streamlit_looking(message):
            errors.append(f"{message.text} ({message.location.get('url')})")

    page.on("console", hear)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def _is_streamlit_looking(message: ConsoleMessage) -> bool:
    missing = "the server responded with a status of 404" in message.text
    return missing and urlsplit(message.location.get("url", "")).path in STREAMLIT_LOOKS


@contextmanager
def visit(browser: Browser, **words: Any) -> Iterator[Page]:
    """A fresh visit; anything that the page reports as an error is an error at the end.

    Args:
        browser: where.
        words: of ``Browser.new_context``, such as ``color_scheme``.
    """
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 1100}} | words)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    errors = watched(page)
    yield page
    context.close()
    assert not errors
