"""`make bench`: run the benchmarks named, or all of them, and write RESULTS.md.

    python -m benchmarks.run [capture memory path slider ...] [--quick]

Exit code 1 where a budget is missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks import report

#: In the order the reader sees them: module and function in this folder.
BENCHMARKS = {
    "capture": ("capture", "overhead"),
    "memory": ("capture", "memory"),
    "path": ("path", "small_model"),
    "start": ("start", "start"),
    "slider": ("slider", "slider"),
    "base": ("slider", "base_size"),
    "cost": ("cost", "cost"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="few repeats, small sizes")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose of {', '.join(BENCHMARKS)}")
    kept = [run(name, chosen.quick) for name in chosen.names or BENCHMARKS]
    print(f"written: {report.RESULTS.name}", file=sys.stderr)
    return 0 if all(kept) else 1


def run(name: str, quick: bool) -> bool:
    """Run one benchmark and write its section; whether all its budgets are kept."""
    print(f"{name} ...", file=sys.stderr, flush=True)
    module, function = BENCHMARKS[name]
    section = getattr(importlib.import_module(f"benchmarks.{module}"), function)(quick)
    report.write(section)
    print(section.text, flush=True)
    return all(budget.kept for budget in section.budgets)


if __name__ == "__main__":
    sys.exit(main())
