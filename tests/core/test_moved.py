"""Old module names open for one release: with one warning, the same objects, and no cost unused."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from importlib import import_module

import pytest

import transformer_viz as tv
from tests.support.paths import ROOT
from transformer_viz.core.moved import MOVED, OldNames, install

#: What the pages of 0.1.0 imported, beside the public names.
DOCUMENTED = {
    "inside": "step_inside",
    "inspection": "inspect",
    "interventions": "Intervention",
    "records": "Trace",
    "metrics.norms": "norm_table",
    "metrics.outstanding": "outstanding_tokens",
    "metrics.stream": "stream_lengths",
    "watch": "probe",
    "export": "manifest",
    "colours": "palette",
    "sites": "MAPS",
    "metrics.heads": "head_statistics",
    "views.theme": "figure",
}


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    for old in MOVED:  # ours alone: torch has a module named storage too
        sys.modules.pop(f"transformer_viz.{old}", None)


def fetch(old: str) -> object:
    """The old module, its parents' warnings taken too."""
    with pytest.warns(DeprecationWarning):
        return import_module(f"transformer_viz.{old}")


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_warns_once_and_hands_out_the_same_objects(old: str, new: str) -> None:
    target = import_module(f"transformer_viz.{new}")
    with pytest.warns(DeprecationWarning) as said:
        module = import_module(f"transformer_viz.{old}")
    own = [one for one in said if f"transformer_viz.{old} is " in str(one.message)]
    assert [str(one.message) for one in own] == [
        f"transformer_viz.{old} is transformer_viz.{new} now; "
        "the old name goes with the next minor release."
    ]
    names = [name for name in dir(target) if not name.startswith("_")]
    assert dir(module) == dir(target)
    assert all(getattr(module, name) is getattr(target, name) for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_module(f"transformer_viz.{old}") is module


@pytest.mark.parametrize(("old", "name"), DOCUMENTED.items())
def test_a_documented_import_still_works(old: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match="is transformer_viz"):
        found: dict[str, object] = {}
        exec(f"from transformer_viz.{old} import {name}", found)
    assert found[name] is getattr(import_module(f"transformer_viz.{MOVED[old]}"), name)


def test_the_warning_names_the_line_that_imports() -> None:
    with pytest.warns(DeprecationWarning) as said:
        import transformer_viz.colours  # noqa: F401
    assert said[0].filename == __file__


def test_a_view_stays_a_view_beside_its_old_module() -> None:
    fetch("views.curves")
    with pytest.raises(ValueError, match="1 to 8 curves; got 0"):
        tv.views.curves([], "step", "loss", "")


def test_no_new_module_bears_an_old_name() -> None:
    for old in MOVED:
        path = ROOT / "transformer_viz" / old.replace(".", "/")
        assert not path.with_suffix(".py").exists() and not (path / "__init__.py").exists(), old


def test_an_unknown_name_stays_unknown() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        import_module("transformer_viz.nowhere")
    module = fetch("colours")
    assert not hasattr(module, "nobody")


@pytest.mark.parametrize(("old", "new"), [("Run", "Capture"), ("Want", "CaptureRequest")])
@pytest.mark.parametrize("module", ["capture", "watch", "watch.run"])
def test_an_old_name_of_the_capture_warns_and_is_the_new_one(
    module: str, old: str, new: str
) -> None:
    found: dict[str, object] = {}
    with pytest.warns(DeprecationWarning) as said:
        exec(f"from transformer_viz.{module} import {old}", found)
    assert found[old] is getattr(import_module("transformer_viz.capture"), new)
    texts = {str(one.message) for one in said if one.filename == "<string>"}
    assert any(f".{old} is {new} now; " in str(one.message) for one in said)
    assert any(f".{old} is {new} now; " in text for text in texts) == (module == "capture")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("core.stages", "Inside", "Walkthrough"),
        ("insides", "Inside", "Walkthrough"),
        ("metrics.attention.qk_steps", "Chain", "QKSteps"),
        ("metrics.qk", "Chain", "QKSteps"),
    ],
)
def test_an_old_class_warns_and_is_the_new_one(module: str, old: str, new: str) -> None:
    home = fetch(module) if module in MOVED else import_module(f"transformer_viz.{module}")
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now"):
        assert getattr(home, old) is getattr(home, new)


def test_an_old_module_of_a_view_shows_the_view_s_parameters() -> None:
    module = fetch("views.outcome")
    view = import_module("transformer_viz.views").outcome
    assert callable(module) and list(inspect.signature(module).parameters)[:2] == [
        "before",
        "after",
    ]
    assert inspect.signature(module) == inspect.signature(view)


def test_old_names_of_the_capture_hide_no_misspelt_one() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Runs'"):
        exec("from transformer_viz.capture import Runs")


@pytest.mark.process
def test_the_finder_stands_once_and_last_and_costs_nothing() -> None:
    install()
    assert sum(isinstance(finder, OldNames) for finder in sys.meta_path) == 1
    code = (
        "import sys, transformer_viz\n"
        "assert type(sys.meta_path[-1]).__name__ == 'OldNames'\n"
        "heavy = {'torch', 'streamlit', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new"), {"METRICS": "HEAD_METRICS", "Metric": "HeadMetric"}.items()
)
def test_the_old_names_of_the_head_metrics_open_with_a_warning(old: str, new: str) -> None:
    metrics = import_module("transformer_viz.metrics")
    with pytest.warns(DeprecationWarning, match=f"{new} now and computes by rows"):
        found = getattr(metrics, old)
    assert found is getattr(import_module("transformer_viz.core.head_metrics"), new)
    with pytest.raises(AttributeError, match="no 'METRIC'; its names are Axis, "):
        metrics.METRIC  # noqa: B018
