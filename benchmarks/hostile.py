"""A class beside hostile visitors: what pupils' frames take with and without them, in turns.

    python -m benchmarks.hostile [--pupils 30] [--window 30] [--rounds 4]

Five visitors of another process bring endless files, flood the server with frames (two of them),
type long texts and read slowly. They are quiet in every other window, so that whatever else the
machine does meets both halves. As much as this by default, or more, is written down in RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlencode, urlsplit

from benchmarks.class_section import slow
from benchmarks.endurance import environment
from benchmarks.pupil import Pupil
from benchmarks.pupils import SHARED, sentence_of
from benchmarks.report import Budget, Row, Section, write
from tests.support.browser import running_app
from tests.support.paths import ROOT
from transformer_viz.components.edit_sliders import TEMPERATURE

PUPILS, WINDOW, ROUNDS = 30, 30.0, 4
EVERY, TELLS = 2.0, 4  # seconds from move to move; every so many the page is told
WORST = 1.5  # times the frames' p95 that it may be beside hostile visitors
SETTLE = 5.0  # seconds of each window that are not counted: what was begun before ends
FLOOD = 60  # frames a second that a flooder asks for, twice what a visit may have
SLOW_SOCKETS = 20


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


def lesson(url: str, folder: Path, pupils: int, window: float, rounds: int) -> Moves:
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
    words = [sys.executable, "-m", "benchmarks.hostile", "--attack", url, "--folder", str(folder)]
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


# ---- the hostile ones, in a process of their own -------------------------------------------------

Attack = Callable[[str, Path, threading.Event, threading.Event], Iterator[None]]


def floods(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Asks for frames without waiting for any, and reads what comes."""
    pupil = Pupil(url)
    pupil.open(SHARED)
    pupil.type("The dog and the cat are not friends of the old man who feeds them.")
    host, line = pupil.host, pupil.slider["line"]
    seq = int(pupil.slider["seq"])

    def ask(seq: int) -> None:
        words = urlencode({"temperature": f"{0.2 + seq % 977 / 300:.3f}", "seq": seq})
        text = f"GET /{quote(line)}?{words} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        with (
            contextlib.suppress(OSError),
            socket.create_connection(_place(url), timeout=20) as one,
        ):
            one.sendall(text.encode())
            while one.recv(1 << 16):
                pass

    while not over.is_set():
        on.wait(1)
        if on.is_set():
            seq += 1
            threading.Thread(target=ask, args=(seq,), daemon=True).start()
            time.sleep(1 / FLOOD)
            yield


def brings(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Opens one checkpoint after the other that takes all the time it may."""
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 512}
    config |= {"num_hidden_layers": 24, "num_attention_heads": 8, "intermediate_size": 2048}
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            place = folder / f"endless-{number}"
            place.mkdir()
            (place / "config.json").write_text(json.dumps(config | {"vocab_size": 9_000 + number}))
            (place / "model.safetensors").write_bytes(_endless(number))
            pupil = Pupil(url)
            with contextlib.suppress(Exception):  # it is refused, or takes too long
                pupil.open(SHARED | {"model": f"path:{place}"})
            pupil.end()
            yield


def _endless(number: int) -> bytes:
    """Safetensors of very many small tensors: they take long to be compared with a model."""
    header = {
        f"bert.encoder.layer.{n}.output.dense.weight": {
            "dtype": "F32", "shape": [1], "data_offsets": [4 * n, 4 * n + 4]
        }
        for n in range(60_000 + number)
    }  # fmt: skip
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(4 * len(header))


def types(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Types long texts that no vocabulary knows, each of which is translated."""
    draw, pupil = random.Random(1), Pupil(url)
    pupil.open(SHARED)
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            with contextlib.suppress(Exception):  # too long a wait
                pupil.type("".join(chr(draw.randint(0x4E00, 0x9FFF)) for _ in range(60)))
            yield


def dawdles(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Opens connections, says half a request on each, and reads nothing."""
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            held = [socket.create_connection(_place(url)) for _ in range(SLOW_SOCKETS)]
            for one in held:
                one.sendall(b"GET / HTTP/1.1\r\nHost: " + _place(url)[0].encode())
            for _ in range(20):
                if on.is_set():
                    time.sleep(0.5)
            for one in held:
                one.close()
            yield


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


ATTACKS: tuple[Attack, ...] = (floods, floods, brings, types, dawdles)


def attack(url: str, folder: Path) -> None:
    """Be the five of them: ``go`` and ``stop`` come on the standard input."""
    on, over = threading.Event(), threading.Event()
    done = [0] * len(ATTACKS)

    def lives(number: int) -> None:
        for _ in ATTACKS[number](url, folder, on, over):
            done[number] += 1

    for number in range(len(ATTACKS)):
        threading.Thread(target=lives, args=(number,), daemon=True).start()
    time.sleep(10)
    print("ready", flush=True)
    for line in sys.stdin:
        on.set() if line.strip() == "go" else on.clear()
    on.clear()
    over.set()
    names = [f"{one.__name__} {n}" for n, one in enumerate(ATTACKS)]
    print(json.dumps(dict(zip(names, done, strict=True))), flush=True)
    os._exit(0)


# ---- what it says -------------------------------------------------------------------------------


def measured(pupils: int, window: float, rounds: int) -> Moves:
    """The app as on a public address, a class, and hostile visitors."""
    with (
        tempfile.TemporaryDirectory() as folder,
        environment({"TRANSFORMER_VIZ_ROOTS": folder}),
        running_app() as url,
    ):
        return lesson(url, Path(folder), pupils, window, rounds)


def section(met: Moves, pupils: int, window: float, rounds: int) -> Section:
    """What the results say."""
    notes = (
        f"{pupils} pupils move a slider every {EVERY:g} s, each with its own sentence; of "
        f"{2 * rounds} windows of {window:.0f} s every second one has five hostile visitors: two "
        f"ask for {FLOOD} frames a second each, one brings checkpoints that take long to be "
        f"refused, one types 60 Chinese letters after another, one holds {SLOW_SOCKETS} half "
        "requests. Clients and server share one machine."
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
    asked = parser.parse_args()
    if asked.attack:
        attack(asked.attack, asked.folder)
    met = measured(asked.pupils, asked.window, asked.rounds)
    found = section(met, asked.pupils, asked.window, asked.rounds)
    print(found.text, *met.errors[:20], sep="\n")
    if asked.pupils >= PUPILS and asked.window >= WINDOW and asked.rounds >= ROUNDS:
        write(found)
    return int(not all(budget.kept for budget in found.budgets))


if __name__ == "__main__":
    sys.exit(main())
