"""One reader on some of its odd inputs, in a process of its own: ``python -m tests.fuzz``.

    python -m tests.fuzz READER FIRST COUNT [--seed 1]

Writes a line of JSON after each input: its number, outcome, seconds, fault, where, what was said,
the MiB by which it raised the most that the process ever held, and that most.
Whoever started it sees by the last line which input ended the process or holds it up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from random import Random

from .judge import judged, most
from .mutators import CANARY
from .readers import NAMED, quiet

MIB = 2**20
ROOM = 8 * 2**30  # bytes of addresses that this process may have


def main() -> int:
    parser = argparse.ArgumentParser(description="Try odd inputs on one reader.")
    parser.add_argument("reader", choices=sorted(NAMED))
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    reader, out = NAMED[asked.reader], os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    with tempfile.TemporaryDirectory() as here, quiet():
        os.chdir(here)
        for known in reader.seeds():  # a model that was opened once is no memory of an input
            judged(lambda known=known: reader.run(known))
        print(json.dumps("ready"), file=out, flush=True)
        for number in range(asked.first, asked.first + asked.count):
            odd = reader.case(Random(f"{asked.seed} {reader.name} {number}"))
            found = judged(lambda odd=odd: reader.run(odd))
            fault = "code of the file ran" if Path(CANARY).exists() else found.fault
            said = found.said[:600] if fault else ""
            row = (number, found.outcome, round(found.seconds, 3), fault, found.where, said,
                   found.grown // MIB, most() // MIB)  # fmt: skip
            print(json.dumps(row), file=out, flush=True)
            Path(CANARY).unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
