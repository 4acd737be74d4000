"""The app whose free translations last as long as a file stands, however fast the machine is.

Streamlit runs this instead of ``app.py``; ``HELD_BY`` in the environment names the file.
"""

from __future__ import annotations

import os
import runpy
import time
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from transformer_viz.app.engine import engine

FILE = Path(os.environ["HELD_BY"])
APP = ROOT / "app.py"


def hold() -> None:
    """Let the app build an engine that takes its time; once, though Streamlit runs this often."""
    free = engine.Engine.free
    if free.__name__ == "held":
        return

    def held(self: engine.Engine, question: Any, intervention: Any, task: Any = None) -> str:
        while FILE.exists():
            task.check()
            time.sleep(0.05)
        return free(self, question, intervention, task)

    engine.Engine.free = held  # type: ignore[method-assign]


hold()
runpy.run_path(str(APP), run_name="__main__")
