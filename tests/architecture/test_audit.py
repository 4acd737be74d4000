"""`make check` audits the packages that we pin, and is not red where nobody answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.cases import each
from tests.support.paths import ROOT

FOUND = "Found 1 known vulnerability in 1 package"
#: What pip-audit says and answers; what the audit answers and says.
CASES = {
    "nothing found": ("No known vulnerabilities found", 0, 0, "no known weakness"),
    "found": (FOUND, 1, 1, FOUND),
    "nobody answers": (
        *("ERROR: Max retries exceeded with url", 1, 0),
        "could not be reached; no package was",
    ),
}


@pytest.mark.process
def test_the_audit(tmp_path: Path) -> None:
    def check(case: tuple[str, int, int, str]) -> None:
        script, status, wanted, says = case
        tool = tmp_path / "bin" / "pip-audit"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f"#!/bin/sh\necho '{script}' >&2\nexit {status}\n")
        tool.chmod(0o755)
        done = audit(AUDIT_HOME=str(tmp_path))
        assert done.returncode == wanted and says in done.stdout + done.stderr

    def audit(**words: str) -> subprocess.CompletedProcess[str]:
        run, around = [ROOT / ".ci" / "audit"], os.environ | words
        return subprocess.run(run, env=around, capture_output=True, text=True, check=False)

    each(CASES.items(), check)
    done = audit(AUDIT_HOME=str(tmp_path / "none"), PYTHON="/bin/false")
    assert done.returncode == 0 and "could not be installed" in done.stdout
