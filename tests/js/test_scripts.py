"""Scripts that need no page: in Node's own test runner, and their form as text."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.paths import ROOT
from transformer_viz.components.bundle import EXPORT, HERE, scripts

FAILED = re.compile(r"^ *not ok \d+ - .*\n *---\n(?:.*\n)*? *\.\.\.$", re.MULTILINE)
PASSED = re.compile(r"^# pass (\d+)$", re.MULTILINE)
MODULES = scripts()
#: Entries are what Streamlit loads: they give a default export.
ENTRIES = ("pictures.js", "panels.js")
STARTS = ("report/neuron.js", "report/report.js")  # only start what the others make
IMPORTED = re.compile(r"^import\b.*?;$", re.MULTILINE | re.DOTALL)
PLAIN = re.compile(r'import \{[\w\s,]+\} from "\.{1,2}/[\w/]+\.js";')
FILES = 15  # scripts in a folder


@pytest.mark.process
def test_every_case_in_node() -> None:
    """`make test` brings Node where none is."""
    files = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/js/*.test.js"))]
    command = ["./.ci/node", "node", "--test", "--test-reporter=tap", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = "\n".join(FAILED.findall(done.stdout))
    assert not failed, failed
    assert done.returncode == 0, done.stdout + done.stderr
    passed = PASSED.search(done.stdout)
    assert passed and int(passed[1]) >= len(files), done.stdout


def test_modules_keep_to_the_form_that_can_be_joined() -> None:
    source = "export class A {\n  const = 1;\n}\nconst b = 1;\nexport async function c() {\n"
    assert EXPORT.findall(source + "export const d = 1;\nexport default b;\n") == list("Acd")
    odd = {
        name: [one for one in IMPORTED.findall(text) if not PLAIN.fullmatch(one)]
        for name, text in ((name, (HERE / name).read_text(encoding="utf-8")) for name in MODULES)
    }
    assert {name: found for name, found in odd.items() if found} == {}
    folders = [path for path in HERE.rglob("*") if path.is_dir()]
    assert {f.name for f in folders if len(list(f.glob("*.js"))) > FILES} == set()
