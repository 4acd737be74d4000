"""The built site, once for all processes of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.paths import ROOT

#: The notebooks that run in `make test`; in `make soak` all twelve do.
FEW = ("first-look", "hub-model", "why-this-word")


def built(names: tuple[str, ...], base: Path) -> Path:
    """Return the folder of the site as `make docs` builds it, in which these notebooks ran."""
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    name = "site" if names else "whole-site"
    out, done = shared / name, shared / f"{name}.built"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    with FileLock(shared / f"{name}.lock"):
        if not done.exists():
            around = os.environ | {"GALLERY_RUN": " ".join(names)}
            found = subprocess.run(
                words, cwd=ROOT, env=around, capture_output=True, text=True, check=False
            )
            assert found.returncode == 0, found.stderr
            done.touch()
    return out


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with a few notebooks that ran, and the code of the others."""
    return built(FEW, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def whole_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with all notebooks."""
    return built((), tmp_path_factory.getbasetemp())
