"""The built site, once for all processes of a run: it runs twelve notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.paths import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, as `make docs` builds it."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    out = shared / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    with FileLock(shared / "site.lock"):
        if not (shared / "site.built").exists():
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (shared / "site.built").touch()
    return out
