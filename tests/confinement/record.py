"""Record the system calls of confined processes: ``python -m tests.confinement.record TRACE``.

The trace comes from strace, of anything that opens checkpoints apart::

    strace -f -qq --seccomp-bpf -o TRACE python -m pytest -p no:xdist tests/opening

Prints each call that was made after the filter was set, how often, and whether the filter allows
it; for refused calls and those whose arguments are checked, examples. Calls that a test makes on
purpose are among them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from transformer_viz.confinement.allowed_calls import ANY, CHECKED

LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed)(.*)")
STARTED = re.compile(r"clone.* = (\d+)$")
EXAMPLES = 3  # of a call
FREE = {row.split()[0] for row in ANY.split(",")}


def main() -> None:
    """Read a trace and print what was recorded."""
    confined: set[str] = set()
    calls: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    with Path(sys.argv[1]).open(encoding="utf-8", errors="replace") as trace:
        for line in trace:
            if not (found := LINE.match(line)):
                continue
            process, name, rest = found.groups()
            if "PR_SET_SECCOMP" in line:
                confined.add(process)
            elif process in confined:
                if started := STARTED.search(line.rstrip()):
                    confined.add(started[1])
                if " resumed" in line:
                    continue
                calls[name] += 1
                held = examples.setdefault(name, [])
                if name not in FREE and len(held) < EXAMPLES:
                    held.append(rest[:120])
    for name, count in calls.most_common():
        state = "allowed" if name in FREE else "checked" if name in CHECKED else "REFUSED"
        print(f"{name:20} {count:8}  {state}")
        for example in examples[name]:
            print(f"    {example}")


if __name__ == "__main__":
    main()
