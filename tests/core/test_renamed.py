"""Old names inside a module still open, with a warning; importing the package stays light."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from tests.support.paths import ROOT

#: Module, old name, module and name now, words of the warning.
RENAMED = [
    ("capture", "Run", "capture.Capture", "Run is Capture now"),
    ("capture", "Want", "capture.CaptureRequest", "Want is CaptureRequest now"),
    ("core.stages", "Inside", "core.stages.Walkthrough", "Inside is Walkthrough now"),
    ("metrics.attention.qk_steps", "Chain", "metrics.attention.qk_steps.QKSteps", "Chain is QKS"),
    ("metrics", "METRICS", "core.head_metrics.HEAD_METRICS", "HEAD_METRICS now and computes by r"),
    ("metrics", "Metric", "core.head_metrics.HeadMetric", "HeadMetric now and computes by rows"),
]


def test_an_old_name_warns_and_is_the_new_one():
    for module, old, new, warning in RENAMED:
        home, name = new.rsplit(".", 1)
        with pytest.warns(DeprecationWarning, match=warning):
            found = getattr(import_module(f"transformer_viz.{module}"), old)
        assert found is getattr(import_module(f"transformer_viz.{home}"), name), old
    with pytest.raises(ImportError, match="cannot import name 'Runs'"):
        exec("from transformer_viz.capture import Runs")
    with pytest.raises(AttributeError, match="no 'METRIC'; its names are Axis, "):
        import_module("transformer_viz.metrics").METRIC  # noqa: B018


@pytest.mark.process
def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, transformer_viz\nheavy = {'torch', 'streamlit', 'numpy'} & set(sys.modules)"
    command = [sys.executable, "-W", "error", "-c", f"{code}\nassert not heavy, heavy"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
