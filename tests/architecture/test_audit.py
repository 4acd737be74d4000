"""`make check` audits the packages that we pin, and is not red where nobody answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOUND = "Found 1 known vulnerability in 1 package"


def audited(home: Path, script: str, status: int) -> subprocess.CompletedProcess[str]:
    """The audit with a program in the place of pip-audit that says and answers this."""
    tool = home / "bin" / "pip-audit"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\necho '{script}' >&2\nexit {status}\n")
    tool.chmod(0o755)
    words = {**os.environ, "AUDIT_HOME": str(home)}
    return subprocess.run(
        [ROOT / ".ci" / "audit"], env=words, capture_output=True, text=True, check=False
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "status", "wanted", "says"),
    [
        ("No known vulnerabilities found", 0, 0, "no known weakness"),
        (FOUND, 1, 1, FOUND),
        ("ERROR: Max retries exceeded with url", 1, 0, "could not be reached; no package was"),
    ],
)
def test_the_audit(script: str, status: int, wanted: int, says: str, tmp_path: Path) -> None:
    done = audited(tmp_path / "audit", script, status)
    assert done.returncode == wanted and says in done.stdout + done.stderr


@pytest.mark.process
def test_without_the_tool_it_says_so(tmp_path: Path) -> None:
    words = {**os.environ, "AUDIT_HOME": str(tmp_path / "none"), "PYTHON": "/bin/false"}
    done = subprocess.run(
        [ROOT / ".ci" / "audit"], env=words, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "could not be installed" in done.stdout
