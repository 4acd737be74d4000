"""A process in which docs/add-a-metric.md has been followed; prints what came of it as JSON.

python -m tests.support.added_metric

The page's block runs in the module, as if it stood at the end of the file, before any other module
reads the tuple.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import subprocess
import sys
from typing import Any

from tests.support.paths import ROOT
from transformer_viz.core import head_metrics

PAGE = ROOT / "docs" / "add-a-metric.md"


def blocks() -> list[str]:
    """The page's blocks of code: names that are there, the metric, its witness."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def followed() -> dict[str, Any]:
    """What :func:`main` prints in a process of its own: columns, numbers, link, and atlases."""
    run = [sys.executable, "-m", __name__]
    told = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(told)
    return found | {name: base64.b64decode(found[name]) for name in ("atlas", "gaps", "older")}


def main() -> None:
    """Add the metric, trace the tiny model, and pack its atlas, new and as a stored one."""
    exec(compile(blocks()[1], str(PAGE), "exec"), vars(head_metrics))
    import pandas as pd

    from tests.conftest import make_model
    from transformer_viz import trace
    from transformer_viz.app.session import url_state
    from transformer_viz.components.atlas import atlas_data
    from transformer_viz.metrics import head_statistics

    witness: dict[str, Any] = {}
    exec(compile(blocks()[2], str(PAGE), "exec"), witness)
    found = trace(make_model(), [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4], check=False)
    weights = found.attention("encoder", layer=1)
    gaps = found.heads.copy()
    gaps.loc[gaps["self"].idxmax(), "self"] = float("nan")  # the head that would stand first
    stored = {"gaps": gaps, "older": found.heads.drop(columns="self")}
    maps = list(found.maps)

    def atlas(heads: pd.DataFrame) -> str:
        data = atlas_data(dataclasses.replace(found, heads=heads), maps, sort="self")
        return base64.b64encode(data).decode()

    print(
        json.dumps(
            {
                "columns": list(found.heads.columns),
                "probe": found.heads.query("stack == 'encoder' and layer == 1")["self"].tolist(),
                "whole": head_statistics(weights)["self"].tolist(),
                "witness": witness["itself"](weights).tolist(),
                "sorts": url_state.SORTS,
                "link": url_state.read({"sort": "self"}, url_state.DEFAULTS)[0]["sort"],
                "atlas": atlas(found.heads),
                **{name: atlas(heads) for name, heads in stored.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
