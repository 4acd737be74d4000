"""Who sees the faults: ``python -m tests.foreign.mutants [--tests] [--write FILE] [name ...]``.

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

from .faults import FAULT, Fault, faults
from .models import MODELS
from .runner import GREEN, Verdicts, verdict, verdicts

ROOT = Path(__file__).parents[3]
ORDINARY = ("tests/capture", "tests/foreign/test_foreign.py", "tests/inference")
SECONDS = 600  # that the ordinary tests may take with one fault
ABOUT = """# Faults put into the probe

Each line below was put, alone, into the source of the probe (`transformer_viz/capture/` and
`transformer_viz/core/apply_edits.py`), and the capture report was made of {models} small models
that together write attention in every way: eager, causal, with a bias, rotary, cross,
`nn.MultiheadAttention`, fused, with few keys, by einsum, in windows, with a sink, by hand, heads in
a list, in parts, with a cache, two towers. Without a fault all reports are green. A fault is *seen*
if one of them is not. What it proves, and how: [how-the-proof-works.md](how-the-proof-works.md).

The faults stand in `tests/foreign/mutants/`; `make soak` makes them anew and writes this
page (`python -m tests.foreign.mutants --tests --write docs/mutations.md`).

**{seen} of {all} are seen by the report{tests}.**

| fault | file | what it breaks | lines of the report that are not green | ordinary tests |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Result:
    """What came of one fault: what the reports said that are not green, and if tests failed."""

    fault: Fault
    said: Verdicts
    tests: bool | None = None

    @property
    def line(self) -> str:
        """The row of the table."""
        words = sorted({word for text in self.said.values() for word in self.words(text)})
        said = ", ".join(words) or "green: **not seen**"
        tests = {None: "", True: "fail", False: "pass"}[self.tests]
        fault = self.fault
        return f"| {fault.name} | `{fault.file}` | {fault.breaks} | {said} | {tests} |"

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


def page(results: Sequence[Result], models: int) -> str:
    """All results in Markdown."""
    asked = [one for one in results if one.tests is not None]
    failed = sum(bool(one.tests) for one in asked)
    return "".join(
        (
            ABOUT.format(
                models=models,
                seen=sum(bool(one.said) for one in results),
                all=len(results),
                tests=f", {failed} of {len(asked)} by the ordinary tests" if asked else "",
            ),
            *(f"{one.line}\n" for one in results),
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Who sees one-line faults in the probe.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; all, if none is given")
    parser.add_argument("--tests", action="store_true", help="run ordinary tests too (hours)")
    parser.add_argument("--first", action="store_true", help="end at the first report not green")
    parser.add_argument("--models", nargs="+", metavar="NAME", choices=MODELS, help="these alone")
    parser.add_argument("--write", metavar="FILE", help="write the table there")
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
        print(results[-1].line, f"{time.perf_counter() - start:.1f} s", flush=True)
    text = page(results, len(base))
    if asked.write:
        Path(asked.write).write_text(text, encoding="utf-8")
    print(next(line for line in text.splitlines() if line.startswith("**")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
