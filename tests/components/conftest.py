"""The page with both components on a free port, and a browser to visit it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import ROOT, _wait, free_port, page
from tests.components.stage import serving

__all__ = ["page", "url"]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """The address of the running page; a traceback in what it wrote is an error."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    script = Path(__file__).with_name("page.py")
    words = [sys.executable, "-m", "streamlit", "run", str(script), "--server.port", str(port)]
    with tempfile.TemporaryFile() as out:
        surroundings = os.environ | {"PYTHONPATH": str(ROOT)}
        server = subprocess.Popen(words, cwd=ROOT, env=surroundings, stdout=out, stderr=out)
        try:
            _wait(address, server)
            yield address
        finally:
            server.terminate()
            server.wait(timeout=20)
        out.seek(0)
        said = out.read().decode("utf-8", errors="replace")
    if "Traceback" in said:
        raise RuntimeError(f"The page met an error:\n{said}")


@pytest.fixture(scope="session")
def modules() -> Iterator[str]:
    """The address of a server that has our modules."""
    with serving() as address:
        yield address


@pytest.fixture
def stage(page: Page, modules: str) -> Page:
    """An empty page beside our modules; see `tests.components.stage`."""
    page.goto(modules)
    return page
