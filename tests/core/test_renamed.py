"""Names that changed inside a module still open, with a warning."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("capture", "Run", "Capture"),
        ("capture", "Want", "CaptureRequest"),
        ("core.stages", "Inside", "Walkthrough"),
        ("metrics.attention.qk_steps", "Chain", "QKSteps"),
    ],
)
def test_an_old_name_warns_and_is_the_new_one(module: str, old: str, new: str) -> None:
    home = import_module(f"transformer_viz.{module}")
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now"):
        assert getattr(home, old) is getattr(home, new)


def test_old_names_of_the_capture_hide_no_misspelt_one() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Runs'"):
        exec("from transformer_viz.capture import Runs")


@pytest.mark.process
def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, transformer_viz\n"
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
