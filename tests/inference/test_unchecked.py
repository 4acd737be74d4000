"""A run without a proof is called unchecked wherever its report is shown, and never green."""

from __future__ import annotations

from pathlib import Path

import pytest

import transformer_viz as tv
from tests.foreign.blind_spots import Attention, Model, causal, strong
from transformer_viz.app.checkpoint.facts import MARKS
from transformer_viz.bertviz import neuron_view
from transformer_viz.core.trace import Trace
from transformer_viz.inference.findings import findings_of
from transformer_viz.inference.inspection import inspect
from transformer_viz.views.export.html_report import report
from transformer_viz.views.numbers import manifest

TEXT = [3, 9, 14, 20, 26, 31]


@pytest.fixture(scope="module")
def run() -> Trace:
    return tv.trace(tv.load(strong(Model(Attention(causal), Attention(causal)))), TEXT, check=False)


def test_files_pages_and_exports_say_that_a_run_was_not_checked(run: Trace, tmp_path: Path) -> None:
    run.save(tmp_path / "run.safetensors")
    for one in (run, tv.Trace.load(tmp_path / "run.safetensors")):
        assert one.report.status == str(one.report) == "unchecked"
        assert {finding.status for finding in findings_of(one)} == {"unchecked"}
        assert manifest(one)["capture report"] == "unchecked"
        page = report(one)
        assert "Capture not checked" in page and "Capture report green" not in page
        assert neuron_view._proof(one) == "The capture of this run was not checked."
    assert MARKS["unchecked"][0] not in (MARKS["green"][0], MARKS["amber"][0])


def test_what_is_wrong_without_a_proof_stays_amber(run: Trace) -> None:
    from dataclasses import replace

    for change in ({"row_sum_error": 0.1}, {"unrecognised": ("layer 1",)}, {"sites": ()}):
        wrong = replace(run, report=replace(run.report, **change))
        assert wrong.report.status == "amber", change
        assert "amber" in {finding.status for finding in findings_of(wrong)} or "sites" in change


def test_inspection_is_green_only_with_a_proof() -> None:
    model = tv.load(strong(Model(Attention(causal), Attention(causal))))
    assert inspect(model).status != "unchecked"
