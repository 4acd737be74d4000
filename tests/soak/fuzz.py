"""Every reader of what strangers bring, on odd inputs, in slices: a process each, watched.

    python -m tests.soak.fuzz [READER ...] [--seconds 600 | --cases 1000] [--seed 1]
                              [--ledger FILE]

A slice that dies or hangs is a finding with the number of its input, and the next slice goes on
behind it. With a ledger, sittings add up: each reader goes on behind the last input of the sitting
before, up to ``--cases`` in all. ``python -m tests.soak fuzz`` runs this too, ten minutes for
each reader.
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
from pathlib import Path
from typing import IO, Any

from benchmarks.report import Budget, Row, Section
from tests.support.paths import ROOT

SLICE = 400  # inputs of one process
HANGS = 120.0  # seconds of the clock without an answer: it hangs, however busy the machine is
SECONDS = 600.0  # for each reader
BEGINS = 900.0  # seconds in which it must have opened what is sound
NAMES = (
    *("checkpoint", "server", "tokenizer", "sentencepiece", "pickle", "weights", "config", "zip"),
    *("link", "edits", "live", "sentence", "trace", "report", "corpus", "sentences"),
)


@dataclass
class Tally:
    """What one reader did. ``faults`` by what was wrong and where, with their inputs."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    spent: float = 0.0
    ended: int = 0  # processes that died or hung
    grown: int = 0  # MiB by which one input raised the most that its process ever held
    most: int = 0  # MiB that a process held
    faults: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())

    def take(self, row: list[Any]) -> None:
        """Count one answer of a slice."""
        number, outcome, seconds, fault, where, said, grown, most = row
        self.outcomes["fault" if fault else outcome] += 1
        self.slowest = max(self.slowest, seconds)
        self.grown, self.most = max(self.grown, grown), max(self.most, most)
        if fault:
            known = self.faults.setdefault((fault, where), [])
            known.append((number, said))
            if len(known) == 1:
                print(f"  {self.name} {number}: {fault} {where}: {said[:300]!r}", flush=True)

    def end(self, number: int, how: str) -> None:
        """Count an input that ended its process."""
        self.ended += 1
        self.take([number, "fault", 0.0, how, "", "", 0, 0])

    def lines(self) -> Iterator[str]:
        """What was found, for a reader."""
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        took = f"in {self.spent:.0f} s, the slowest {self.slowest:.1f} s"
        held = f"one took {self.grown} MiB at most, all with the process {self.most} MiB"
        yield f"{self.name}: {self.cases} inputs {took}; {held}: {counts}"
        for (fault, where), inputs in self.faults.items():
            number, said = inputs[0]
            yield f"  {len(inputs)} x {fault} {where} (input {number}): {said[:300]!r}"

    def to_json(self) -> dict[str, Any]:
        """As a ledger keeps it."""
        faults = [[*what, inputs] for what, inputs in self.faults.items()]
        return vars(self) | {"faults": faults}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Tally:
        """As a ledger kept it."""
        faults = {(what, where): list(map(tuple, inputs)) for what, where, inputs in kept["faults"]}
        return cls(**kept | {"outcomes": Counter(kept["outcomes"]), "faults": faults})


class Ledger:
    """What all sittings of one seed have found so far, as a file that is never half-written."""

    def __init__(self, path: Path, seed: int) -> None:
        """Raises ValueError where the file is of another seed."""
        self.path, self.seed = path, seed
        self.tallies: dict[str, Tally] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["seed"] != seed:
                raise ValueError(f"{path} is of seed {kept['seed']}, not {seed}.")
            self.tallies = {one["name"]: Tally.from_json(one) for one in kept["tallies"]}

    def tally(self, name: str) -> Tally:
        """What a reader has done before."""
        return self.tallies.setdefault(name, Tally(name))

    def write(self) -> None:
        kept = {"seed": self.seed, "tallies": [one.to_json() for one in self.tallies.values()]}
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        fresh.replace(self.path)


def fuzz(
    name: str, seconds: float, cases: int | None, seed: int, ledger: Ledger | None = None
) -> Tally:
    """Try a reader for so long, or until it had so many inputs in all sittings of a ledger."""
    tally = Tally(name) if ledger is None else ledger.tally(name)
    start, before = time.monotonic(), tally.spent
    number = tally.cases  # every input has one outcome
    while time.monotonic() - start < seconds and (cases is None or number < cases):
        count = SLICE if cases is None else min(SLICE, cases - number)
        number = slice_of(tally, number, count, seed, start + seconds)
        tally.spent = before + time.monotonic() - start
        if ledger is not None:
            ledger.write()
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
    parser.add_argument("--ledger", type=Path, default=None, help="a file in which sittings add up")
    asked = parser.parse_args()
    ledger = None if asked.ledger is None else Ledger(asked.ledger, asked.seed)
    tallies = []
    for name in asked.readers or NAMES:
        tallies.append(fuzz(name, asked.seconds, asked.cases, asked.seed, ledger))
        print(*tallies[-1].lines(), sep="\n", flush=True)
    return int(any(one.outcomes["fault"] for one in tallies))


if __name__ == "__main__":
    sys.exit(main())
