"""A real JupyterLab on a free port of this machine, in a folder of its own, and notebooks in it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.support.browser import PATIENCE, free_port
from tests.support.paths import ROOT

QUIET = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token, and the folder of its notebooks."""

    url: str
    token: str
    folder: Path

    def address(self, notebook: str) -> str:
        """Where a notebook of its folder opens, alone on the page."""
        return f"{self.url}/lab/tree/{notebook}?token={self.token}"


@contextmanager
def running_lab(dark: bool = False) -> Iterator[Lab]:
    """A JupyterLab in a temporary folder, with settings and signatures of its own; it is ended by
    its process, and its kernels with it.

    Raises:
        RuntimeError: it ended before it answered.
        TimeoutError: it took longer than a start may.
    """
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place), Path(place) / "notebooks"
        folder.mkdir()
        settings = home / "config" / "labconfig"
        settings.mkdir(parents=True)
        theme = {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}
        words = QUIET | {"@jupyterlab/apputils-extension:themes": theme}
        (settings / "default_setting_overrides.json").write_text(json.dumps(words))
        port, token = free_port(), secrets.token_hex(16)
        url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--expose-app-in-browser", "--LabApp.extension_manager=readonly"),
            *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
            *(f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"),
        ]
        names = ("config", "data", "runtime")
        own = {f"JUPYTER_{name.upper()}_{'DIR'}": str(home / name) for name in names}
        own |= {"IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": str(ROOT), "HOME": str(home)}
        log = home / "log"
        with log.open("wb") as file:
            server = subprocess.Popen(
                command, cwd=folder, env=os.environ | own, stdout=file, stderr=file
            )
            try:
                _answers(f"{url}/api?token={token}", server, log)
                yield Lab(url, token, folder)
            finally:
                server.terminate()
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def _answers(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"JupyterLab did not answer within {PATIENCE} seconds.")


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """A notebook of these cells of Python, not run yet."""
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{n}",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for n, source in enumerate(cells)
    ]
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    words = {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(words), encoding="utf-8")


def command(page: Page, name: str, **words: Any) -> None:
    """Do one of JupyterLab's own commands, as its menus do."""
    page.evaluate(
        "([name, words]) => window.jupyterapp.commands.execute(name, words)", [name, words]
    )


def run_all(page: Page) -> None:
    """Run all cells of the open notebook, and wait until the last one has run."""
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"
        "?.status === 'idle'",
        timeout=1000 * PATIENCE,
    )
    command(page, "notebook:run-all-cells")


def run_code(page: Page, code: str) -> str:
    """What the kernel of the open notebook prints of some code, run beside its cells."""
    return str(
        page.evaluate(
            """async (code) => {
              const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
              const asked = kernel.requestExecute({ code });
              let said = "";
              asked.onIOPub = ({ content }) => {
                said += content.text ?? (content.traceback ?? []).join("\\n");
              };
              await asked.done;
              return said;
            }""",
            code,
        )
    )
