"""A class beside hostile visitors: what pupils' frames take with and without them, in turns.

    python -m benchmarks.hostile [--pupils 30] [--window 30] [--rounds 4] [--kind flood]

With ``--kind flood`` one visitor sends messages without end, uploads without a length, and opens
links to trace files that claim more than they hold. It is not written down.

Five visitors of another process bring endless files, flood the server with frames (two of them),
type long texts and read slowly. They are quiet in every other window, so that whatever else the
machine does meets both halves. As much as this by default, or more, is written down in RESULTS.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
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
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import safetensors.numpy
from websockets.sync.client import connect
from websockets.typing import Subprotocol

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
STREAM, WS = "/_stcore/stream", Subprotocol("streamlit")


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
    words = [sys.executable, "-m", "benchmarks.hostile", "--attack", url, "--folder", str(folder)]
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


def sends(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Sends messages of two bytes ("run again") without end; connects anew when it is put out."""
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            stream = url.replace("http", "ws") + STREAM
            with contextlib.suppress(Exception), connect(stream, subprotocols=[WS]) as line:
                _sends_until(line, on)  # until it is put out
            time.sleep(0.5)
            yield


def _sends_until(line: Any, on: threading.Event) -> None:
    """Send as fast as the line takes it, until the attack pauses or the server closes it."""

    def send() -> None:
        with contextlib.suppress(Exception):
            while on.is_set():
                line.send(b"\x5a\x00")

    worker = threading.Thread(target=send, daemon=True)
    worker.start()
    while worker.is_alive() and on.is_set():
        time.sleep(0.2)
    line.socket.close()


def uploads(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Uploads 50 MB after another that do not say their length, to its own visit."""
    pupil = Pupil(url)
    pupil.open(SHARED)
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            with contextlib.suppress(OSError, http.client.HTTPException):
                _upload(pupil, number, on)
            yield
            time.sleep(0.05)


def _upload(pupil: Pupil, number: int, on: threading.Event) -> None:
    def body() -> Iterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n'
        for _ in range(800):
            if on.is_set():
                yield bytes(65_536)
        yield b"\r\n--x--\r\n"

    line = http.client.HTTPConnection(pupil.host, timeout=20)
    cookies = dict(one.split("=", 1) for one in pupil.headers.get("Cookie", "").split("; ") if one)
    headers = {
        "Content-Type": "multipart/form-data; boundary=x",
        "X-Xsrftoken": cookies.get("_streamlit_xsrf", ""),
    }
    with contextlib.closing(line):
        path = f"/_stcore/upload_file/{pupil.seen.session}/{number}"
        line.request("PUT", path, body(), pupil.headers | headers, encode_chunked=True)
        line.getresponse().read()


def traces(url: str, folder: Path, on: threading.Event, over: threading.Event) -> Iterator[None]:
    """Opens links to one trace file after the other whose words claim far more than it holds."""
    words = {"format": 1, "produced": {"probability": {"dtype": "S400000000", "values": ["a"] * 9}}}
    number = 0
    while not over.is_set():
        on.wait(1)
        if on.is_set():
            number += 1
            path = folder / f"trace-{number}.safetensors"
            text = json.dumps(words | {"manifest": [[]] * 100_000})
            path.write_bytes(safetensors.numpy.save({"a": np.ones(1)}, {"trace": text}))
            pupil = Pupil(url)
            with contextlib.suppress(Exception):  # it is refused
                pupil.open(SHARED | {"model": f"path:{path}"})
            pupil.end()
            path.unlink()
            yield


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


ATTACKS: dict[str, tuple[Attack, ...]] = {
    "all": (floods, floods, brings, types, dawdles),
    # One visitor who floods with what no visit is counted by.
    "flood": (sends, uploads, traces),
}

NOTES = {
    "all": f"two ask for {FLOOD} frames a second each, one brings checkpoints that take long to be "
    f"refused, one types 60 Chinese letters after another, one holds {SLOW_SOCKETS} half requests.",
    "flood": "one socket sends messages without end, one visit uploads 50 MB after another without "
    "a length, one opens links to trace files that claim more than they hold.",
}


def attack(url: str, folder: Path, kind: str) -> None:
    """Be all of a kind: ``go`` and ``stop`` come on the standard input."""
    on, over = threading.Event(), threading.Event()
    attacks = ATTACKS[kind]
    done = [0] * len(attacks)

    def lives(number: int) -> None:
        for _ in attacks[number](url, folder, on, over):
            done[number] += 1

    for number in range(len(attacks)):
        threading.Thread(target=lives, args=(number,), daemon=True).start()
    time.sleep(10)
    print("ready", flush=True)
    for line in sys.stdin:
        on.set() if line.strip() == "go" else on.clear()
    on.clear()
    over.set()
    names = [f"{one.__name__} {n}" for n, one in enumerate(attacks)]
    print(json.dumps(dict(zip(names, done, strict=True))), flush=True)
    os._exit(0)


# ---- what it says -------------------------------------------------------------------------------


def measured(pupils: int, window: float, rounds: int, kind: str) -> Moves:
    """The app as on a public address, a class, and hostile visitors."""
    met = Moves()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            environment({"TRANSFORMER_VIZ_ROOTS": folder}),
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
