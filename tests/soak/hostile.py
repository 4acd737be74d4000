"""A class beside hostile visitors: what pupils' frames take with and without them, in turns.

    python -m tests.soak.hostile [--pupils 30] [--window 30] [--rounds 4] [--kind flood]

With ``--kind flood`` one visitor sends messages without end, uploads without a length, and opens
links to trace files that claim more than they hold. It is not written down.

Five visitors of another process bring endless files, flood the server with frames (two of them),
type long texts and read slowly. They are quiet in every other window, so that whatever else the
machine does meets both halves. As much as this by default, or more, is written down in RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.class_section import slow
from benchmarks.pupil import Pupil
from benchmarks.pupils import SHARED, sentence_of
from benchmarks.report import Budget, Row, Section, write
from tests.soak.attacks import ATTACKS, NOTES, attack
from tests.soak.endurance import environment
from tests.support.browser import running_app
from tests.support.paths import ROOT
from transformer_viz import settings
from transformer_viz.components.edit_sliders import TEMPERATURE

PUPILS, WINDOW, ROUNDS = 30, 30.0, 4
EVERY, TELLS = 2.0, 4  # seconds from move to move; every so many the page is told
WORST = 1.5  # times the frames' p95 that it may be beside hostile visitors
SETTLE = 5.0  # seconds of each window that are not counted: what was begun before ends


@dataclass
class Moves:
    """Frames by whether hostile visitors were there: the seconds of each, and what went wrong."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    attacks: dict[str, int] = field(default_factory=dict)


@dataclass
class Clock:
    """Which window it is: hostile visitors are there in every second one."""

    start: float
    window: float
    rounds: int

    @property
    def end(self) -> float:
        return self.start + 2 * self.rounds * self.window

    def hostile(self) -> bool:
        """Whether they are there now."""
        number = int((time.monotonic() - self.start) // self.window)
        return 0 <= number < 2 * self.rounds and number % 2 == 1

    def counts(self, moment: float) -> bool:
        """Whether what began at a moment is counted."""
        return moment >= self.start and (moment - self.start) % self.window >= SETTLE


# ---- the class ----------------------------------------------------------------------------------


def lesson(url: str, folder: Path, pupils: int, window: float, rounds: int, kind: str) -> Moves:
    """The class at work, and hostile visitors now and then."""
    met = Moves()
    ready = threading.Barrier(pupils + 1)
    clock = Clock(float("inf"), window, rounds)
    threads = [
        threading.Thread(target=_works, args=(url, number, met, clock, ready))
        for number in range(pupils)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.3)
    words = [sys.executable, "-m", "tests.soak.hostile", "--attack", url, "--folder", str(folder)]
    words += ["--kind", kind]
    with subprocess.Popen(
        ["nice", "-n", "5", *words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as attackers:
        assert attackers.stdin is not None and attackers.stdout is not None
        attackers.stdout.readline()  # they have arrived
        ready.wait()
        clock.start = time.monotonic()
        was = False
        while time.monotonic() < clock.end:
            now = clock.hostile()
            if now != was:
                attackers.stdin.write(b"go\n" if now else b"stop\n")
                attackers.stdin.flush()
                was = now
            time.sleep(0.1)
        attackers.stdin.close()
        met.attacks = json.loads(attackers.stdout.readline())
        for thread in threads:
            thread.join()
        attackers.kill()
    return met


def _works(url: str, number: int, met: Moves, clock: Clock, ready: threading.Barrier) -> None:
    """One pupil: types a sentence, and moves the slider until the end."""
    draw = random.Random(number)
    try:
        pupil = Pupil(url)
        pupil.open(SHARED)
        pupil.type(sentence_of(number))
    except Exception as error:
        met.errors.append(f"pupil {number} at the door: {type(error).__name__}: {error}")
        ready.abort()
        return
    ready.wait()
    time.sleep(draw.uniform(0, EVERY))
    turn = 0
    while time.monotonic() < clock.end:
        turn += 1
        next_move = time.monotonic() + EVERY
        try:
            _moves(pupil, draw, met, clock, turn % TELLS == 0)
        except Exception as error:
            met.errors.append(f"pupil {number}: {type(error).__name__}: {error}")
        time.sleep(max(0.0, next_move - time.monotonic()))
    met.errors += [f"pupil {number} was told: {words}" for words in pupil.seen.alerts]
    with contextlib.suppress(OSError):
        pupil.end()


def _moves(pupil: Pupil, draw: random.Random, met: Moves, clock: Clock, tell: bool) -> None:
    value = TEMPERATURE.write(round(draw.uniform(0.2, 5), 3))
    seq = int(pupil.slider["seq"]) + 1
    began, hostile = time.monotonic(), clock.hostile()
    seconds, _ = pupil.frame(value, seq)
    if clock.counts(began) and began < clock.end:
        (met.beside if hostile else met.alone).append(seconds)
    if tell:
        pupil.tell(value, seq + 1)


# ---- what it says -------------------------------------------------------------------------------


def measured(pupils: int, window: float, rounds: int, kind: str) -> Moves:
    """The app as on a public address, a class, and hostile visitors."""
    met = Moves()
    public = {one.variable: one.default for one in settings.SHARES}
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            environment({settings.ROOTS.variable: folder} | public),
            running_app() as url,
        ):
            met = lesson(url, Path(folder), pupils, window, rounds, kind)
    except RuntimeError as error:  # a traceback in the server's log
        if not met.alone:
            raise
        met.errors.append(f"the server's log: {str(error).strip().splitlines()[-1]}")
    return met


def section(met: Moves, pupils: int, window: float, rounds: int, kind: str) -> Section:
    """What the results say."""
    notes = (
        f"{pupils} pupils move a slider every {EVERY:g} s, each with its own sentence; of "
        f"{2 * rounds} windows of {window:.0f} s every second one has hostile visitors: "
        f"{NOTES[kind]} Clients and server share one machine."
    )
    table: list[Row] = [("move to frame", "times", "p50", "p95", "slowest")]
    for name, times in (("without them", met.alone), ("beside them", met.beside)):
        found = (median(times), slow(times), max(times))
        table.append((name, str(len(times)), *(f"{t:.2f} s" for t in found)))
    table += [("**hostile**", "**times**", "", "", "")]
    table += [(name, str(times), "", "", "") for name, times in met.attacks.items()]
    budgets = [
        Budget("frames' p95 beside them, times that without", slow(met.beside) / slow(met.alone),
               WORST),
        Budget("errors", len(met.errors), 0),
    ]  # fmt: skip
    return Section("Soak: a class beside hostile visitors", notes, table, budgets)


def main() -> int:
    parser = argparse.ArgumentParser(description="A class beside hostile visitors.")
    parser.add_argument("--pupils", type=int, default=PUPILS)
    parser.add_argument("--window", type=float, default=WINDOW)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--attack", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=ATTACKS, default="all")
    asked = parser.parse_args()
    if asked.attack:
        attack(asked.attack, asked.folder, asked.kind)
    met = measured(asked.pupils, asked.window, asked.rounds, asked.kind)
    found = section(met, asked.pupils, asked.window, asked.rounds, asked.kind)
    print(found.text, *met.errors[:20], sep="\n")
    whole = asked.kind == "all" and asked.pupils >= PUPILS
    if whole and asked.window >= WINDOW and asked.rounds >= ROUNDS:
        write(found)
    return int(not all(budget.kept for budget in found.budgets))


if __name__ == "__main__":
    sys.exit(main())
