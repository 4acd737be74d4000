"""Which limits of a confined process hold on this machine, found by setting them once."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from .processes import environment

SECONDS = 20.0
PROGRAM = """
import json, sys
from transformer_viz.confinement.limits import Limits, confine
print(json.dumps(confine(Limits(seconds=5, memory=10**9, folder=sys.argv[1]))))
"""


def enforced_limits() -> list[str] | None:
    """Return the words of :func:`.limits.confine`; None where the process did not end in order."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", PROGRAM, folder]
        try:
            ended = subprocess.run(
                words, env=environment(), capture_output=True, timeout=SECONDS, check=True
            )
            return [str(word) for word in json.loads(ended.stdout)]
        except (OSError, subprocess.SubprocessError, ValueError):
            return None
