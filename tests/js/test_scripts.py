"""Scripts that need no page, in Node's own test runner; `make test` brings Node where none is."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.paths import ROOT

FAILED = re.compile(r"^ *not ok \d+ - .*\n *---\n(?:.*\n)*? *\.\.\.$", re.MULTILINE)
PASSED = re.compile(r"^# pass (\d+)$", re.MULTILINE)


@pytest.mark.process
def test_every_case_in_node() -> None:
    files = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/js/*.test.js"))]
    command = ["./.ci/node", "node", "--test", "--test-reporter=tap", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = "\n".join(FAILED.findall(done.stdout))
    assert not failed, failed
    assert done.returncode == 0, done.stdout + done.stderr
    passed = PASSED.search(done.stdout)
    assert passed and int(passed[1]) >= len(files), done.stdout
