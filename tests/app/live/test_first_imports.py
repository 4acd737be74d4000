"""The server answers before it has imported what its pages need, and imports that by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from transformer_viz.paths import ROOT

LATER = ("transformer_viz.app.pages", "pandas", "numpy", "PIL.Image")
SCRIPT = f"""
import sys
from transformer_viz.app.live import server
server.application()
assert not [name for name in {LATER} if name in sys.modules]
server._import_pages()
assert not [name for name in {LATER} if name not in sys.modules]
assert "torch" not in sys.modules  # a server that nobody visits holds none of it
"""


@pytest.mark.process
def test_the_server_answers_before_its_pages_are_imported() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "ScriptRunContext" not in ended.stderr  # nothing was drawn
