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


@pytest.fixture(scope="module")
def facts(
    tmp_path_factory: pytest.TempPathFactory, build_module: Callable[..., Transformer]
) -> dict[str, dict[str, list[str]]]:
    """The modules loaded after each step, and the public names that are modules at the end."""
    folder: Path = tmp_path_factory.mktemp("tiny")
    module = build_module()
    save_file(module.state_dict(), folder / WEIGHTS)
    config = {"layout": "transformer_viz"} | module.config.to_dict()
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(folder), json.dumps(STEPS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("step", STEPS)
def test_nothing_heavy_comes_along(facts: dict[str, dict[str, list[str]]], step: str) -> None:
    loaded = facts["loaded"][step]
    assert "transformer_viz" in loaded
    assert set(STEPS[step][1].split()) & set(loaded) == set()


def test_functions_stay_functions_after_every_room_is_imported(
    facts: dict[str, dict[str, list[str]]],
) -> None:
    """Importing ``transformer_viz.x`` sets ``x`` on the package, whatever stood there."""
    assert set(facts["modules"]) & PUBLIC == MODULES
