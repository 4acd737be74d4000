"""What a fresh Python has loaded after each step: one process, asked once, tells all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file

from tests.architecture.test_public import MODULES, PUBLIC
from tests.support.paths import ROOT
from transformer_viz.checkpoints.common.bundled import CONFIG, WEIGHTS
from transformer_viz.model import Transformer

pytestmark = pytest.mark.process

ROOMS = [path.stem for path in (ROOT / "transformer_viz").glob("[!_]*.py")]
#: What is done one after the other, by name: the code, and what must not have come along by then.
#: A step that loads something must not stand before one that forbids it.
STEPS = {
    "import": ("import transformer_viz as tv; dir(tv)", "numpy torch streamlit transformers"),
    "command": ("import transformer_viz.cli.main", "numpy torch streamlit transformers"),
    "names": ("tv.available(); tv.Intervention; tv.Trace", "torch streamlit transformers"),
    "metrics": ("import transformer_viz.metrics", "torch streamlit transformers"),
    "paper": ("import transformer_viz.views.paper.figure_file", "torch matplotlib"),
    "pages": (
        "from transformer_viz.app.pages import PAGES; "
        "from transformer_viz.app.engine import engine",
        "torch transformers",
    ),
    "tokenizers": ("import transformer_viz.preprocessing.tokenizers", "transformers"),
    "load": ("tv.load(sys.argv[1], device='cpu')", "torch._dynamo"),
    "rooms": ("; ".join(f"import transformer_viz.{room}" for room in ROOMS), ""),
}
ASK = """
import json, sys, types
loaded = {}
for name, (code, _) in json.loads(sys.argv[2]).items():
    exec(code)
    loaded[name] = sorted(sys.modules)
modules = [name for name in dir(tv) if isinstance(getattr(tv, name), types.ModuleType)]
print(json.dumps({"loaded": loaded, "modules": modules}))
"""


def test_nothing_heavy_comes_along(
    tmp_path: Path, build_module: Callable[..., Transformer]
) -> None:
    module = build_module()
    save_file(module.state_dict(), tmp_path / WEIGHTS)
    config = {"layout": "transformer_viz"} | module.config.to_dict()
    (tmp_path / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(tmp_path), json.dumps(STEPS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    for step, (_, forbidden) in STEPS.items():
        loaded = facts["loaded"][step]
        assert "transformer_viz" in loaded
        assert set(forbidden.split()) & set(loaded) == set(), step
    # Importing ``transformer_viz.x`` sets ``x`` on the package, whatever stood there.
    assert set(facts["modules"]) & PUBLIC == MODULES
