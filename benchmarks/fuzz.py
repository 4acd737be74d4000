"""Every reader of what strangers bring, on odd inputs, in slices: a process each, watched.

    python -m benchmarks.fuzz [READER ...] [--seconds 600 | --cases 1000] [--seed 1]

A slice that dies or hangs is a finding with the number of its input, and the next slice goes on
behind it. ``python -m benchmarks.soak fuzz`` runs this too, ten minutes for each reader.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from benchmarks.report import Budget, Row, Section
from tests.support.paths import ROOT

SLICE = 400  # inputs of one process
HANGS = 120.0  # seconds of the clock without an answer: it hangs, however busy the machine is
SECONDS = 600.0  # for each reader
BEGINS = 900.0  # seconds in which it must have opened what is sound
NAMES = (
    *("checkpoint", "tokenizer", "sentencepiece", "pickle", "weights", "config", "zip", "link"),
    *("edits", "live", "sentence", "trace", "report", "corpus", "sentences"),
)


@dataclass
class Tally:
    """What one reader did. ``faults`` by what was wrong and where, with the first few inputs."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    spent: float = 0.0
    ended: int = 0  # processes that died or hung
    faults: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def take(self, row: list[Any]) -> None:
        """Count one answer of a slice."""
        number, outcome, seconds, fault, where, said = row
        self.outcomes["fault" if fault else outcome] += 1
        self.slowest = max(self.slowest, seconds)
        if fault:
            known = self.faults.setdefault((fault, where), [])
            known.append((number, said))
            if len(known) == 1:
                print(f"  {self.name} {number}: {fault} {where}: {said[:300]!r}", flush=True)

    def end(self, number: int, how: str) -> None:
        """Count an input that ended its process."""
        self.ended += 1
        self.take([number, "fault", 0.0, how, "", ""])

    def lines(self) -> Iterator[str]:
        """What was found, for a reader."""
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        took = f"in {self.spent:.0f} s, the slowest {self.slowest:.1f} s"
        yield f"{self.name}: {self.cases} inputs {took}: {counts}"
        for (fault, where), inputs in self.faults.items():
            number, said = inputs[0]
            yield f"  {len(inputs)} x {fault} {where} (input {number}): {said[:300]!r}"


def fuzz(name: str, seconds: float, cases: int | None, seed: int) -> Tally:
    """Try a reader for so long, or on so many inputs."""
    tally, start, number = Tally(name), time.monotonic(), 0
    while time.monotonic() - start < seconds and (cases is None or number < cases):
        count = SLICE if cases is None else min(SLICE, cases - number)
        number = slice_of(tally, number, count, seed, start + seconds)
    tally.spent = time.monotonic() - start
    return tally


def slice_of(tally: Tally, first: int, count: int, seed: int, until: float) -> int:
    """Some inputs in a process of their own; the number of the next one."""
    words = (sys.executable, "-m", "tests.fuzz", tally.name, str(first), str(count))
    process = subprocess.Popen(
        (*words, "--seed", str(seed)),
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    number, how = first, ""
    try:
        for row in _answers(process.stdout):
            if row == "ready":
                continue
            if row is None:
                how = f"hung for {HANGS:.0f} s"
                break
            tally.take(row)
            number = row[0] + 1
            if time.monotonic() > until:
                return number
        if not how and process.wait() != 0:
            how = f"the process ended with status {process.returncode}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if how:
        tally.end(number, how)
        number += 1
    return number


def _answers(stream: IO[bytes]) -> Iterator[Any]:
    """The lines of a slice as they come; None where none came for too long."""
    rest, patience = b"", BEGINS
    while select.select([stream], [], [], patience)[0]:
        patience = HANGS
        block = os.read(stream.fileno(), 1 << 16)
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        yield from map(json.loads, lines)
    yield None


def section(tallies: list[Tally], seed: int) -> Section:
    """What the results say."""
    notes = (
        f"Sound files, links and sentences of the tests, changed by chance (seed {seed}): bits, "
        "pieces of others, values of JSON, instructions of pickles, members of zips. Each is "
        "either opened or refused with one short sentence of ours. Every slice of "
        f"{SLICE} inputs has a process of its own; seconds are the processor's."
    )
    table: list[Row] = [("reader", "inputs", "opened", "refused", "slowest, s")]
    for one in tallies:
        counts = (one.cases, one.outcomes["opened"], one.outcomes["refused"])
        table.append((one.name, *map(str, counts), f"{one.slowest:.1f}"))
    faults = sum(one.outcomes["fault"] - one.ended for one in tallies)
    budgets = [
        Budget("processes that died or hung", sum(one.ended for one in tallies), 0),
        Budget("answers that are no sentence of ours, or took too much", faults, 0),
    ]
    return Section("Soak: odd inputs", notes, table, budgets)


def main() -> int:
    parser = argparse.ArgumentParser(description="Try odd inputs on every reader.")
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each reader")
    parser.add_argument("--cases", type=int, default=None, help="for each reader")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    tallies = []
    for name in asked.readers or NAMES:
        tallies.append(fuzz(name, asked.seconds, asked.cases, asked.seed))
        print(*tallies[-1].lines(), sep="\n", flush=True)
    return int(any(one.outcomes["fault"] for one in tallies))


if __name__ == "__main__":
    sys.exit(main())
