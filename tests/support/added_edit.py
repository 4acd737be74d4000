"""A process in which docs/add-an-edit.md has been followed; prints what came of it as JSON.

python -m tests.support.added_edit

The page's blocks run in their modules, as if they stood in the files, before any other module
reads the tuple.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from tests.support.paths import ROOT
from transformer_viz.core import edits

PAGE = ROOT / "docs" / "add-an-edit.md"
SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
STEPS, CAP, DEGREE, HEAD = 2, 0.05, 0.5, 1


def followed() -> dict[str, Any]:
    """What :func:`main` prints in a process of its own."""
    run = [sys.executable, "-m", __name__]
    told = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(told)
    return found


def main() -> None:
    """Add both edits, run the tiny model clean and under each, and tell weights and scores."""
    page = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for block in page[:3]:
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), vars(edits))

    from tests.conftest import make_model
    from transformer_viz import trace
    from transformer_viz.core import apply_edits
    from transformer_viz.core.interventions import Intervention, Temperature
    from transformer_viz.core.stages import REASONS

    names: dict[str, Any] = {**vars(edits), **vars(apply_edits)}
    exec(compile(page[3], str(PAGE), "exec", dont_inherit=True), names)
    apply_edits.Plan.changed_scores = names["changed_scores"]  # type: ignore[method-assign]

    model, made = make_model(), vars(edits)
    near = made["HideNear"](steps=STEPS, stack="encoder")
    cap = made["CapScores"](value=CAP, stack="decoder", block="cross", head=HEAD)
    cold = Temperature(value=DEGREE, stack="decoder", block="cross")
    runs = {"clean": (), "near": (near,), "cap": (cap, cold)}
    found: dict[str, Any] = {
        "kinds": [kind.kind for kind in edits.EDITS],
        "hiding": [kind.kind for kind in apply_edits.HIDING],
        "reasons": list(REASONS),
        "json": Intervention((near, cap)).to_json(),
        "caption": Intervention((near, cap)).describe(),
    }
    found["again"] = Intervention.from_json(found["json"]).to_json()
    for name, wanted in runs.items():
        seen = trace(
            model, SOURCE, TARGET, intervention=Intervention(wanted), keep=("weights", "scores")
        )
        found[name] = {
            "encoder": seen.attention("encoder", layer=0).tolist(),
            "cross": seen.attention("cross", layer=0).tolist(),
            "scores": seen.block("cross", 0).scores.tolist(),
            "status": seen.report.status,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
