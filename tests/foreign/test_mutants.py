"""Faults of one line in the probe: the list stays true, and the report sees a sample of them.

All of them, and what the other tests see: ``python -m tests.foreign.mutants``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT

from .mutants.faults import CAPTURE, faults

#: One of each kind: numbering, edits, cache, axes, statistics, fused, weights, output.
SAMPLE = (
    *("hidden key off by one", "masks of heads reversed"),
    *("cache forgotten", "batch and heads exchanged", "entropy in nats", "own scale forgotten"),
    *("another item of the batch", "watched output altered"),
)
MODELS = ("eager", "fused", "letters", "cache")  # on which they are seen
#: Files that hold no rule of what is shown or edited: records, tables and refusals. Heads that one
#: module joins can get no edit of their own, so their report is never green.
BESIDE = {"__init__.py", "axes/__init__.py", "handlers/__init__.py", "module_names.py"}
BESIDE |= {
    "refusals.py",
    "roles.py",
    "state.py",
    "handlers/sinusoids.py",
    "handlers/joined_heads.py",
}
#: What lends parts of another run, which a report never does; `tests/inference/patching` holds it
#: to runs that are hooked by hand.
BESIDE |= {"donations.py", "handlers/lend.py"}
#: Masks of a softmax written out, edited; `tests/capture/test_written_out.py` holds them to plain
#: torch. Labels of factors: every report that is green needs them right.
BESIDE |= {"handlers/exponential_masks.py", "axes/product_labels.py"}
#: What is kept in the place of a matrix, which a report never holds; `tests/capture/tiles` holds it
#: to the matrices of the same pass.
BESIDE |= {
    "handlers/fused_tiles.py",
    *(f"tiles/{name}.py" for name in ("__init__", "bias", "edges", "factors", "written_out")),
}
#: What tells of our own Transformer without the probe: `tests/capture/test_reference.py` holds each
#: of its numbers to the probe's, and so does a report those of its own run (`own notes`).
BESIDE |= {"reference/__init__.py", "reference/noting_transformer.py"}
#: What no report sees, and why: docs/how-the-proof-works.md.
NOT_SEEN = {"heads of a list all first"}


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_the_old_text_of_a_fault_stands_once_and_the_new_one_is_python(fault):
    compile(fault.source(), fault.file, "exec")
    assert fault.old != fault.new
    assert fault.breaks


def test_faults_stand_in_all_files_of_the_probe():
    files = {path.relative_to(CAPTURE).as_posix() for path in CAPTURE.rglob("*.py")}
    assert files - {fault.file for fault in faults()} == BESIDE
    assert len(faults()) >= 60
    assert len({fault.name for fault in faults()}) == len(faults())


def test_the_page_lists_every_fault_and_those_that_nobody_sees():
    page = (ROOT / "docs" / "mutations.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "`" in line]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [f.name for f in faults()]
    green = {row.split(" | ")[0].removeprefix("| ") for row in rows if "**not seen**" in row}
    assert green == NOT_SEEN


@pytest.mark.process
@pytest.mark.slow
def test_the_report_sees_a_sample_of_faults():
    done = subprocess.run(
        [sys.executable, "-m", "tests.foreign.mutants", *SAMPLE, "--first", "--models", *MODELS],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = f"**{len(SAMPLE)} of {len(SAMPLE)} are seen by the report.**"
    assert said in done.stdout, done.stdout
