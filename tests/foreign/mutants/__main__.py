"""Count who sees the faults: ``python -m tests.foreign.mutants [--tests] [--write] [name ...]``.

Says for each fault which models' reports it turns from green; with ``--tests`` also whether a fast
part of the ordinary tests fails (minutes). The models must all be green without a fault.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.support.measured_tables import write_table

from .faults import FAULT, Fault, faults
from .models import MODELS
from .runner import GREEN, Verdicts, verdict, verdicts

ROOT = Path(__file__).parents[3]
ORDINARY = ("tests/capture", "tests/foreign/test_foreign.py", "tests/inference")
SECONDS = 600  # that the ordinary tests may take with one fault
TABLE = "mutations"
NOT_SEEN = "not seen"


@dataclass(frozen=True)
class Result:
    """What came of one fault: what the reports said that are not green, and if tests failed."""

    fault: Fault
    said: Verdicts
    tests: bool | None = None

    @property
    def cells(self) -> dict[str, str]:
        """The row of the table, by column."""
        words = sorted({word for text in self.said.values() for word in self.words(text)})
        return {
            "fault": self.fault.name,
            "file": self.fault.file,
            "breaks": self.fault.breaks,
            "not green": ", ".join(words) or NOT_SEEN,
            "ordinary tests": {None: "", True: "fail", False: "pass"}[self.tests],
        }

    @staticmethod
    def words(text: str) -> list[str]:
        """The lines of a report that are not green; of an error that there was one."""
        kind, _, rest = text.partition(": ")
        return ["an error"] if kind.startswith("raised") else (rest or kind).split(", ")


def result(fault: Fault, asked: argparse.Namespace) -> Result:
    """What the report, and the ordinary tests if they are asked, say of one fault."""
    found = verdicts(fault, asked.models or tuple(MODELS), not asked.first)
    said = {name: text for name, text in found.items() if text != GREEN}
    return Result(fault, said, fails(fault) if asked.tests else None)


def fails(fault: Fault) -> bool:
    """Whether the ordinary tests fail with a fault; what takes too long counts as a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.foreign.mutants.plugin"]
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", *ORDINARY],
            cwd=ROOT,
            env=os.environ | {FAULT: fault.name, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def total(results: Sequence[Result]) -> str:
    """Return how many of the faults are seen by the report, and by the ordinary tests."""
    asked = [one for one in results if one.tests is not None]
    seen = f"{sum(bool(one.said) for one in results)} of {len(results)} are seen by the report"
    if not asked:
        return f"{seen}."
    return f"{seen}, {sum(bool(one.tests) for one in asked)} of {len(asked)} by the ordinary tests."


def main() -> int:
    parser = argparse.ArgumentParser(description="Who sees one-line faults in the probe.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; all, if none is given")
    parser.add_argument("--tests", action="store_true", help="run ordinary tests too (hours)")
    parser.add_argument("--first", action="store_true", help="end at the first report not green")
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=MODELS, help="these alone")
    parser.add_argument("--write", action="store_true", help="write docs/tables/mutations.csv")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    verdict("eager")  # what torch imports at its first use is there before any child begins
    base = verdicts(None, asked.models or tuple(MODELS))
    dark = {name: said for name, said in base.items() if said != GREEN}
    if dark:
        print(f"Without a fault these are not green, so nothing can be told: {dark}")
        return 1
    results = []
    for fault in faults():
        if asked.names and fault.name not in asked.names:
            continue
        start = time.perf_counter()
        results.append(result(fault, asked))
        print(
            " | ".join(results[-1].cells.values()),
            f"{time.perf_counter() - start:.1f} s",
            flush=True,
        )
    if asked.write:
        write_table(TABLE, [one.cells for one in results])
    print(total(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
