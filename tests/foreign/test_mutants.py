"""Faults of one line in the probe: the list stays true, and the report sees a sample of them.

All of them, and what the other tests see: ``python -m tests.foreign.mutants``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.measured_tables import read_table
from tests.support.paths import ROOT

from .mutants.__main__ import NOT_SEEN, TABLE
from .mutants.faults import CAPTURE, faults

#: One of each kind: numbering, edits, cache, axes, statistics, fused, weights, output.
SAMPLE = (
    *("hidden key off by one", "masks of heads reversed"),
    *("cache forgotten", "batch and heads exchanged", "entropy in nats", "own scale forgotten"),
    *("another item of the batch", "watched output altered"),
)
MODELS = ("eager", "fused", "cache")  # on which they are seen
#: Files without a rule of what a report shows or edits, and what else holds them.
BESIDE = {
    *("__init__.py", "axes/__init__.py", "handlers/__init__.py", "module_names.py"),
    *("refusals.py", "roles.py", "state.py", "handlers/sinusoids.py"),
    "handlers/joined_heads.py",  # such heads can get no edit of their own: never green
    *("donations.py", "handlers/lend.py"),  # tests/inference/patching
    "handlers/exponential_masks.py",  # tests/capture/test_written_out.py
    "axes/product_labels.py",  # every report that is green needs them right
    "handlers/fused_tiles.py",  # with the tiles: tests/capture/tiles
    *(f"tiles/{name}.py" for name in ("__init__", "bias", "edges", "factors", "written_out")),
    # Our own Transformer without the probe: tests/capture/test_reference.py, `own notes`.
    *("reference/__init__.py", "reference/noting_transformer.py"),
}


def test_the_old_text_of_a_fault_stands_once_and_the_new_one_is_python():
    for fault in faults():
        compile(fault.source(), fault.file, "exec")  # a ValueError or SyntaxError names the fault
        assert fault.old != fault.new, fault.name
        assert fault.breaks, fault.name


def test_faults_stand_in_all_files_of_the_probe():
    files = {path.relative_to(CAPTURE).as_posix() for path in CAPTURE.rglob("*.py")}
    assert files - {fault.file for fault in faults()} == BESIDE
    assert len(faults()) >= 60
    assert len({fault.name for fault in faults()}) == len(faults())


def test_the_table_lists_every_fault_and_none_is_unseen():
    rows = read_table(TABLE)
    assert [row["fault"] for row in rows] == [fault.name for fault in faults()]
    assert not [row for row in rows if row["not green"] == NOT_SEEN]


@pytest.mark.process
@pytest.mark.slow
def test_the_report_sees_a_sample_of_faults():
    done = subprocess.run(
        [sys.executable, "-m", "tests.foreign.mutants", *SAMPLE, "--first", "--models", *MODELS],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = f"{len(SAMPLE)} of {len(SAMPLE)} are seen by the report."
    assert said in done.stdout, done.stdout
