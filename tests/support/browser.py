"""The real app on a free port of this machine, and visits to it in a real Chromium."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, expect

from tests.support.paths import ROOT
from transformer_viz.reach import MACHINE
from transformer_viz.settings import REACH

PATIENCE = 60  # seconds that a start may take on a busy machine
ELSEWHERE = "class.example"  # a name by which another machine would call this one
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
def running_app(script: str | None = None, workers: int = 1, **variables: str) -> Iterator[str]:
    """The address of the app, with the model that the environment names, or ``en-de``.

    Afterwards the app is ended, and a traceback in what it wrote is an error.

    Args:
        script: what Streamlit runs instead, a path below the project's folder.
        workers: processes of the app behind the one port.
        variables: of the server's environment; that of the tests stays as it is.
    """
    port = str(free_port())
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", port, "--name", ELSEWHERE]
    words += ["--workers", str(workers)] if workers > 1 else []
    if script is not None:
        words = [sys.executable, "-m", "streamlit", "run", script, "--server.port", port]
    around = os.environ | {REACH.variable: MACHINE} | variables  # the name is this machine's too
    with tempfile.TemporaryFile() as out:
        server = subprocess.Popen(words, cwd=ROOT, env=around, stdout=out, stderr=out)
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
    return watch(page)[0]


def watch(page: Page) -> tuple[list[str], Callable[[], None]]:
    """What goes wrong in a page from now on, a list that grows; and what ends the watch."""
    errors: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(f"{message.text} ({message.location.get('url')})")

    def fail(error: Error) -> None:
        errors.append(str(error))

    def end() -> None:
        page.remove_listener("console", hear)
        page.remove_listener("pageerror", fail)

    page.on("console", hear)
    page.on("pageerror", fail)
    return errors, end


@contextmanager
def visit(browser: Browser, **words: Any) -> Iterator[Page]:
    """A visit of its own; anything that the page reports as an error is an error at the end.

    A tab that an earlier visit left tidy serves again: opened a second time, the app stands in a
    quarter of the time, for the browser has compiled its scripts already.

    Args:
        browser: where.
        words: of ``Browser.new_context``, such as ``color_scheme``.
    """
    words = {"viewport": {"width": 1440, "height": 1100}} | words
    left = _left.setdefault((browser, json.dumps(words, sort_keys=True)), [])
    open_tabs = [page for page in left if not page.is_closed()]
    page = open_tabs.pop() if open_tabs else browser.new_context(**words).new_page()
    left[:] = open_tabs
    page.set_default_timeout(1000 * PATIENCE)
    errors, unwatch = watch(page)
    try:
        yield page
    except BaseException:
        page.context.close()
        raise
    unwatch()
    if page.is_closed() or len(page.context.pages) > 1:
        page.context.close()
    else:
        _tidy(page, **words)
        left.append(page)
    assert not errors, errors


#: Tabs without a visitor, by the browser and what their context was made with.
_left: dict[tuple[Browser, str], list[Page]] = {}
#: What a site may remember.
FORGET = "() => { localStorage.clear(); sessionStorage.clear(); }"


def _tidy(page: Page, viewport: Any, color_scheme: Any = "null", **_: Any) -> None:
    """Leave nothing of a visit: no site, no memory of one, no route, no key or button held down."""
    page.unroute_all()
    if page.url.startswith("http"):
        page.evaluate(FORGET)
    page.goto("about:blank")
    page.context.clear_cookies()
    for held in ("Shift", "Control", "Alt", "Meta"):
        page.keyboard.up(held)
    page.mouse.up()
    page.mouse.move(-1, -1)
    page.set_viewport_size(viewport)
    page.emulate_media(media="null", color_scheme=color_scheme)
